"""What is recorded, and what is read from it."""
