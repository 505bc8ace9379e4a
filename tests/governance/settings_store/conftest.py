"""The gateway and its world, as the gateway's own tests have them."""

from tests.governance.gateway.conftest import gateway, loop_thread, outbound, tables, upstreams, world

__all__ = ["gateway", "loop_thread", "outbound", "tables", "upstreams", "world"]
