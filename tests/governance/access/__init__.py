"""Who may call."""
