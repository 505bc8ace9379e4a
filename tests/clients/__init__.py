"""Programs that others write: they must find what they expect."""
