"""The commands of governance."""
