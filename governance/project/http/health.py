"""The two questions a supervisor asks: is the process alive (`/healthz`), and should it get traffic
(`/readyz`)?

Liveness depends on nothing: a database that is away is no reason to restart the web process. Readiness is what
`governance.project.http.readiness` finds: 200 or 503, and every check with its condition as JSON.

Answered by a middleware rather than by a URL, because probes come over plain HTTP with an address as their
host name: the host check and the redirect to HTTPS, both needed for everybody else, would turn each of them
away.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from governance.project.http.readiness import Finding, Watch

LIVENESS_PATH = "/healthz"
READINESS_PATH = "/readyz"

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]

watch = Watch()
"""This process's."""


def answer_liveness() -> JsonResponse:
    return _answer({"status": "alive"}, status=200)


def answer_readiness() -> JsonResponse:
    readiness = watch.readiness()
    checks = {name: _described(finding) for name, finding in readiness.findings.items()}
    failure = readiness.failure
    if failure is None:
        return _answer({"status": "ready", "checks": checks}, status=200)
    body = {"status": "not ready", "reason": failure.reason, "detail": failure.detail, "checks": checks}
    return _answer(body, status=503)


def _described(finding: Finding) -> dict[str, Any]:
    """A finding as it may be shown to anyone: without its cause."""
    told = {} if finding.reason is None else {"reason": finding.reason, "detail": finding.detail}
    return {"status": finding.condition, **told, **finding.figures}


@sync_and_async_middleware
def answer_probes(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Middleware: answers the two paths and passes everything else on."""
    if iscoroutinefunction(get_response):
        answer_later = cast("AsyncHandler", get_response)

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            if request.path_info == LIVENESS_PATH:
                return answer_liveness()
            if request.path_info == READINESS_PATH:
                return await sync_to_async(answer_readiness)()
            return await answer_later(request)

        return respond_async

    answer = cast("Handler", get_response)

    def respond(request: HttpRequest) -> HttpResponseBase:
        if request.path_info == LIVENESS_PATH:
            return answer_liveness()
        if request.path_info == READINESS_PATH:
            return answer_readiness()
        return answer(request)

    return respond


def _answer(body: Mapping[str, Any], *, status: int) -> JsonResponse:
    return JsonResponse(dict(body), status=status, headers={"Cache-Control": "no-store"})
