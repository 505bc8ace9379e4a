"""Surfaces and policy."""
