"""The gateway, from the outside and layer by layer."""
