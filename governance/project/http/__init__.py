"""What every answer of the web process has in common: probes, headers, the correlation id, static files."""
