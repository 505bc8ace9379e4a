"""Adapters: one file a vendor, its differences only. No adapter knows another."""
