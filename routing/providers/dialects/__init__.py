"""Wire dialects: shared codecs between a protocol's bytes and the canonical call. No sockets, no clocks."""
