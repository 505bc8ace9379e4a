"""The admin's theme: its name, its colours, and the way through it, in the order in which things are set up."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _may_view(permission: str) -> Callable[[HttpRequest], bool]:
    app, _, model = permission.partition(".")

    def is_allowed(request: HttpRequest) -> bool:
        return any(request.user.has_perm(f"{app}.{verb}_{model}") for verb in ("view", "change"))

    return is_allowed


def _page(title: str, icon: str, record: str) -> dict[str, Any]:
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{record.replace('.', '_')}_changelist"),
        "permission": _may_view(record),
    }


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Signalbox",
    "SITE_HEADER": "Signalbox",
    "SITE_SUBHEADER": "Governance of LLM calls",
    "SITE_SYMBOL": "traffic",
    "SITE_URL": None,
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("signalbox/favicon.svg")},
    ],
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_BACK_BUTTON": False,
    "BORDER_RADIUS": "6px",
    "DASHBOARD_CALLBACK": "governance.admin.overview.add_overview",
    "STYLES": [
        lambda request: static("signalbox/admin.css"),
        lambda request: static("signalbox/overview.css"),
    ],
    "SCRIPTS": [
        lambda request: static("signalbox/keyboard.js"),
    ],
    "COLORS": {
        "primary": {
            "50": "oklch(97.7% .013 236.6)",
            "100": "oklch(95.1% .026 236.8)",
            "200": "oklch(90.1% .058 230.9)",
            "300": "oklch(82.8% .111 230.3)",
            "400": "oklch(74.6% .16 232.7)",
            "500": "oklch(64% .15 240)",
            "600": "oklch(52% .134 242.7)",
            "700": "oklch(46% .125 242.7)",
            "800": "oklch(40.5% .105 240.8)",
            "900": "oklch(36% .09 240.9)",
            "950": "oklch(26% .066 243.2)",
        },
    },
    "SIDEBAR": {
        "show_search": False,
        "show_all_applications": False,
        "navigation": [
            {
                "items": [
                    {"title": "Overview", "icon": "dashboard", "link": reverse_lazy("admin:index")},
                    {
                        "title": "Governance",
                        "icon": "policy",
                        "link": reverse_lazy("admin:governance_tab"),
                        "permission": "governance.tab.pages.may_enter",
                    },
                ],
            },
            {
                "title": "Set up",
                "separator": True,
                "items": [
                    _page("Providers", "dns", "routing.provider"),
                    _page("Models", "neurology", "routing.languagemodel"),
                    _page("Configurations", "alt_route", "routing.configuration"),
                    _page("Quality", "grade", "routing.evaluationresult"),
                    _page("Applications", "apps", "governance.application"),
                    _page("Keys", "key", "governance.accesskey"),
                    _page("Budgets", "savings", "governance.budget"),
                    _page("Webhooks", "webhook", "governance.webhook"),
                ],
            },
            {
                "title": "What happened",
                "separator": True,
                "items": [
                    _page("Calls", "receipt_long", "telemetry.call"),
                    _page("Submissions", "move_to_inbox", "governance.submission"),
                    _page("Batches", "stacks", "governance.batch"),
                    _page("Attempts", "conversion_path", "telemetry.attempt"),
                    _page("Decisions", "rule", "telemetry.decisionrecord"),
                    {
                        "title": "Usage",
                        "icon": "bar_chart",
                        "link": reverse_lazy("admin:telemetry_usageday_report"),
                        "permission": _may_view("telemetry.usageday"),
                    },
                    _page("Accounts", "account_balance", "budgets.account"),
                    _page("Ledger", "menu_book", "budgets.entry"),
                    _page("Held", "hourglass_top", "budgets.hold"),
                    _page("Alerts", "notifications", "budgets.crossing"),
                    _page("Deliveries", "outgoing_mail", "governance.alertdelivery"),
                    _page("Audit", "history_edu", "governance.auditevent"),
                ],
            },
            {
                "title": "Installation",
                "separator": True,
                "items": [
                    _page("Settings", "tune", "governance.settingvalue"),
                    _page("Users", "person", "auth.user"),
                    _page("Groups", "group", "auth.group"),
                    {"title": "REST interface", "icon": "api", "link": reverse_lazy("api-docs")},
                ],
            },
        ],
    },
}
