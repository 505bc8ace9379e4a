"""The ASGI application: one function that looks at what comes in and hands it to who answers it.

Calls below /v1/ go to the gateway's own handler. Static files never reach Django, and the lifespan protocol, which
Django does not speak, is answered here: the gateway is opened and closed with the process.
"""

import gc
import logging
import os
from typing import cast

from django.core.asgi import get_asgi_application
from starlette.types import ASGIApp, Receive, Scope, Send

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.project.settings.installation")

_pages = cast("ASGIApp", get_asgi_application())

# Behind the line above, which makes the records importable.
from governance.gateway.handler import GatewayHandler  # noqa: E402
from governance.gateway.service import close_service, open_service  # noqa: E402
from governance.project.http.bodies import BoundedBodies  # noqa: E402
from governance.project.http.connections import close_connections_with_the_page  # noqa: E402
from governance.project.http.correlation import Correlated  # noqa: E402
from governance.project.http.static_files import static_application  # noqa: E402

gateway = Correlated(cast("ASGIApp", GatewayHandler()))
pages = Correlated(BoundedBodies(_pages))
static_files = static_application()
close_connections_with_the_page()

logger = logging.getLogger(__name__)

_OBJECTS_BETWEEN_LOOKS = 10_000  # Python's own 700 are made within a call or two


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await answer_lifespan(receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
    elif _path(scope).startswith("/v1/"):
        await gateway(scope, receive, send)
    elif _path(scope).startswith("/static/"):
        await static_files(scope, receive, send)
    else:
        await pages(scope, receive, send)


def _path(scope: Scope) -> str:
    """The path as we know it, without the prefix under which a proxy shows us: ASGI keeps `--root-path` in it."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path


async def answer_lifespan(receive: Receive, send: Send) -> None:
    """Open the gateway before the first request, close it after the last."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await open_service()
            except Exception as error:
                # Said aloud: a server takes an exception for "no lifespan here" and would go on without a gateway.
                logger.exception("the gateway cannot be opened")
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            _keep_what_is_there()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await close_service()
            await send({"type": "lifespan.shutdown.complete"})
            return


def _keep_what_is_there() -> None:
    """Tell the collector of garbage that what was loaded so far stays, and to look less often at what comes.

    It would look through half a million objects of a started process again and again, none of which ever goes. That
    was a sixth of the processor time of a call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, 10, 10)
