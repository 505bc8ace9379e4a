"""The governance records: who may call and what they may spend, who is told of it, the settings in force, who changed
what, and calls that wait for a worker."""

from governance.models.access_key import AccessKey
from governance.models.application import AccessVersion, Application
from governance.models.audit_event import AuditEvent, ChainHead
from governance.models.budget import MOST_ALERTS, MOST_TIERS, Budget, BudgetTier
from governance.models.limits import LIMIT_FIELDS, LimitedRecord
from governance.models.named_call import NamedCall
from governance.models.revision import Revision, changed_fields
from governance.models.setting import SettingsVersion, SettingValue
from governance.models.shared_state import SharedState
from governance.models.stored_content import CONTENT_LABELS, ContentKind, StoredContent
from governance.models.submission import OPEN, STATE_LABELS, STATE_MEANINGS, Batch, Submission, SubmissionState
from governance.models.webhook import AlertDelivery, DeliveryState, Webhook

__all__ = [
    "CONTENT_LABELS",
    "LIMIT_FIELDS",
    "MOST_ALERTS",
    "MOST_TIERS",
    "OPEN",
    "STATE_LABELS",
    "STATE_MEANINGS",
    "AccessKey",
    "AccessVersion",
    "AlertDelivery",
    "Application",
    "AuditEvent",
    "Batch",
    "Budget",
    "BudgetTier",
    "ChainHead",
    "ContentKind",
    "DeliveryState",
    "LimitedRecord",
    "NamedCall",
    "Revision",
    "SettingValue",
    "SettingsVersion",
    "SharedState",
    "StoredContent",
    "Submission",
    "SubmissionState",
    "Webhook",
    "changed_fields",
]
