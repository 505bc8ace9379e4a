"""For English."""
