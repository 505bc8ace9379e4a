"""The gateway's fixtures for everything that makes calls through it."""

from tests.governance.gateway.conftest import gateway, loop_thread, outbound, tables, tls, upstreams, world

__all__ = ["gateway", "loop_thread", "outbound", "tables", "tls", "upstreams", "world"]
