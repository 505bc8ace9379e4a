"""Addresses at which somebody may wait. The framework knows no asynchronous views; here one is run by hand, in the same
order and with the same failures as all others.

Whatever looks into the database crosses to the gateway's few threads and is done there; while a request waits it holds
neither a connection nor one of them.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.exceptions import MethodNotAllowed

from governance.api.views import ApiView
from governance.gateway.service import opened_service

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


async def cross(function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
    """Do something that needs the database; in a process without a gateway in the request's own thread."""
    service = opened_service()
    if service is None:
        return await sync_to_async(function)(*args, **kwargs)
    return await service.cross(function, *args, **kwargs)


class AwaitedView(ApiView):
    """One address whose handlers are coroutines."""

    async def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        """Admit the request, run its handler, and answer what either of them raises."""
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await cross(self.initial, self.request, *args, **kwargs)
            known = str(self.request.method).lower() in self.http_method_names
            handler = getattr(self, str(self.request.method).lower(), None) if known else None
            if handler is None:
                raise MethodNotAllowed(str(self.request.method))
            response = await handler(self.request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001  # answered, and logged where it is a fault of our own
            response = self.handle_exception(error)
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self.response
