"""The addresses of the API. Identifiers stand in them as they are spelled; what is spelled otherwise is no address."""

from collections.abc import Sequence

from django.urls import URLPattern, include, path, re_path, register_converter

from governance.api import schema
from governance.api.alerts import AlertsView
from governance.api.applications import ApplicationKind, KeyKind, RevokeKeyView, RotateKeyView
from governance.api.audit import AuditEntryView, AuditView, VerificationView
from governance.api.budgets import BudgetKind
from governance.api.call_records import CallExplanationView, OutcomesView
from governance.api.calls import CallsView, CallView
from governance.api.configurations import ConfigurationKind
from governance.api.evaluations import EvaluationKind, EvaluationView
from governance.api.explain import ExplainView
from governance.api.language_models import LanguageModelKind, PricesView
from governance.api.price_lists import DeclinePricesView, PriceListsView
from governance.api.providers import ProviderKeyView, ProviderKind
from governance.api.records import Kind, RecordsView, RecordView, RestoreView, RetireView
from governance.api.routes import ClearRouteView, PauseRouteView, PreflightView, RoutesView
from governance.api.session import MeView, SessionView
from governance.api.settings import SettingsView, SettingView
from governance.api.submissions import BatchesView, BatchView, CancelBatchView, CancelCallView, SubmissionsView
from governance.api.usage import UsageTableView, UsageView
from governance.api.views import nothing_here
from governance.api.webhooks import TryWebhookView, WebhookKind, WebhookSecretView


class Identifier:
    """An identifier of a record."""

    regex = "[a-z0-9][a-z0-9_-]{0,99}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


class SettingName(Identifier):
    """The name of a setting."""

    regex = "[A-Za-z.]{1,100}"


class Number:
    """A whole number that a column of 64 bits holds."""

    regex = "[0-9]{1,18}"

    def to_python(self, value: str) -> int:
        return int(value)

    def to_url(self, value: int) -> str:
        return str(value)


register_converter(Identifier, "identifier")
register_converter(SettingName, "setting")
register_converter(Number, "number")


def _named(words: str, kind: Kind) -> Sequence[URLPattern]:
    """The addresses of records that are retired and brought back."""
    return [
        path(words, RecordsView.as_view(kind=kind)),
        path(f"{words}/<identifier:name>", RecordView.as_view(kind=kind)),
        path(f"{words}/<identifier:name>/retire", RetireView.as_view(kind=kind)),
        path(f"{words}/<identifier:name>/restore", RestoreView.as_view(kind=kind)),
    ]


_PROVIDERS, _MODELS, _KEYS, _EVALUATIONS = ProviderKind(), LanguageModelKind(), KeyKind(), EvaluationKind()
_WEBHOOKS = WebhookKind()

addresses = [
    path("openapi.json", schema.openapi, name="api-openapi"),
    path("docs", schema.reader, name="api-docs"),
    path("me", MeView.as_view()),
    path("session", SessionView.as_view()),
    *_named("providers", _PROVIDERS),
    path("providers/<identifier:name>/key", ProviderKeyView.as_view(kind=_PROVIDERS)),
    *_named("models", _MODELS),
    path("models/<identifier:name>/prices", PricesView.as_view(kind=_MODELS)),
    path("price-lists", PriceListsView.as_view()),
    path("price-lists/decline", DeclinePricesView.as_view()),
    *_named("configurations", ConfigurationKind()),
    path("evaluations", RecordsView.as_view(kind=_EVALUATIONS)),
    path("evaluations/<number:name>", EvaluationView.as_view(kind=_EVALUATIONS)),
    *_named("applications", ApplicationKind()),
    path("keys", RecordsView.as_view(kind=_KEYS)),
    path("keys/<uuid:name>", RecordView.as_view(kind=_KEYS)),
    path("keys/<uuid:name>/rotate", RotateKeyView.as_view(kind=_KEYS)),
    path("keys/<uuid:name>/revoke", RevokeKeyView.as_view(kind=_KEYS)),
    *_named("budgets", BudgetKind()),
    path("alerts", AlertsView.as_view()),
    *_named("webhooks", _WEBHOOKS),
    path("webhooks/<identifier:name>/secret", WebhookSecretView.as_view(kind=_WEBHOOKS)),
    path("webhooks/<identifier:name>/try", TryWebhookView.as_view(kind=_WEBHOOKS)),
    path("settings", SettingsView.as_view()),
    path("settings/<setting:name>", SettingView.as_view()),
    path("calls", CallsView.as_view()),
    path("calls/<uuid:call>", CallView.as_view()),
    path("calls/<uuid:call>/explanation", CallExplanationView.as_view()),
    path("calls/<uuid:call>/outcomes", OutcomesView.as_view()),
    path("calls/<uuid:call>/cancel", CancelCallView.as_view()),
    path("submissions", SubmissionsView.as_view()),
    path("batches", BatchesView.as_view()),
    path("batches/<uuid:batch>", BatchView.as_view()),
    path("batches/<uuid:batch>/cancel", CancelBatchView.as_view()),
    path("routes", RoutesView.as_view()),
    path("routes/<identifier:name>/pause", PauseRouteView.as_view()),
    path("routes/<identifier:name>/clear", ClearRouteView.as_view()),
    path("preflight", PreflightView.as_view()),
    path("usage", UsageView.as_view()),
    path("usage.csv", UsageTableView.as_view()),
    path("explain", ExplainView.as_view()),
    path("audit", AuditView.as_view()),
    path("audit/verification", VerificationView.as_view()),
    path("audit/<number:name>", AuditEntryView.as_view()),
]

urlpatterns = [path("v1/", include(addresses)), re_path("", nothing_here)]
