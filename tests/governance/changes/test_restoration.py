"""An earlier revision restored: what comes back, what stays, what is refused, and that a preview does nothing."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone
from pytest_django import Settings

from governance.audit.actions import AuditAction, RecordKind
from governance.audit.trail import verify
from governance.changes.descriptions import describe
from governance.changes.door import RecordMovedOn
from governance.changes.keys import issue_key, revoke_key, rotate_key, save_key
from governance.changes.providers import save_provider
from governance.changes.records import (
    bring_back,
    remove_evaluation,
    retire,
    save_evaluation,
    save_record,
    switch,
)
from governance.changes.restoration import MODELS, STAYS, differs, find_record, preview, restore
from governance.changes.settings import clear_setting, store_setting
from governance.changes.webhooks import save_webhook
from governance.models import (
    AccessKey,
    AuditEvent,
    Budget,
    BudgetTier,
    Revision,
    SettingsVersion,
    SettingValue,
    Webhook,
)
from routing.credentials import read_key
from routing.models import (
    CatalogueVersion,
    Configuration,
    EvaluationResult,
    FallbackLink,
    LanguageModel,
    ListedModel,
    Price,
    Provider,
)
from routing.vault import Vault
from tests.authors import SOMEBODY
from tests.factories import (
    ApplicationFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    ProviderFactory,
)
from tests.governance.changes.test_records import UNREVISED

pytestmark = pytest.mark.django_db

VAULT = Vault([("k1", secrets.token_bytes(32))])
SPRING, SUMMER, AUTUMN = (datetime(2026, month, 1, tzinfo=UTC) for month in (3, 6, 9))


def revision(record: str, number: int) -> Revision:
    found: Revision = Revision.objects.get(record=record, number=number)
    return found


def again(record: str, number: int) -> dict[str, tuple[Any, Any]]:
    """Restore a revision; gives what that changed."""
    restore(revision(record, number), author=SOMEBODY, reason="It was better.")
    last: Revision = Revision.objects.order_by("-pk")[0]
    return last.changes


def refusal(record: str, number: int) -> str:
    """Why a revision is not restored; and that nothing was written."""
    before = everything()
    with pytest.raises(ValidationError) as refused:
        restore(revision(record, number), author=SOMEBODY)
    assert everything() == before
    return " ".join(refused.value.messages)


def everything() -> tuple[Any, ...]:
    """What no refusal and no preview may touch."""
    tables: list[type[models.Model]] = [*MODELS.values(), Price, ListedModel, FallbackLink]
    rows = [list(table._base_manager.order_by("pk").values()) for table in tables]
    return (rows, AuditEvent.objects.count(), Revision.objects.count(), CatalogueVersion.read(), SettingsVersion.read())


def stored(record: Any) -> Any:
    return type(record)._default_manager.get(pk=record.pk)


# --- Every kind -----------------------------------------------------------------------------------------------------


def test_every_kind_is_restored_and_says_what_stays() -> None:
    assert set(MODELS) == set(STAYS) == set(RecordKind) - UNREVISED


def change_provider() -> str:
    provider = Provider(identifier="prod-west", adapter_type="openai", priority=20, region="eu-central")
    save_record(provider, author=SOMEBODY)
    provider.adapter_type, provider.base_url, provider.connect_timeout = "custom", "https://llm.example.com/v1", 7
    save_record(provider, author=SOMEBODY)
    return "prod-west"


def change_model() -> str:
    model = LanguageModel(identifier="wise", model_id="gpt-x-pro", provider=ProviderFactory.create(identifier="lab"))
    price = Price(model=model, valid_from=SPRING, input_rate=5, output_rate=7)
    flex = Price(model=model, valid_from=SPRING, service_tier="flex", input_rate=3, output_rate=4)
    save_record(model, author=SOMEBODY, parts=[price, flex])
    model.model_id, model.capabilities, model.provider = "gpt-x-max", ["chat"], ProviderFactory.create()
    save_record(model, author=SOMEBODY, parts_removed=[price, flex])
    return "wise"


def change_configuration() -> str:
    fast = LanguageModelFactory.create()
    configuration = Configuration(identifier="plain-chat", selection="fixed", fixed_model=fast)
    link = FallbackLink(configuration=configuration, fallback=ConfigurationFactory.create(identifier="plan-b"))
    save_record(configuration, author=SOMEBODY, parts=[link])
    configuration.selection, configuration.fixed_model = "listed", None
    place = ListedModel(configuration=configuration, model=LanguageModelFactory.create(identifier="slow"))
    save_record(configuration, author=SOMEBODY, parts=[place], parts_removed=[link])
    return "plain-chat"


def change_application() -> str:
    application = ApplicationFactory.build(identifier="web-shop", description="Sells.")
    save_record(application, author=SOMEBODY)
    application.description = "Sells and buys."
    save_record(application, author=SOMEBODY)
    return "web-shop"


def change_budget() -> str:
    budget = Budget(identifier="all-of-it", limit=5)
    cheap = LanguageModelFactory.create(identifier="cheap").identifier
    tiers = [BudgetTier(budget=budget, threshold=each, model=cheap) for each in (60, 90)]
    save_record(budget, author=SOMEBODY, parts=tiers)
    budget.limit, budget.window, budget.application = 7, "day", ApplicationFactory.create().identifier
    budget.enforce_targets = True
    save_record(budget, author=SOMEBODY, parts_removed=tiers[:1])
    return "all-of-it"


def change_webhook() -> str:
    webhook = Webhook(identifier="pager", url="https://alerts.example.com/old")
    save_webhook(webhook, author=SOMEBODY, vault=VAULT)
    webhook.url, webhook.name = "https://alerts.example.com/new", "The pager"
    save_webhook(webhook, author=SOMEBODY, vault=VAULT)
    return "pager"


def change_evaluation() -> str:
    result = EvaluationResultFactory.build(model=LanguageModelFactory.create(), mean_score=0.8)
    save_evaluation(result, author=SOMEBODY)
    result.mean_score, result.prompt_count = 0.9, 40
    save_evaluation(result, author=SOMEBODY)
    return "fast/refund-questions"


def change_key() -> str:
    ConfigurationFactory.create()
    key = AccessKey(application=ApplicationFactory.create(), name="Robot", allowed_configurations=["support-chat"])
    issue_key(key, author=SOMEBODY)
    key.allowed_configurations, key.may_name_models = None, True
    save_key(key, author=SOMEBODY, only=["allowed_configurations", "may_name_models"])
    return f"helpdesk/{key.prefix}"


def change_setting() -> str:
    store_setting("routing.policyMode", "economy", author=SOMEBODY)
    store_setting("routing.policyMode", "balanced", author=SOMEBODY)
    return "routing.policyMode"


CHANGED: dict[RecordKind, Callable[[], str]] = {
    RecordKind.PROVIDER: change_provider,
    RecordKind.MODEL: change_model,
    RecordKind.CONFIGURATION: change_configuration,
    RecordKind.APPLICATION: change_application,
    RecordKind.BUDGET: change_budget,
    RecordKind.WEBHOOK: change_webhook,
    RecordKind.EVALUATION: change_evaluation,
    RecordKind.KEY: change_key,
    RecordKind.SETTING: change_setting,
}


def test_every_kind_is_tried() -> None:
    assert set(CHANGED) == set(RecordKind) - UNREVISED


@pytest.mark.parametrize("kind", CHANGED)
def test_a_record_is_as_it_was_and_the_trail_says_so(kind: RecordKind) -> None:
    name = CHANGED[kind]()
    first = revision(name, 1)
    record = find_record(first)
    assert record is not None
    before = record.counter.read()
    done = restore(first, author=SOMEBODY, reason="It was better.")
    assert describe(kind, record.pk) == first.after == done.after
    assert done.before == revision(name, 2).after
    assert (done.pk, dict(done.stays)) == (record.pk, {})
    assert record.counter.read() > before
    event: AuditEvent = AuditEvent.objects.select_related("revision")[0]
    assert event.revision is not None
    assert (event.action, event.kind, event.record) == (AuditAction.RESTORED, kind, name)
    assert event.reason == "Revision 1 restored. It was better."
    assert (event.revision.before, event.revision.after) == (done.before, done.after)
    assert verify().flaws == ()
    # And forth again: a restoration is a revision like every other.
    restore(revision(name, 2), author=SOMEBODY)
    assert describe(kind, record.pk) == revision(name, 2).after
    assert Revision.objects.filter(record=name).count() == 4


@pytest.mark.parametrize("kind", CHANGED)
def test_a_preview_says_the_same_and_does_nothing(kind: RecordKind) -> None:
    name = CHANGED[kind]()
    before = everything()
    seen = preview(revision(name, 1), author=SOMEBODY)
    assert everything() == before
    assert restore(revision(name, 1), author=SOMEBODY, expected=seen.version) == seen


@pytest.mark.parametrize("kind", CHANGED)
def test_what_somebody_else_changed_meanwhile_is_not_undone(kind: RecordKind) -> None:
    name = CHANGED[kind]()
    seen = preview(revision(name, 1), author=SOMEBODY)
    restore(revision(name, 1), author=SOMEBODY)
    before = everything()
    with pytest.raises(RecordMovedOn, match=name):
        restore(revision(name, 2), author=SOMEBODY, expected=seen.version)
    assert everything() == before


@pytest.mark.parametrize("kind", CHANGED)
def test_what_would_change_nothing_is_refused(kind: RecordKind) -> None:
    name = CHANGED[kind]()
    assert differs(revision(name, 1), revision(name, 2).after)
    assert not differs(revision(name, 2), revision(name, 2).after)
    assert "nothing would change" in refusal(name, 2)


# --- What stays -----------------------------------------------------------------------------------------------------


def test_a_provider_keeps_the_key_it_has() -> None:
    provider = Provider(identifier="prod-west", adapter_type="openai")
    save_provider(provider, author=SOMEBODY, vault=VAULT, key="sk-old-5d41402abc4b-1111")
    provider.priority = 90
    save_provider(provider, author=SOMEBODY, vault=VAULT, key="sk-new-7c6a180b3689-2222")
    done = restore(revision("prod-west", 1), author=SOMEBODY)
    assert stored(provider).priority == 50
    assert read_key(stored(provider), vault=VAULT) == "sk-new-7c6a180b3689-2222"
    assert dict(done.stays) == {"key_hint": ("1111", "2222")}


def test_a_provider_without_a_key_gets_none_back() -> None:
    provider = Provider(identifier="prod-west", adapter_type="openai")
    save_provider(provider, author=SOMEBODY, vault=VAULT, key="sk-old-5d41402abc4b-1111")
    save_provider(provider, author=SOMEBODY, vault=VAULT, key="")
    assert "nothing would change" in refusal("prod-west", 1)
    assert not differs(revision("prod-west", 1), describe(RecordKind.PROVIDER, provider.pk))
    assert stored(provider).sealed_key is None


def test_a_retired_record_is_not_restored_until_it_is_brought_back() -> None:
    change_application()
    application = find_record(revision("web-shop", 1))
    retire(application, author=SOMEBODY)  # type: ignore[arg-type]
    assert "web-shop is retired: bring it back first" in refusal("web-shop", 1)
    bring_back(stored(application), author=SOMEBODY)
    assert again("web-shop", 1) == {"description": ("Sells and buys.", "Sells."), "is_active": (False, True)}
    # The revision of the retirement holds when it was retired; restoring it switches off, and retires nothing.
    done = restore(revision("web-shop", 3), author=SOMEBODY)
    assert (stored(application).is_active, stored(application).retired_at) == (False, None)
    assert list(done.stays) == ["retired_at"]


def test_a_record_that_is_gone_is_not_made_anew() -> None:
    change_provider()
    change_key()
    key = AccessKey.objects.get()
    key.delete()
    assert "was removed: issue another" in refusal(f"helpdesk/{key.prefix}", 1)
    Provider._base_manager.filter(identifier="prod-west")._raw_delete("default")  # as `remove_demo` does
    assert "make a record of another name" in refusal("prod-west", 1)


def test_what_a_key_allows_comes_back_and_when_it_ends_does_not() -> None:
    name = change_key()
    key = AccessKey.objects.get()
    rotate_key(key, author=SOMEBODY, grace=timedelta(hours=1))
    ends = stored(key).expires_at
    assert ends is not None
    done = restore(revision(name, 1), author=SOMEBODY)
    assert (stored(key).allowed_configurations, stored(key).expires_at) == (["support-chat"], ends)
    assert list(done.stays) == ["expires_at"]
    revoke_key(stored(key), author=SOMEBODY)
    assert "is revoked and stays so" in refusal(name, 2)


def test_a_column_that_came_after_the_revision_stays() -> None:
    change_provider()
    provider = Provider.objects.get()
    switch(provider, on=False, author=SOMEBODY)
    older = Revision(
        kind="provider", record="prod-west", number=99, after={"identifier": "prod-west", "priority": 3, "of_old": 1},
        author="x", at=timezone.now(),
    )  # fmt: skip
    older.save()
    assert again("prod-west", 99) == {"priority": (20, 3)}


# --- Parts ----------------------------------------------------------------------------------------------------------


def test_prices_come_back_with_their_dates_and_those_that_fit_are_left_alone() -> None:
    model = LanguageModel(identifier="wise", model_id="gpt-x-pro", provider=ProviderFactory.create())
    kept, moved, dearer = (
        Price(model=model, valid_from=moment, input_rate=rate, output_rate=rate, cached_input_rate=1)
        for moment, rate in ((SPRING, 5), (SUMMER, 6), (AUTUMN, 7))
    )
    save_record(model, author=SOMEBODY, parts=[kept, moved, dearer])
    moved.valid_from, dearer.input_rate, dearer.cached_input_rate = SUMMER + timedelta(days=1), 70, None
    later = Price(model=model, valid_from=AUTUMN + timedelta(days=9), input_rate=8, output_rate=8, currency="EUR")
    save_record(model, author=SOMEBODY, parts=[moved, dearer, later])
    first = revision("wise", 1)
    restore(first, author=SOMEBODY)
    assert describe(RecordKind.MODEL, model.pk) == first.after
    rows = Price.objects.filter(model=model).order_by("valid_from")
    assert list(rows.values_list("valid_from", "input_rate", "cached_input_rate")) == [
        (SPRING, 5, 1), (SUMMER, 6, 1), (AUTUMN, 7, 1),
    ]  # fmt: skip
    assert [rows[0].pk, rows[2].pk] == [kept.pk, dearer.pk]


def test_lists_and_chains_come_back_in_their_order() -> None:
    configuration = ConfigurationFactory.build(identifier="plain-chat", selection="listed")
    one, two, three = (LanguageModelFactory.create(identifier=name) for name in ("one", "two", "three"))
    plans = [ConfigurationFactory.create(identifier=name) for name in ("plan-b", "plan-c")]
    places = [ListedModel(configuration=configuration, model=model, position=n) for n, model in enumerate((two, one))]
    links = [FallbackLink(configuration=configuration, fallback=plan, position=n) for n, plan in enumerate(plans)]
    save_record(configuration, author=SOMEBODY, parts=[*places, *links])
    places[1].position, links[0].position = 0, 7
    places[0].position = 1
    added = ListedModel(configuration=configuration, model=three, position=2)
    save_record(configuration, author=SOMEBODY, parts=[*places, added, links[0]], parts_removed=[links[1]])
    assert again("plain-chat", 1) == {
        "listed_models": (["one", "two", "three"], ["two", "one"]),
        "fallbacks": (["plan-b"], ["plan-b", "plan-c"]),
    }


# --- Rules ----------------------------------------------------------------------------------------------------------


def test_a_chain_that_would_close_a_circle_is_refused() -> None:
    one, two = (ConfigurationFactory.create(identifier=name) for name in ("one", "two"))
    link = FallbackLink(configuration=one, fallback=two)
    save_record(one, author=SOMEBODY, parts=[link])
    save_record(one, author=SOMEBODY, parts_removed=[link])
    save_record(two, author=SOMEBODY, parts=[FallbackLink(configuration=two, fallback=one)])
    assert "This would close a circle: one → two → one." in refusal("one", 1)


def test_a_model_that_is_retired_now_is_not_reached_for_again() -> None:
    fast, slow = LanguageModelFactory.create(), LanguageModelFactory.create(identifier="slow")
    configuration = Configuration(identifier="plain-chat", selection="fixed", fixed_model=fast)
    save_record(configuration, author=SOMEBODY)
    configuration.fixed_model = slow
    save_record(configuration, author=SOMEBODY)
    retire(stored(fast), author=SOMEBODY)
    assert "fast is retired; bring it back first" in refusal("plain-chat", 1)
    # Also if its name stands there idly all the while.
    configuration.selection = "criteria"
    save_record(configuration, author=SOMEBODY)
    retire(stored(slow), author=SOMEBODY)
    assert "slow is retired; bring it back first" in refusal("plain-chat", 2)


def test_a_list_of_a_model_that_is_retired_now_is_not_reached_for_again() -> None:
    fast = LanguageModelFactory.create()
    configuration = Configuration(identifier="plain-chat", selection="listed")
    save_record(configuration, author=SOMEBODY, parts=[ListedModel(configuration=configuration, model=fast)])
    configuration.selection = "criteria"
    save_record(configuration, author=SOMEBODY)
    retire(stored(fast), author=SOMEBODY)
    assert "fast: retired; bring it back first" in refusal("plain-chat", 1)


def test_a_provider_that_is_retired_now_is_not_gone_back_to() -> None:
    change_model()
    retire(Provider.objects.get(identifier="lab"), author=SOMEBODY)
    assert "lab is retired; bring it back first" in refusal("wise", 1)


def test_a_record_that_is_not_there_any_more_is_named() -> None:
    change_model()
    Provider._base_manager.filter(identifier="lab")._raw_delete("default")
    assert "There is no provider lab any more: choose another by hand." in refusal("wise", 1)


def test_a_field_that_this_version_does_not_accept_is_refused() -> None:
    change_provider()
    Revision(
        kind="provider", record="prod-west", number=98, after={"priority": 400}, author="x", at=timezone.now()
    ).save()
    assert "less than or equal to 100" in refusal("prod-west", 98)


# --- Evaluation results ---------------------------------------------------------------------------------------------


def test_a_result_that_was_removed_is_made_anew() -> None:
    change_evaluation()
    result = EvaluationResult.objects.get()
    other = EvaluationResultFactory.create(model=result.model, run_at=result.run_at + timedelta(days=1))
    remove_evaluation(result, author=SOMEBODY)
    done = restore(revision("fast/refund-questions", 3), author=SOMEBODY)
    assert (done.before, done.after) == (None, revision("fast/refund-questions", 2).after)
    assert EvaluationResult.objects.exclude(pk=other.pk).get().mean_score == 0.9
    assert again("fast/refund-questions", 1)["mean_score"] == (0.9, 0.8)
    assert stored(other).mean_score == other.mean_score


def test_which_run_a_result_is_of_is_not_changed() -> None:
    change_evaluation()
    result = EvaluationResult.objects.get()
    result.run_at, result.golden_set = SPRING, "other-questions"
    with pytest.raises(ValidationError) as refused:
        save_evaluation(result, author=SOMEBODY)
    assert sorted(refused.value.message_dict) == ["golden_set", "run_at"]


# --- Settings -------------------------------------------------------------------------------------------------------


def test_a_setting_goes_back_to_its_default_and_from_it() -> None:
    store_setting("routing.currency", "EUR", author=SOMEBODY)
    clear_setting("routing.currency", author=SOMEBODY)
    assert again("routing.currency", 1) == {"value": (None, "EUR")}
    assert again("routing.currency", 2) == {"value": ("EUR", None)}
    assert not SettingValue.objects.exists()
    assert [event.action for event in AuditEvent.objects.order_by("number")][-2:] == ["restored", "restored"]
    assert "nothing would change" in refusal("routing.currency", 2)


def test_a_setting_that_is_pinned_or_gone_or_does_not_accept_the_value_is_refused(settings: Settings) -> None:
    store_setting("routing.currency", "EUR", author=SOMEBODY)
    store_setting("routing.currency", "CHF", author=SOMEBODY)
    for number, key, value in ((50, "routing.currency", "euros"), (51, "routing.ofOldTimes", 1)):
        Revision(
            kind="setting", record=key, number=number, after={"value": value}, author="x", at=timezone.now()
        ).save()
    assert "three capital letters" in refusal("routing.currency", 50)
    assert "There is no setting routing.ofOldTimes" in refusal("routing.ofOldTimes", 51)
    settings.SIGNALBOX_SETTINGS = {"routing.currency": "USD"}
    assert "is pinned by the environment variable" in refusal("routing.currency", 1)
