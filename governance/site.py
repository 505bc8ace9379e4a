"""The admin site: its name, and the order in which it shows things.

A module of its own, because the site is built before the classes of ``governance.admin`` register with it.
"""

from collections.abc import Callable
from typing import Any

from csp.decorators import csp_update
from django.http import HttpRequest, HttpResponse
from unfold.sites import UnfoldAdminSite

from governance.tab.pages import tab_urls

ORDER = (
    "routing.Provider",
    "routing.LanguageModel",
    "routing.Configuration",
    "routing.EvaluationResult",
    "governance.Application",
    "governance.AccessKey",
    "governance.Budget",
    "governance.Webhook",
    "telemetry.Call",
    "governance.Submission",
    "governance.Batch",
    "telemetry.Attempt",
    "telemetry.DecisionRecord",
    "telemetry.UsageDay",
    "budgets.Account",
    "budgets.Entry",
    "budgets.Hold",
    "budgets.Crossing",
    "governance.AlertDelivery",
    "governance.AuditEvent",
    "governance.SettingValue",
)
"""From what is set up first to what is looked at last. What is not named comes after it, by name."""


THEME_NEEDS = {"script-src": ["'unsafe-eval'"], "style-src": ["'unsafe-inline'"]}
"""What the theme's pages need beyond the policy of all others: its Alpine evaluates attributes, its colours are a style
element. Scripts still come from our own files alone."""


class SignalboxAdminSite(UnfoldAdminSite):  # type: ignore[misc]  # the theme is untyped
    """Signalbox for people."""

    site_header = "Signalbox"
    site_title = "Signalbox"
    index_title = "Governance of LLM calls"
    site_url = None

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        """As always, with a policy under which the theme works."""
        return csp_update(THEME_NEEDS)(super().admin_view(view, cacheable))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """As always, with a policy under which the theme works."""
        response: HttpResponse = super().login(request, extra_context)
        response._csp_update = THEME_NEEDS  # type: ignore[attr-defined]  # what django-csp's decorator does
        return response

    def get_urls(self) -> list[Any]:
        """As always, and the Governance tab."""
        return [*tab_urls(self), *super().get_urls()]

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        places = {name: place for place, name in enumerate(ORDER)}
        apps = super().get_app_list(request, app_label)
        for app in apps:
            app["models"].sort(
                key=lambda model: (places.get(model["model"]._meta.label, len(places)), str(model["name"]))
            )
        return sorted(apps, key=lambda app: places.get(app["models"][0]["model"]._meta.label, len(places)))
