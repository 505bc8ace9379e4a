"""Settings that operators change."""
