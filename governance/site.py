"""The admin site: its name, and the order in which it shows things.

A module of its own, because the site is built before the classes of ``governance.admin`` register with it.
"""

from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest

ORDER = (
    "routing.Provider",
    "routing.LanguageModel",
    "routing.Configuration",
    "routing.EvaluationResult",
    "governance.Application",
    "governance.AccessKey",
    "governance.SettingValue",
    "telemetry.Call",
    "telemetry.Attempt",
    "telemetry.DecisionRecord",
    "telemetry.UsageDay",
)
"""From what is set up first to what is looked at last. What is not named comes after it, by name."""


class SignalboxAdminSite(AdminSite):
    """Signalbox for people."""

    site_header = "Signalbox"
    site_title = "Signalbox"
    index_title = "Governance of LLM calls"
    site_url = None

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        places = {name: place for place, name in enumerate(ORDER)}
        apps = super().get_app_list(request, app_label)
        for app in apps:
            app["models"].sort(
                key=lambda model: (places.get(model["model"]._meta.label, len(places)), str(model["name"]))
            )
        return sorted(apps, key=lambda app: places.get(app["models"][0]["model"]._meta.label, len(places)))
