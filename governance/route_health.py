"""How routes are: which rest and why, which nothing can select, and what their providers say when they are asked.

A page, the API and the commands ask here. Asking providers is free of charge: each lists its models, and is asked for
nothing else.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from django.conf import settings

from governance.audit.actions import Author
from governance.changes.circuits import rest_route
from governance.decisions import NOBODY, Standing, decide_once
from governance.gateway import home
from governance.gateway.service import Service, standing_now
from routing.circuits import RouteState
from routing.core.breaker import SETTLED_REST, CircuitState
from routing.core.catalogue import ModelSpec
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.core.requirements import Requirements
from routing.core.vocabulary import RejectionReason, RestCause
from routing.endpoints import endpoint_of
from routing.models import Provider
from routing.providers.registry import adapter_for
from routing.vault import Vault

SECONDS_TO_LIST = 20.0
"""How long a provider may take to list its models."""


class Access(StrEnum):
    """What a route's provider says of it. That it could not be asked never reads as a refusal."""

    READY = "ready"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RouteHealth:
    """One route in service. ``unusable`` says why nothing can select it; empty if something can."""

    model: ModelSpec
    state: RouteState
    unusable: str

    @property
    def is_resting(self) -> bool:
        """Whether calls pass it over, or the next one tries it."""
        return self.state.state is not CircuitState.CLOSED


@dataclass(frozen=True, slots=True)
class Preflighted:
    """What came of asking a route's provider, in a sentence."""

    model: ModelSpec
    access: Access
    why: str


def read_routes() -> tuple[RouteHealth, ...]:
    """Every route in service, those that rest first, by name."""
    standing = standing_now()
    unselected = _unselected(standing, datetime.now(UTC))
    found = [
        RouteHealth(
            model=model,
            state=standing.circuits.state(model.identifier),
            unusable=_why_unusable(standing.snapshot.providers, model) or unselected.get(model.identifier, ""),
        )
        for model in standing.snapshot.catalogue.models
    ]
    return tuple(sorted(found, key=lambda each: (not each.is_resting, each.model.route)))


def preflight(*, author: Author, reason: str = "") -> tuple[Preflighted, ...]:
    """Ask every route's provider what it lists. A route that is denied rests for the settled time; the others are left
    as they are, and none is dropped."""
    standing = standing_now()
    snapshot = standing.snapshot
    listed = home.wait(lambda service: _list_all(service, snapshot.providers)) if snapshot.providers else {}
    found = tuple(
        _judged(model, listed[model.provider.identifier])
        for model in sorted(snapshot.catalogue.models, key=lambda each: each.route)
    )
    for each in found:
        if each.access is Access.DENIED:
            rest_route(
                standing.circuits,
                each.model.identifier,
                seconds=SETTLED_REST,
                author=author,
                reason=f"Denied at preflight. {reason}".strip(),
                cause=RestCause.PREFLIGHT,
            )
    return found


async def _list_all(service: Service, providers: Mapping[str, Provider]) -> Mapping[str, tuple[str, ...] | Failure]:
    answers = await asyncio.gather(*(_list(service, provider) for provider in providers.values()))
    return dict(zip(providers, answers, strict=True))


async def _list(service: Service, provider: Provider) -> tuple[str, ...] | Failure:
    try:
        endpoint = endpoint_of(provider, vault=_vault())
        async with asyncio.timeout(SECONDS_TO_LIST):
            return await adapter_for(endpoint.adapter_type).list_models(
                endpoint=endpoint, transport=service.services.transport
            )
    except CallFailed as failed:
        return failed.failure
    except TimeoutError:
        return Failure(FailureKind.TIMEOUT, f"it lists no models within {SECONDS_TO_LIST:g} s")


def _judged(model: ModelSpec, listed: tuple[str, ...] | Failure) -> Preflighted:
    if isinstance(listed, Failure):
        denied = listed.kind is FailureKind.AUTH
        words = "it lists no models" if listed.kind is FailureKind.NOT_FOUND else listed.message
        return Preflighted(model, Access.DENIED if denied else Access.UNKNOWN, words)
    if not listed:
        return Preflighted(model, Access.UNKNOWN, "it lists no models")
    if model.model_id in listed:
        return Preflighted(model, Access.READY, "the key is accepted, and the model is listed")
    return Preflighted(model, Access.DENIED, f"{model.model_id} is not among the {len(listed)} models that it lists")


def _unselected(standing: Standing, now: datetime) -> Mapping[str, str]:
    """The models that nothing can select, each with the reason.

    Asked is as nobody in particular. What a budget's ladder names, somebody's calls go to once it is past that tier.
    """
    decisions = [
        decide_once(standing, configuration, requirements=Requirements(), now=now, who=NOBODY)
        for configuration in standing.snapshot.configurations.values()
        if configuration.is_active
    ]
    refused = [(each.model.identifier, each.rejection) for decision in decisions for each in decision.refused]
    past = {
        model: rejection.detail
        for model, rejection in refused
        if rejection is not None and rejection.reason is RejectionReason.BUDGET_TARGET_ONLY
    }
    chosen = {each.model.identifier for decision in decisions for each in decision.eligible}
    chosen.update(target for budget in standing.budgets.budgets for tier in budget.tiers for target in tier.targets)
    return {
        model: past.get(model, "no configuration in service can choose it")
        for model in standing.snapshot.catalogue.by_identifier
        if model not in chosen
    }


def _why_unusable(providers: Mapping[str, Provider], model: ModelSpec) -> str:
    try:
        endpoint_of(providers[model.provider.identifier], vault=_vault())
    except CallFailed as failed:
        return failed.failure.message
    return ""


def _vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)


def unusable_among(routes: Sequence[RouteHealth]) -> list[RouteHealth]:
    """Those that nothing can select."""
    return [each for each in routes if each.unusable]


def resting_among(routes: Sequence[RouteHealth]) -> list[RouteHealth]:
    """Those that rest, or that the next call tries."""
    return [each for each in routes if each.is_resting]
