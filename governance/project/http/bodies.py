"""Bodies of requests that Django answers: bounded in size and time before Django sees them.

Django's own handler writes whatever comes into a temporary file before anybody has looked at who sends it, however
much it is and however long it takes.
"""

import asyncio
import json

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governance.api.exceptions import CONTENT_TYPE, PROBLEMS, ApiProblem, ProblemType, document
from governance.api.parsers import most_bytes_of_a_call, too_large
from governance.gateway.http import BODY_SECONDS
from governance.project.http.correlation import current_correlation


class BoundedBodies:
    """An ASGI application whose requests have bodies of at most ``gateway.maxBodyBytes``, arrived within a minute."""

    def __init__(self, app: ASGIApp, *, seconds: float = BODY_SECONDS) -> None:
        self._app = app
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        bounded = _Bounded(receive, limit=most_bytes_of_a_call(), seconds=self._seconds)
        if bounded.admits(scope):
            await self._app(scope, bounded.receive, send)
        if bounded.problem is not None:
            await _answer(bounded.problem, send)


class _Bounded:
    """What is received of one request, counted and timed until its body is complete.

    Whoever reads a body that is refused is told that the caller has hung up, and lets go of it.
    """

    def __init__(self, receive: Receive, *, limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._ends = asyncio.get_running_loop().time() + seconds
        self._size = 0
        self._is_complete = False
        self.problem: ApiProblem | None = None

    def admits(self, scope: Scope) -> bool:
        """Whether the body does not say itself that it is too large."""
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and (len(declared) > len(str(self._limit)) or int(declared) > self._limit):
            self.problem = too_large(self._limit)
        return self.problem is None

    async def receive(self) -> Message:
        if self._is_complete:
            return await self._receive()  # the end of the connection, for which there is no hurry
        try:
            async with asyncio.timeout_at(self._ends):
                message = await self._receive()
        except TimeoutError:
            return self._refuse(
                ApiProblem(ProblemType.BODY_TIMEOUT, f"The body did not arrive within {self._seconds:g} seconds.")
            )
        self._size += len(message.get("body", b""))
        if self._size > self._limit:
            return self._refuse(too_large(self._limit))
        self._is_complete = not message.get("more_body", False)
        return message

    def _refuse(self, problem: ApiProblem) -> Message:
        self.problem = problem
        return {"type": "http.disconnect"}


async def _answer(problem: ApiProblem, send: Send) -> None:
    """What the API says of every problem; the trace of the request names it, and puts its id on the answer."""
    content = document(problem, request_id=current_correlation() or "")
    body = json.dumps(content, ensure_ascii=False).encode()
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": PROBLEMS[problem.kind].status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
