"""The admin, through the test client."""
