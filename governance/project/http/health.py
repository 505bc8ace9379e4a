"""The two questions a supervisor asks: is the process alive (`/healthz`), and should it get traffic
(`/readyz`)?

Liveness depends on nothing: a database that is away is no reason to restart the web process. Readiness
needs a reachable database whose migrations are all applied, and names what is missing. The details of a
failure go to the log, not into the answer, which anyone may read.

Answered by a middleware rather than by a URL, because probes come over plain HTTP with an address as their
host name: the host check and the redirect to HTTPS, both needed for everybody else, would turn each of them
away.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.db import Error as DatabaseFault  # an InterfaceError is no DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

LIVENESS_PATH = "/healthz"
READINESS_PATH = "/readyz"

logger = logging.getLogger(__name__)

Handler = Callable[[HttpRequest], HttpResponseBase]
AsyncHandler = Callable[[HttpRequest], Awaitable[HttpResponseBase]]


class Unreadiness(StrEnum):
    DATABASE_UNREACHABLE = "database_unreachable"
    MIGRATIONS_PENDING = "migrations_pending"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Ready where `reason` is `None`; otherwise the reason and a sentence for people."""

    reason: Unreadiness | None
    detail: str | None


def check_readiness() -> Readiness:
    """Ask the database; one query and the table of applied migrations."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        executor = MigrationExecutor(connection)
        pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseFault:
        logger.exception("The database cannot be reached")
        return Readiness(
            reason=Unreadiness.DATABASE_UNREACHABLE,
            detail="The database cannot be reached; the log says why.",
        )
    if pending:
        names = ", ".join(f"{migration.app_label}.{migration.name}" for migration, _ in pending)
        logger.warning("Migrations are pending: %s", names)
        return Readiness(
            reason=Unreadiness.MIGRATIONS_PENDING,
            detail=f"Migrations to apply: {len(pending)}. Run `manage.py migrate`.",
        )
    return Readiness(reason=None, detail=None)


def answer_liveness() -> JsonResponse:
    return _answer({"status": "alive"}, status=200)


def answer_readiness() -> JsonResponse:
    readiness = check_readiness()
    if readiness.reason is None:
        return _answer({"status": "ready"}, status=200)
    return _answer({"status": "not ready", "reason": readiness.reason, "detail": readiness.detail}, status=503)


@sync_and_async_middleware
def answer_probes(get_response: Handler | AsyncHandler) -> Handler | AsyncHandler:
    """Middleware: answers the two paths and passes everything else on."""
    if iscoroutinefunction(get_response):
        answer_later = cast("AsyncHandler", get_response)

        async def respond_async(request: HttpRequest) -> HttpResponseBase:
            if request.path == LIVENESS_PATH:
                return answer_liveness()
            if request.path == READINESS_PATH:
                return await sync_to_async(answer_readiness)()
            return await answer_later(request)

        return respond_async

    answer = cast("Handler", get_response)

    def respond(request: HttpRequest) -> HttpResponseBase:
        if request.path == LIVENESS_PATH:
            return answer_liveness()
        if request.path == READINESS_PATH:
            return answer_readiness()
        return answer(request)

    return respond


def _answer(body: dict[str, str | None], *, status: int) -> JsonResponse:
    return JsonResponse(body, status=status, headers={"Cache-Control": "no-store"})
