"""The simulator behind uvicorn on a listening socket, for the management command and for tests."""

import ipaddress
import socket
from dataclasses import dataclass

import uvicorn

from governance.demo.simulator.application import Simulator

_BACKLOG = 2048
_SECONDS_KEPT_ALIVE = 75
_SECONDS_TO_STOP = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """A server that is bound to its address and not yet running; ``url`` has no trailing slash."""

    server: uvicorn.Server
    listener: socket.socket
    url: str

    def run(self) -> None:
        """Serve until ``server.should_exit`` is set, or until a signal if this is the main thread."""
        try:
            self.server.run(sockets=[self.listener])
        finally:
            self.listener.close()


def prepare(application: Simulator, *, host: str, port: int) -> Station:
    """Bind the address (port 0: any free one) and build the server; raises ``OSError`` if it is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    config = uvicorn.Config(
        application,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_SECONDS_KEPT_ALIVE,
        timeout_graceful_shutdown=_SECONDS_TO_STOP,
    )
    bound = listener.getsockname()[1]
    shown = f"[{host}]" if family == socket.AF_INET6 else host
    return Station(server=uvicorn.Server(config), listener=listener, url=f"http://{shown}:{bound}")


def is_loopback(host: str) -> bool:
    """Whether an address, or the name ``localhost``, is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
