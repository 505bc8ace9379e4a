"""Wire protocols that callers speak: their JSON to and from the canonical call, one module each."""
