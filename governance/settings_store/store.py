"""Settings in force: one frozen snapshot that a call reads once. Values are stored by ``governance.changes``."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from governance.models import SettingsVersion, SettingValue
from governance.settings_store.registry import (
    ACCOUNT_DAYS,
    ASSUMED_FILE_TOKENS,
    ASSUMED_IMAGE_TOKENS,
    ASSUMED_MAX_OUTPUT,
    CALL_HISTORY,
    CONTENT_HOURS,
    CURRENCY,
    DEADLINE_SECONDS,
    DELIVERY_DAYS,
    ENTRY_DAYS,
    MAX_BATCH_CALLS,
    MAX_BODY_BYTES,
    MAX_DELIVERIES,
    OPERATION_CAPABILITY_ENFORCEMENT,
    POLICY_MODE,
    REGISTRY,
    REORDER_FALLBACK,
    RETRY_ATTEMPTS,
    RETRY_FIRST_WAIT,
    RETRY_LONGEST_WAIT,
    SUBMISSION_DAYS,
    TELEMETRY,
    Setting,
    Value,
)
from governance.settings_store.sources import pinned_settings, resolve
from routing.core.policy import RoutingPolicy
from routing.core.requirements import Assumed
from routing.core.retry import RetryPolicy
from routing.snapshots import Polled

NOTHING: Mapping[str, Any] = MappingProxyType({})


class SettingsSnapshot:
    """The settings in force at one version. A reader asks with a declaration and gets a value of its type."""

    __slots__ = ("_values", "version")

    def __init__(self, stored: Mapping[str, Any], *, version: int, pinned: Mapping[str, Any] = NOTHING) -> None:
        self.version = version
        self._values = {key: resolve(setting, stored=stored, pinned=pinned)[0] for key, setting in REGISTRY.items()}

    def __getitem__(self, setting: Setting[Value]) -> Value:
        value: Value = self._values[setting.key]
        return value

    @property
    def routing_policy(self) -> RoutingPolicy:
        """The settings a decision is handed."""
        return RoutingPolicy(
            mode=self[POLICY_MODE],
            call_history=self[CALL_HISTORY],
            enforcement=self[OPERATION_CAPABILITY_ENFORCEMENT],
            currency=self[CURRENCY],
            telemetry=self[TELEMETRY],
            assumed=Assumed(
                max_output=self[ASSUMED_MAX_OUTPUT],
                image_tokens=self[ASSUMED_IMAGE_TOKENS],
                file_tokens=self[ASSUMED_FILE_TOKENS],
            ),
        )

    @property
    def retry_policy(self) -> RetryPolicy:
        """The settings of repetitions at one route."""
        return RetryPolicy(
            attempts=self[RETRY_ATTEMPTS],
            first_wait=self[RETRY_FIRST_WAIT] / 1000,
            longest_wait=self[RETRY_LONGEST_WAIT] / 1000,
        )

    @property
    def submission_policy(self) -> "SubmissionPolicy":
        """The settings of calls that are handed in."""
        return SubmissionPolicy(
            max_deliveries=self[MAX_DELIVERIES],
            content_kept=timedelta(hours=self[CONTENT_HOURS]),
            rows_kept=timedelta(days=self[SUBMISSION_DAYS]),
            max_batch_calls=self[MAX_BATCH_CALLS],
        )


@dataclass(frozen=True, slots=True)
class SubmissionPolicy:
    """How submitted calls are dealt with: deliveries of one call, how long its content and its row are kept, and how
    many calls a batch may hold."""

    max_deliveries: int
    content_kept: timedelta
    rows_kept: timedelta
    max_batch_calls: int


@dataclass(frozen=True, slots=True)
class EffectiveSettings:
    """What a call is handed: built once per version, so that a call only reads attributes.

    ``deadline`` are the seconds that a whole call may take; ``reorders_fallbacks`` whether a configuration's fallbacks
    are asked healthiest first; ``entries_kept`` how long entries of the ledger are kept, ``accounts_kept`` how long its
    accounts once their windows have ended, ``deliveries_kept`` how long what webhooks were told.
    """

    routing: RoutingPolicy
    retry: RetryPolicy
    deadline: float
    reorders_fallbacks: bool
    max_body_bytes: int
    submissions: SubmissionPolicy
    entries_kept: timedelta
    accounts_kept: timedelta
    deliveries_kept: timedelta
    version: int

    @classmethod
    def of(cls, snapshot: SettingsSnapshot) -> "EffectiveSettings":
        """What a call is handed of a snapshot."""
        return cls(
            routing=snapshot.routing_policy,
            retry=snapshot.retry_policy,
            deadline=float(snapshot[DEADLINE_SECONDS]),
            reorders_fallbacks=snapshot[REORDER_FALLBACK],
            max_body_bytes=snapshot[MAX_BODY_BYTES],
            submissions=snapshot.submission_policy,
            entries_kept=timedelta(days=snapshot[ENTRY_DAYS]),
            accounts_kept=timedelta(days=snapshot[ACCOUNT_DAYS]),
            deliveries_kept=timedelta(days=snapshot[DELIVERY_DAYS]),
            version=snapshot.version,
        )


def load_settings(*, supposed: Mapping[str, Any] = NOTHING) -> EffectiveSettings:
    """Read the stored settings, over which pinned ones win: two queries.

    Args:
        supposed: values by key, as if they were stored: what would be in force.
    """
    version = SettingsVersion.read()
    stored = dict(SettingValue.objects.values_list("key", "value"))
    return EffectiveSettings.of(SettingsSnapshot({**stored, **supposed}, version=version, pinned=pinned_settings()))


def settings_poll() -> Polled[EffectiveSettings]:
    """A poll of the settings, for one process."""
    return Polled(name="settings", read_version=SettingsVersion.read, load=load_settings)
