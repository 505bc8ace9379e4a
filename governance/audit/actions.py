"""Everything the audit trail can say happened: closed sets, each member with the words people read."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class RecordKind(StrEnum):
    """The kinds of record that changes are made to."""

    PROVIDER = "provider"
    MODEL = "model"
    CONFIGURATION = "configuration"
    EVALUATION = "evaluation"
    APPLICATION = "application"
    KEY = "key"
    BUDGET = "budget"
    WEBHOOK = "webhook"
    SETTING = "setting"
    SUBMISSION = "submission"
    BATCH = "batch"
    ATTEMPT = "attempt"
    ROUTE = "route"
    ALERT = "alert"


class AuditAction(StrEnum):
    """What was done."""

    CREATED = "created"
    CHANGED = "changed"
    RETIRED = "retired"
    BROUGHT_BACK = "broughtBack"
    RESTORED = "restored"
    ISSUED = "issued"
    ROTATED = "rotated"
    REVOKED = "revoked"
    RESEALED = "resealed"
    RESET = "reset"
    REMOVED = "removed"
    CANCELLED = "cancelled"
    BOOKED = "booked"
    GIVEN_BACK = "givenBack"
    PAUSED = "paused"
    CLEARED = "cleared"
    SENT_AGAIN = "sentAgain"


class Channel(StrEnum):
    """Through which surface a change came."""

    ADMIN = "admin"
    API = "api"
    COMMAND = "command"
    DEMO = "demo"


ACTION_LABELS: Mapping[AuditAction, str] = MappingProxyType(
    {
        AuditAction.CREATED: "Created",
        AuditAction.CHANGED: "Changed",
        AuditAction.RETIRED: "Retired",
        AuditAction.BROUGHT_BACK: "Brought back",
        AuditAction.RESTORED: "Restored",
        AuditAction.ISSUED: "Issued",
        AuditAction.ROTATED: "Rotated",
        AuditAction.REVOKED: "Revoked",
        AuditAction.RESEALED: "Sealed again",
        AuditAction.RESET: "Set back to the default",
        AuditAction.REMOVED: "Removed",
        AuditAction.CANCELLED: "Cancelled",
        AuditAction.BOOKED: "Booked as spent",
        AuditAction.GIVEN_BACK: "Given back",
        AuditAction.PAUSED: "Paused",
        AuditAction.CLEARED: "Cleared",
        AuditAction.SENT_AGAIN: "Sent again",
    }
)

KIND_LABELS: Mapping[RecordKind, str] = MappingProxyType(
    {
        RecordKind.PROVIDER: "Provider",
        RecordKind.MODEL: "Language model",
        RecordKind.CONFIGURATION: "Configuration",
        RecordKind.EVALUATION: "Evaluation result",
        RecordKind.APPLICATION: "Application",
        RecordKind.KEY: "Virtual key",
        RecordKind.BUDGET: "Budget",
        RecordKind.WEBHOOK: "Webhook",
        RecordKind.SETTING: "Setting",
        RecordKind.SUBMISSION: "Submitted call",
        RecordKind.BATCH: "Batch",
        RecordKind.ATTEMPT: "Attempt",
        RecordKind.ROUTE: "Route",
        RecordKind.ALERT: "Alert",
    }
)

CHANNEL_LABELS: Mapping[Channel, str] = MappingProxyType(
    {
        Channel.ADMIN: "Admin",
        Channel.API: "API",
        Channel.COMMAND: "Command",
        Channel.DEMO: "Demo",
    }
)


@dataclass(frozen=True, slots=True)
class Author:
    """Who makes a change, and from where: a user's or a command's name, the surface, and the caller's address."""

    name: str
    channel: Channel
    address: str = ""
    correlation: str = ""
