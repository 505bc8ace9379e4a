"""`remove_demo` takes every marked row, leaves everything else, and says so when something stands in its way."""

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import models

from budgets import refusals
from budgets.crossings import Spending, Watch, crossed_by, record
from budgets.ledger import settle
from budgets.models import Account, Crossing, Hold
from budgets.proof import check
from budgets.refusals import Refusal
from budgets.scopes import Scope
from governance.access.directory import Caller
from governance.changes.records import retire
from governance.demo.cast import SOURCE
from governance.demo.folder import DemoFolder
from governance.demo.operator import provide_logins
from governance.demo.removal import RECORDS, ROWS, RemovalBlocked, remove_demo
from governance.demo.seed import seed
from governance.demo.spending import book_past
from governance.models import AccessKey, AccessVersion, Batch, BudgetTier, StoredContent, Submission
from governance.submissions.intake import CallOrder, submit_batch
from routing.core.money import Money
from routing.models import CatalogueVersion, Configuration, LanguageModel, ListedModel, Price, Provider
from routing.vault import Vault
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay
from tests.authors import SOMEBODY
from tests.budgets.claims import LATER, ONE, balance, claim, hold, key_of
from tests.factories import AccessKeyFactory, BudgetFactory, CallFactory, ConfigurationFactory, LanguageModelFactory

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 27, 15, 20, tzinfo=UTC)
VAULT = Vault([("k1", bytes(32))])
BODY = b'{"model": "support-chat", "messages": [{"role": "user", "content": "hello"}]}'


@pytest.fixture
def demo() -> None:
    seed(now=NOW, simulator="http://127.0.0.1:8900", vault=VAULT, length=timedelta(hours=30))


def caller_of(*, application: str, key: str) -> Caller:
    return Caller(
        key=key,
        application=application,
        allowed_configurations=None,
        allowed_models=None,
        may_name_models=False,
        expires_at=None,
        source="nightly-job",
    )


def count(*kinds: type[models.Model]) -> list[int]:
    return [kind._default_manager.count() for kind in kinds]


@pytest.mark.usefixtures("demo")
def test_nothing_of_the_demo_is_left() -> None:
    assert Attempt.objects.exists()
    removed = remove_demo()
    emptied: tuple[type[models.Model], ...] = (*RECORDS, *ROWS, Attempt, DecisionRecord, Price, ListedModel)
    assert count(*emptied) == [0] * len(emptied)
    assert removed["calls"] > 200
    assert (removed["providers"], removed["language models"], removed["configurations"]) == (4, 9, 8)
    assert sum(remove_demo().values()) == 0


@pytest.mark.usefixtures("demo")
def test_what_is_not_the_demos_stays() -> None:
    kinds = (Provider, LanguageModel, Configuration, AccessKey, Call, User)
    for kind in kinds:
        assert (
            not kind._default_manager.exclude(**({} if kind is User else {"source": SOURCE})).exists() or kind is User
        )
    LanguageModelFactory()
    ConfigurationFactory()
    AccessKeyFactory()
    CallFactory()
    User.objects.create_user("operator-of-somebody")
    remove_demo()
    assert all(number >= 1 for number in count(*kinds))
    assert Call.objects.count() == 1


@pytest.mark.usefixtures("demo")
def test_a_call_with_a_key_of_the_demo_goes_whatever_source_it_named() -> None:
    key = AccessKey.objects.filter(source=SOURCE).first()
    assert key is not None
    CallFactory(key=str(key.pk), source="somewhere")
    remove_demo()
    assert not Call.objects.exists()
    assert not UsageDay.objects.exists()


@pytest.mark.usefixtures("demo")
def test_submitted_calls_of_the_demo_go_with_what_they_hold() -> None:
    by_key = AccessKey.objects.filter(source=SOURCE).select_related("application").first()
    assert by_key is not None
    mine = AccessKeyFactory()
    callers = [
        caller_of(application=by_key.application.identifier, key=str(by_key.pk)),
        caller_of(application=by_key.application.identifier, key=""),
        caller_of(application=mine.record.application.identifier, key=str(mine.record.pk)),
    ]
    for caller in callers:
        submit_batch([CallOrder(body=BODY), CallOrder(body=BODY)], caller=caller)
    assert remove_demo()["submitted calls"] == 4
    (left,) = Batch.objects.all()
    assert left.application == mine.record.application.identifier
    assert list(Submission.objects.values_list("batch", flat=True)) == [left.pk, left.pk]
    assert StoredContent.objects.count() == 2


@pytest.mark.usefixtures("demo")
def test_the_ledger_forgets_the_demo_and_keeps_what_others_have_spent() -> None:
    """In accounts of their own, and in one that counts the calls of everybody."""
    book_past(now=NOW)
    recorded = Call.objects.first()
    assert recorded is not None
    everybody, others = key_of(Scope()), key_of(Scope(application="payroll"))
    settle(attempt=hold(claim(everybody), claim(others)), cost=Money(ONE, "USD"), now=LATER)
    settle(attempt=hold(claim(everybody), call=recorded.pk), cost=Money(ONE // 2, "USD"), now=LATER)
    hold(claim(everybody), call=recorded.pk)
    for limit in (ONE, 2 * ONE, ONE // 2):  # reached, then not any more, and far behind
        watch = Watch(f"all-{limit}", everybody, limit, (60,))
        record(crossed_by(watch, Spending(ONE + ONE // 2, 0), at=NOW))
    for name, limit, needed in (("fits", 3 * ONE, 2 * ONE), ("too-dear", 3 * ONE - 1, 2 * ONE), ("full", ONE, None)):
        refusals.record([Refusal(everybody.identity, name, limit, ONE + ONE // 2, 0, needed, at=NOW, ends_at=None)])
    unrecorded = key_of(Scope(application="help-desk"))
    hold(claim(unrecorded))
    assert remove_demo()["accounts"] == 4 + 1 + 1  # each application of today, the pilot, and the one above
    assert (balance(everybody), balance(others)) == ((ONE, 0, 0, 0), (ONE, 0, 0, 0))
    assert set(Account.objects.values_list("identity", flat=True)) == {everybody.identity, others.identity}
    thresholds = Crossing.objects.exclude(threshold=None)
    assert set(thresholds.values_list("limit", flat=True)) == {ONE, ONE // 2}
    assert set(Crossing.objects.filter(threshold=None).values_list("budget", flat=True)) == {"too-dear", "full"}
    assert not Hold.objects.exists()
    assert list(check().flaws) == []


@pytest.mark.usefixtures("demo")
def test_a_decision_stays_for_as_long_as_a_call_points_to_it() -> None:
    decision = DecisionRecord.objects.first()
    CallFactory(decision=decision)
    remove_demo()
    assert list(DecisionRecord.objects.all()) == [decision]


@pytest.mark.usefixtures("demo")
def test_every_process_hears_of_it() -> None:
    versions = CatalogueVersion.read(), AccessVersion.read()
    remove_demo()
    assert CatalogueVersion.read() > versions[0]
    assert AccessVersion.read() > versions[1]


@pytest.mark.usefixtures("demo")
def test_a_record_of_somebody_else_that_refers_to_the_demo_stands_in_its_way() -> None:
    mine = ConfigurationFactory(identifier="mine")
    ListedModel(configuration=mine, model=LanguageModel.objects.get(identifier="swift-chat")).save()
    before = count(*RECORDS, *ROWS)
    with pytest.raises(RemovalBlocked, match="listed model mine: swift-chat"):
        remove_demo()
    assert count(*RECORDS, *ROWS) == before


@pytest.mark.usefixtures("demo")
def test_a_ladder_of_somebodys_budget_keeps_the_demo_until_it_is_changed_or_retired() -> None:
    mine = BudgetFactory(identifier="mine", application="", is_hard=False)
    for position, model in enumerate(("swift-chat", LanguageModelFactory(identifier="my-own").identifier)):
        BudgetTier(budget=mine, threshold=80, model=model, position=position).save()
    before = count(*RECORDS, *ROWS)
    with pytest.raises(RemovalBlocked, match="refer to it: budget mine: tier of swift-chat"):
        remove_demo()
    assert count(*RECORDS, *ROWS) == before
    retire(mine, author=SOMEBODY)
    remove_demo()
    assert list(BudgetTier.objects.values_list("budget__identifier", flat=True)) == ["mine", "mine"]


def test_every_kind_of_row_that_names_its_source_is_known_to_the_removal() -> None:
    ours = [
        kind
        for label in ("routing", "telemetry", "budgets", "governance")
        for kind in apps.get_app_config(label).get_models()
    ]
    named = {kind for kind in ours if any(field.name == "source" for field in kind._meta.get_fields())}
    assert named == {*RECORDS, *ROWS}


@pytest.mark.usefixtures("demo")
def test_the_command_asks_first(monkeypatch: pytest.MonkeyPatch, settings: object, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path  # type: ignore[attr-defined]
    folder = DemoFolder(tmp_path)
    folder.write_keys({"visitor": "sb-1", "help-desk": "sb-2"})
    provide_logins(folder)
    said = StringIO()
    monkeypatch.setattr("builtins.input", lambda _: "n")
    call_command("remove_demo", stdout=said)
    assert "Nothing was removed" in said.getvalue()
    assert Call.objects.exists()
    monkeypatch.setattr("builtins.input", lambda _: "y")
    call_command("remove_demo", stdout=said)
    assert "4 providers" in said.getvalue()
    assert "2 log-ins" in said.getvalue()
    assert not Call.objects.exists()
    assert not User.objects.exists()
    assert not folder.visitor_key.exists()
    assert not list(folder.path.glob("*-password"))


@pytest.mark.usefixtures("demo")
def test_the_command_says_what_stands_in_its_way() -> None:
    mine = ConfigurationFactory(identifier="mine")
    ListedModel(configuration=mine, model=LanguageModel.objects.get(identifier="swift-chat")).save()
    with pytest.raises(CommandError, match=r"Records that are not the demo's refer to it: .*try again\."):
        call_command("remove_demo", yes=True)


def test_without_a_demo_there_is_nothing_to_remove() -> None:
    said = StringIO()
    call_command("remove_demo", yes=True, stdout=said)
    assert "There was nothing of the demo" in said.getvalue()
