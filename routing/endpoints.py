"""From a provider's row to the endpoint an adapter is handed: address, key in the clear, time-outs.

Endpoints are kept for as long as the snapshot they were made of, so that a key is opened once per change and not once
per call.
"""

import logging
from collections.abc import Mapping
from typing import Protocol

from routing.core.failures import Failure, FailureKind, RouteUnusable
from routing.core.vocabulary import Reach
from routing.credentials import read_key
from routing.models import Provider
from routing.providers.base import Endpoint, Timeouts
from routing.providers.registry import ADAPTER_TYPES
from routing.snapshots import CatalogueSnapshot
from routing.vault import Vault, VaultError

logger = logging.getLogger(__name__)


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
        self._unusable: dict[str, Failure] = {}

    def of(self, standing: HasSnapshot, provider: str) -> Endpoint:
        """The endpoint of a provider in a snapshot.

        Raises:
            RouteUnusable: its key does not open, or its adapter type or a time-out is none; another route may serve.
        """
        providers = standing.snapshot.providers
        if providers is not self._providers:
            self._providers, self._endpoints, self._unusable = providers, {}, {}
        endpoint = self._endpoints.get(provider)
        if endpoint is None:
            endpoint = self._endpoints[provider] = self._make(providers[provider])
        return endpoint

    def _make(self, row: Provider) -> Endpoint:
        """Make an endpoint. One that cannot be made is told in the log once, and not tried again until it changes."""
        if row.identifier in self._unusable:
            raise RouteUnusable(self._unusable[row.identifier])
        try:
            return endpoint_of(row, vault=self._vault)
        except RouteUnusable as unusable:
            self._unusable[row.identifier] = unusable.failure
            logger.error("calls pass over the routes of %s", unusable.failure.message)
            raise


def endpoint_of(row: Provider, *, vault: Vault) -> Endpoint:
    """Build one endpoint; see :meth:`Endpoints.of` for errors."""
    kind = ADAPTER_TYPES.get(row.adapter_type)
    if kind is None:
        raise RouteUnusable(
            Failure(
                FailureKind.NOT_FOUND,
                f"provider {row.identifier}: there is no adapter type {row.adapter_type!r}; "
                f"choose one of {', '.join(sorted(ADAPTER_TYPES))}",
            )
        )
    try:
        key = read_key(row, vault=vault)
    except VaultError as error:
        raise RouteUnusable(
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
        raise RouteUnusable(Failure(FailureKind.NOT_FOUND, f"provider {row.identifier}: {error}")) from None
    return Endpoint(
        provider=row.identifier,
        adapter_type=row.adapter_type,
        base_url=row.base_url or kind.base_url,
        api_key=key,
        organization=row.organization,
        api_version=row.api_version,
        timeouts=timeouts,
        allow_http=row.reach == Reach.SELF_HOSTED,
        max_concurrent=row.max_concurrent,
    )
