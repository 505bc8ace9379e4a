"""A program that talks to the API."""

from typing import Any, Protocol

import orjson
from django.test import Client

PASS_PHRASE = "a long pass phrase"


class Answer(Protocol):
    """What came back."""

    status_code: int
    headers: Any
    content: bytes

    def json(self) -> Any:
        """The document."""


class Program:
    """A client that sends JSON, below /api/v1/. With a secret it shows a key; logged in, it sends the token that the
    server wants to see, which it asks for once."""

    def __init__(self, secret: str = "") -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.secret = secret

    def send(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        version: str | None = "*",
        token: bool = True,
        **meta: Any,
    ) -> Answer:
        """Send a request; ``version`` goes into If-Match where a change is sent."""
        headers: dict[str, str] = {}
        if self.secret:
            headers["Authorization"] = f"Bearer {self.secret}"
        elif method not in ("GET", "HEAD") and token:
            headers["X-CSRFToken"] = self._token()
        if version is not None and method in ("PUT", "PATCH", "DELETE"):
            headers["If-Match"] = version
        headers |= meta.pop("headers", {})
        if document is not None:
            data = document if isinstance(document, bytes) else orjson.dumps(document)
            meta = {"data": data, "content_type": "application/json", **meta}
        address = path if path.startswith("/") else f"/api/v1/{path}"
        answer: Answer = self.client.generic(method, address, **meta, headers=headers)
        return answer

    def get(self, path: str, **settings: Any) -> Answer:
        """Read."""
        return self.send("GET", path, **settings)

    def post(self, path: str, document: Any = None, **settings: Any) -> Answer:
        """Make, or do."""
        return self.send("POST", path, document, **settings)

    def put(self, path: str, document: Any = None, **settings: Any) -> Answer:
        """Store."""
        return self.send("PUT", path, document, **settings)

    def patch(self, path: str, document: Any = None, **settings: Any) -> Answer:
        """Change."""
        return self.send("PATCH", path, document, **settings)

    def delete(self, path: str, **settings: Any) -> Answer:
        """Take away."""
        return self.send("DELETE", path, **settings)

    def _token(self) -> str:
        if "csrftoken" not in self.client.cookies:
            self.client.get("/api/v1/me")
        cookie = self.client.cookies.get("csrftoken")
        return "" if cookie is None else str(cookie.value)


def complaints(answer: Answer) -> dict[str, list[str]]:
    """What a problem says is wrong, by field."""
    found: dict[str, list[str]] = {}
    for each in answer.json()["errors"]:
        found.setdefault(each["field"], []).append(each["message"])
    return found
