"""A TCP port on loopback that nobody listens on."""

import socket


def find_free_port() -> int:
    """Free at the moment of asking; whoever binds it should be ready to ask again."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
