"""The records of routing, and what is made of them."""
