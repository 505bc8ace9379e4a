"""The admin of Django, built as our site.

Here and not in ``governance.apps``, where Django would take it for the configuration of ``governance`` itself.
"""

from django.contrib.admin.apps import AdminConfig


class SignalboxAdminConfig(AdminConfig):
    """Stands in ``INSTALLED_APPS`` where ``django.contrib.admin`` would."""

    default_site = "governance.site.SignalboxAdminSite"
