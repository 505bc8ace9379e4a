"""Calls from inside: the test buttons of the admin, which walk through the same stack as everybody's calls.

Pages are synchronous and the service lives on the server's event loop, so a page hands its question over to that loop
and waits for the answer in its own thread.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.conf import settings

from governance.access.directory import Caller
from governance.gateway.context import CallContext
from governance.gateway.protocols import openai_chat
from governance.gateway.service import Service, current_service
from governance.gateway.stack import run
from routing.core.calls import CallReply, Text, Usage
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.core.money import Money
from routing.core.requirements import UNLIMITED
from routing.endpoints import endpoint_of
from routing.models import Provider
from routing.providers.registry import adapter_for
from routing.vault import Vault

SOURCE = "admin-test"
"""What rows of these calls name as their source."""

SECONDS = 120.0
"""How long a page waits."""

_CALLER = Caller(
    key="",
    application="",
    allowed_configurations=None,
    allowed_models=None,
    may_name_models=True,
    expires_at=None,
    source=SOURCE,
)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Trial:
    """How a call went. Without a failure ``route`` is what answered; figures that nobody reported are ``None``."""

    call_id: UUID
    answer: str
    route: str
    response_model: str
    latency_ms: float | None
    usage: Usage | None
    cost: Money | None
    attempts: int
    failure: Failure | None


def ask(*, target: str, prompt: str, user: str) -> Trial:
    """Ask a configuration, or a model by its route, as an application would.

    Raises:
        CallFailed: there was no call: this process has no gateway, or the answer did not come in time.
    """
    service = _service()
    return _wait(service, _ask(service, target=target, prompt=prompt, user=user))


def list_models(provider: Provider) -> tuple[str, ...]:
    """The ids of the models that a provider's key may use: a check that costs nothing.

    Raises:
        CallFailed: the provider cannot be asked, or did not answer.
    """
    service = _service()
    endpoint = endpoint_of(provider, vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS))
    adapter = adapter_for(endpoint.adapter_type)
    return _wait(service, adapter.list_models(endpoint=endpoint, transport=service.services.transport))


async def _ask(service: Service, *, target: str, prompt: str, user: str) -> Trial:
    await service.refresh()  # what was changed a moment ago counts
    in_force = service.in_force
    if in_force is None:
        raise CallFailed(Failure(FailureKind.TRANSIENT, "Signalbox cannot read its records; is the database there?"))
    body = orjson.dumps({"model": target, "messages": [{"role": "user", "content": prompt}]})
    context = CallContext.begin(
        caller=_CALLER,
        request=openai_chat.read_request(body),
        limits=UNLIMITED,
        standing=in_force.standing,
        services=service.services,
        user=user,
        source=SOURCE,
    )
    service.calls_under_way += 1
    failure, reply = None, None
    try:
        answer = await run(context)
        reply = answer if isinstance(answer, CallReply) else None
    except CallFailed as failed:
        failure = failed.failure
    finally:
        service.calls_under_way -= 1
    notes = context.notes
    served = notes.served
    return Trial(
        call_id=context.call_id,
        answer="" if reply is None else "".join(each.text for each in reply.events if isinstance(each, Text)),
        route="" if served is None else served.step.model.route,
        response_model="" if served is None else served.response_model,
        latency_ms=None if served is None or served.ended is None else (served.ended - context.started) * 1000,
        usage=None if served is None else served.usage,
        cost=None if served is None else served.cost,
        attempts=len(notes.attempts),
        failure=failure or notes.failure,
    )


def _service() -> Service:
    try:
        return current_service()
    except RuntimeError as closed:
        raise CallFailed(Failure(FailureKind.TRANSIENT, str(closed))) from None


def _wait(service: Service, question: Coroutine[Any, Any, Result]) -> Result:
    if service.loop is None:
        question.close()
        raise CallFailed(Failure(FailureKind.TRANSIENT, "the gateway is still being opened"))
    future = asyncio.run_coroutine_threadsafe(question, service.loop)
    try:
        return future.result(SECONDS)
    except TimeoutError:
        future.cancel()
        raise CallFailed(Failure(FailureKind.TIMEOUT, f"no answer came within {SECONDS:.0f} seconds")) from None
