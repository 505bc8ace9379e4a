"""The ASGI application: one function that looks at what comes in and hands it to who answers it.

Static files never reach Django, and the lifespan protocol, which Django does not speak, is answered here.
"""

import os
from typing import cast

from django.core.asgi import get_asgi_application
from starlette.types import ASGIApp, Receive, Scope, Send

from governance.project.http.connections import close_connections_with_the_page
from governance.project.http.static_files import static_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.project.settings.installation")

pages = cast("ASGIApp", get_asgi_application())
static_files = static_application()
close_connections_with_the_page()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        await answer_lifespan(receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
    elif scope["path"].startswith("/static/"):
        await static_files(scope, receive, send)
    else:
        await pages(scope, receive, send)


async def answer_lifespan(receive: Receive, send: Send) -> None:
    """Say yes to the start and to the end. What must be opened and closed with the process goes here."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
