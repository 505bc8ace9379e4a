"""The ASGI application: one function that looks at what comes in and hands it to who answers it.

Static files never reach Django, and the lifespan protocol, which Django does not speak, is answered here.
"""

import os

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from django.conf import settings
from django.core.asgi import get_asgi_application

from governance.project.http.static_files import static_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.project.settings.installation")

pages = get_asgi_application()
static_files = static_application()


async def application(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    if scope["type"] == "lifespan":
        await answer_lifespan(receive, send)
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000, "reason": None})
    elif scope["path"].startswith(settings.STATIC_URL):
        await static_files(scope, receive, send)
    else:
        await pages(scope, receive, send)


async def answer_lifespan(receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
    """Say yes to the start and to the end. What must be opened and closed with the process goes here."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
