"""Security headers that neither Django's SecurityMiddleware nor django-csp sends.

Also not theirs: a default for `Cache-Control`. What an operator may see must not lie in a proxy's cache
because a view forgot to say so; a view that says something else is left alone.
"""

from collections.abc import Awaitable, Callable
from typing import cast

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

HEADERS = {
    "Permissions-Policy": (
        "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=(), browsing-topics=()"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


@sync_and_async_middleware
def add_security_headers(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Middleware: adds each header that the answer does not carry already."""
    if iscoroutinefunction(get_response):
        answer_later = cast("AsyncHandler", get_response)

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            return _with_headers(await answer_later(request))

        return respond_async

    answer = cast("Handler", get_response)

    def respond(request: HttpRequest) -> HttpResponseBase:
        return _with_headers(answer(request))

    return respond


def _with_headers(response: HttpResponseBase) -> HttpResponseBase:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response
