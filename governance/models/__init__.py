"""The governance records: who may call, and the settings in force."""

from governance.models.access_key import AccessKey
from governance.models.application import AccessVersion, Application
from governance.models.setting import SettingsVersion, SettingValue

__all__ = ["AccessKey", "AccessVersion", "Application", "SettingValue", "SettingsVersion"]
