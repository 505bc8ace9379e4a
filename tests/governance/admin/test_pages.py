"""Every page of the admin opens, for those who may change things and for those who may look, and no list asks more
questions of the database for having more rows."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from budgets.models import Crossing, Entry, Hold
from governance.changes.records import switch
from governance.models import AccessKey, AuditEvent, Batch, SettingValue, Webhook
from governance.site import ORDER, SignalboxAdminSite
from governance.submissions.intake import submit_batch
from routing.models import VersionCounter
from tests import factories
from tests.authors import SOMEBODY
from tests.budgets import claims
from tests.governance.alerts.rows import crossing, delivery
from tests.governance.submissions import orders

REGISTERED = {model._meta.label: model for model in admin.site._registry}


def _entry() -> Entry:
    entry: Entry = Entry.objects.get(attempt=claims.hold(claims.claim(limit=None)))
    return entry


def _key() -> AccessKey:
    issued: factories.IssuedKey = factories.AccessKeyFactory.create()
    return issued.record


def _configuration() -> Any:
    configuration = factories.ConfigurationFactory.create(listed=True)
    factories.FallbackLinkFactory.create(configuration=configuration)
    return configuration


def _call() -> Any:
    call = factories.CallFactory.create(decision=factories.DecisionRecordFactory.create())
    for index in range(2):
        factories.AttemptFactory.create(call=call, index=index)
    return call


def _audited() -> AuditEvent:
    application = factories.ApplicationFactory.create()
    switch(application, on=False, author=SOMEBODY)
    event: AuditEvent = AuditEvent.objects.get(record=application.identifier)
    return event


def _numbered(name: str) -> str:
    return f"{name}-{User.objects.count() + Group.objects.count()}"


# One row of each registered model, with what belongs to it; every further row with other related ones.
ROWS: dict[str, Callable[[], Any]] = {
    "routing.Provider": factories.ProviderFactory.create,
    "routing.LanguageModel": lambda: factories.LanguageModelFactory.create(priced=True),
    "routing.Configuration": _configuration,
    "routing.EvaluationResult": factories.EvaluationResultFactory.create,
    "governance.Application": lambda: factories.AccessKeyFactory.create().record.application,
    "governance.AccessKey": _key,
    "governance.Budget": factories.BudgetFactory.create,
    "governance.Webhook": factories.WebhookFactory.create,
    "governance.AlertDelivery": lambda: delivery(f"pager-{Webhook.objects.count()}"),
    "budgets.Crossing": lambda: crossing(f"desk-{Crossing.objects.count()}"),
    "budgets.Account": lambda: _entry().account,
    "budgets.Entry": lambda: _entry(),
    "budgets.Hold": lambda: Hold.objects.get(attempt=_entry().attempt),
    "governance.SettingValue": lambda: SettingValue.objects.get_or_create(key="routing.callHistory", value=True)[0],
    "telemetry.Call": _call,
    "telemetry.Attempt": factories.AttemptFactory.create,
    "telemetry.DecisionRecord": factories.DecisionRecordFactory.create,
    "telemetry.UsageDay": factories.UsageDayFactory.create,
    "governance.Submission": lambda: orders.row(orders.handed_in()),
    "governance.Batch": lambda: Batch.objects.get(pk=submit_batch([orders.order()] * 2, caller=orders.HELPDESK)),
    "governance.AuditEvent": _audited,
    "auth.User": lambda: User.objects.create_user(_numbered("user")),
    "auth.Group": lambda: Group.objects.create(name=_numbered("group")),
}
NOT_ADDED = {
    "budgets.Crossing",
    "governance.AlertDelivery",
    "budgets.Account",
    "budgets.Entry",
    "budgets.Hold",
    "governance.Submission",
    "governance.Batch",
    "governance.SettingValue",
    "telemetry.Call",
    "telemetry.Attempt",
    "telemetry.DecisionRecord",
    "telemetry.UsageDay",
    "governance.AuditEvent",
}
# Tables without a page of their own, and where their rows are seen.
ELSEWHERE = {
    "budgets.Carryover": "inside its account",
    "governance.BudgetTier": "inside its budget",
    "routing.Price": "inside its model",
    "routing.ListedModel": "inside its configuration",
    "routing.FallbackLink": "inside its configuration",
    "governance.Revision": "inside its entry of the audit trail, and in the history of its record",
    "telemetry.Outcome": "inside its call",
    "telemetry.UsageHour": "summed, in the usage report",
    "governance.StoredContent": "nowhere: it is sealed, and opened for its owner alone",
    "governance.SharedState": "nowhere: what processes tell one another",
    "governance.NamedCall": "nowhere: a caller's name for a call, which has its own page",
    "governance.ChainHead": "what the page that verifies the trail compares with",
}


def address(label: str, page: str, *args: Any) -> str:
    return reverse(f"admin:{label.lower().replace('.', '_')}_{page}", args=args)


def test_the_site_is_ours() -> None:
    assert isinstance(admin.site._wrapped, SignalboxAdminSite)  # type: ignore[attr-defined]
    assert admin.site.site_header == admin.site.site_title == "Signalbox"


def test_every_registered_model_is_looked_at_here_and_has_its_place() -> None:
    assert set(REGISTERED) == set(ROWS)
    assert set(ORDER) == {label for label in REGISTERED if not label.startswith("auth.")}


def test_every_table_of_ours_has_a_page() -> None:
    tables = {
        model._meta.label: model
        for label in ("routing", "telemetry", "budgets", "governance")
        for model in apps.get_app_config(label).get_models()
        if not issubclass(model, VersionCounter)
    }
    assert set(tables) - set(REGISTERED) == set(ELSEWHERE)


@pytest.mark.parametrize("label", sorted(ROWS))
def test_every_page_opens(label: str, operator: Client) -> None:
    assert operator.get(address(label, "changelist")).status_code == 200  # empty
    row = ROWS[label]()
    listed = operator.get(address(label, "changelist"))
    assert listed.status_code == 200
    changed = operator.get(address(label, "change", row.pk))
    assert changed.status_code == 200
    assert str(row) in changed.content.decode()
    assert operator.get(address(label, "history", row.pk)).status_code == 200
    assert operator.get(address(label, "add")).status_code == (403 if label in NOT_ADDED else 200)


@pytest.mark.parametrize("label", sorted(ROWS))
def test_an_auditor_sees_every_page_and_can_change_none(label: str, auditor: Client) -> None:
    row = ROWS[label]()
    assert auditor.get(address(label, "changelist")).status_code == 200
    page = auditor.get(address(label, "change", row.pk))
    assert page.status_code == 200
    assert 'name="_save"' not in page.content.decode()
    assert auditor.get(address(label, "add")).status_code == 403
    assert auditor.post(address(label, "change", row.pk), {}).status_code == 403
    assert auditor.post(address(label, "add"), {}).status_code == 403


@pytest.mark.parametrize("label", sorted(ROWS))
def test_nobody_else_sees_a_page(label: str, client: Client, staff: Callable[..., Client]) -> None:
    row = ROWS[label]()
    for page in (address(label, "changelist"), address(label, "change", row.pk)):
        stranger = client.get(page)
        assert (stranger.status_code, stranger.headers["Location"]) == (302, f"/admin/login/?next={page}")
    somebody = staff()
    for page in (address(label, "changelist"), address(label, "change", row.pk)):
        assert somebody.get(page).status_code == 403


DELETABLE = {"routing.EvaluationResult", "auth.User", "auth.Group"}


@pytest.mark.parametrize("label", sorted(ROWS))
def test_what_rows_name_is_not_deleted(label: str, operator: Client) -> None:
    row = ROWS[label]()
    page = operator.get(address(label, "delete", row.pk))
    assert page.status_code == (200 if label in DELETABLE else 403)
    offered = "delete_selected" in operator.get(address(label, "changelist")).content.decode()
    assert offered is (label in DELETABLE)
    if label not in DELETABLE:
        assert operator.post(address(label, "delete", row.pk), {"post": "yes"}).status_code == 403
        assert type(row)._base_manager.filter(pk=row.pk).exists()


@pytest.mark.parametrize("label", sorted(ROWS))
def test_a_list_takes_as_many_queries_for_many_rows_as_for_one(label: str, operator: Client) -> None:
    ROWS[label]()
    operator.get(address(label, "changelist"))  # what is asked once per process
    with CaptureQueriesContext(
        connection,
    ) as one:
        operator.get(address(label, "changelist"))
    for _ in range(12):
        ROWS[label]()
    with CaptureQueriesContext(connection) as many:
        operator.get(address(label, "changelist"))
    assert len(many) == len(one), "\n".join(query["sql"] for query in many.captured_queries)
    assert not [query for query in many.captured_queries if "DISTINCT" in query["sql"].upper()]


@pytest.mark.parametrize("label", sorted(label for label in ROWS if label not in NOT_ADDED))
def test_a_search_finds_nothing_without_an_error(label: str, operator: Client) -> None:
    assert operator.get(address(label, "changelist"), {"q": "nothing like it"}).status_code == 200


def test_the_index_shows_what_is_set_up_first(operator: Client) -> None:
    page = operator.get(reverse("admin:index")).content.decode()
    places = [page.index(address(label, "changelist")) for label in ORDER]
    assert places == sorted(places)
    for label in ("routing", "governance", "telemetry"):
        assert operator.get(reverse("admin:app_list", args=[label])).status_code == 200


@pytest.mark.parametrize("label", sorted(ROWS))
def test_pages_load_nothing_from_elsewhere_and_run_nothing_inline(label: str, operator: Client) -> None:
    row = ROWS[label]()
    for page in (address(label, "changelist"), address(label, "change", row.pk)):
        source = operator.get(page).content.decode()
        assert "onclick=" not in source
        assert not re.findall(r'\b(?:src|href|action|hx-get)="(?:[a-z]+:)?//', source)
        assert not re.findall(r"url\(['\"]?(?:[a-z]+:)?//", source)
        for part in source.split("<script")[1:]:
            opening, _, rest = part.partition(">")
            assert "src=" in opening or 'type="application/json"' in opening or not rest.split("</script>")[0].strip()
            assert 'src="http' not in opening
