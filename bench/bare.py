"""The least that a gateway could be: an ASGI application that hands the body on with aiohttp and hands the answer back.

It knows no key, decides nothing and records nothing. What it costs on a machine is what any gateway in Python costs
there, so that the rest of a figure is Signalbox. ``UPSTREAM`` is the address to hand on to.
"""

import os

import aiohttp
from starlette.types import Receive, Scope, Send


class Bare:
    """The application. One session for the process."""

    def __init__(self, upstream: str) -> None:
        self._url = f"{upstream}/v1/chat/completions"
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        body = (await receive())["body"]
        assert self._session is not None
        async with self._session.post(self._url, data=body, headers={"content-type": "application/json"}) as answer:
            kind = answer.headers["content-type"].encode()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
            async for piece in answer.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1000))
                await send({"type": "lifespan.startup.complete"})
            else:
                if self._session is not None:
                    await self._session.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


application = Bare(os.environ.get("UPSTREAM", "http://127.0.0.1:1"))
