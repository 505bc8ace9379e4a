"""Calls that are handed in and executed later."""
