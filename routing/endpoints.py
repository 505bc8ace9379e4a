"""From a provider's row to the endpoint an adapter is handed: address, key in the clear, time-outs.

Endpoints are kept for as long as the snapshot they were made of, so that a key is opened once per change and not once
per call.
"""

from collections.abc import Mapping
from typing import Protocol

from routing.core.failures import CallFailed, Failure, FailureKind
from routing.core.vocabulary import Reach
from routing.credentials import read_key
from routing.models import Provider
from routing.providers.base import Endpoint, Timeouts
from routing.providers.registry import ADAPTER_TYPES
from routing.snapshots import CatalogueSnapshot
from routing.vault import Vault, VaultError


class HasSnapshot(Protocol):
    """Whatever holds a catalogue snapshot."""

    @property
    def snapshot(self) -> CatalogueSnapshot:
        """The snapshot."""


class Endpoints:
    """The endpoints of one process."""

    def __init__(self, *, vault: Vault) -> None:
        self._vault = vault
        self._providers: Mapping[str, Provider] | None = None
        self._endpoints: dict[str, Endpoint] = {}

    def of(self, standing: HasSnapshot, provider: str) -> Endpoint:
        """The endpoint of a provider in a snapshot.

        Raises:
            CallFailed: its key does not open, or its adapter type or a time-out is none; another route may serve.
        """
        providers = standing.snapshot.providers
        if providers is not self._providers:
            self._providers, self._endpoints = providers, {}
        endpoint = self._endpoints.get(provider)
        if endpoint is None:
            endpoint = self._endpoints[provider] = endpoint_of(providers[provider], vault=self._vault)
        return endpoint


def endpoint_of(row: Provider, *, vault: Vault) -> Endpoint:
    """Build one endpoint; see :meth:`Endpoints.of` for errors."""
    kind = ADAPTER_TYPES.get(row.adapter_type)
    if kind is None:
        raise CallFailed(
            Failure(
                FailureKind.NOT_FOUND,
                f"provider {row.identifier}: there is no adapter type {row.adapter_type!r}; "
                f"choose one of {', '.join(sorted(ADAPTER_TYPES))}",
            )
        )
    try:
        key = read_key(row, vault=vault)
    except VaultError as error:
        raise CallFailed(
            Failure(FailureKind.AUTH, f"provider {row.identifier}: its key does not open: {error}")
        ) from None
    try:
        timeouts = Timeouts(
            connect=float(row.connect_timeout),
            first_event=float(row.first_event_timeout),
            between_events=float(row.between_events_timeout),
            total=float(row.total_timeout),
        )
    except ValueError as error:
        raise CallFailed(Failure(FailureKind.NOT_FOUND, f"provider {row.identifier}: {error}")) from None
    return Endpoint(
        provider=row.identifier,
        adapter_type=row.adapter_type,
        base_url=row.base_url or kind.base_url,
        api_key=key,
        organization=row.organization,
        timeouts=timeouts,
        allow_http=row.reach == Reach.SELF_HOSTED,
        max_concurrent=row.max_concurrent,
    )
