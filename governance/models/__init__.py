"""The governance records: who may call, the settings in force, and who changed what."""

from governance.models.access_key import AccessKey
from governance.models.application import AccessVersion, Application
from governance.models.audit_event import AuditEvent, ChainHead
from governance.models.revision import Revision
from governance.models.setting import SettingsVersion, SettingValue

__all__ = [
    "AccessKey",
    "AccessVersion",
    "Application",
    "AuditEvent",
    "ChainHead",
    "Revision",
    "SettingValue",
    "SettingsVersion",
]
