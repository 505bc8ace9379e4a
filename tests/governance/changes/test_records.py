"""Every change of every kind: before and after, in one transaction with the entry of the trail, and no secret in it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from governance.audit.actions import AuditAction, RecordKind
from governance.audit.trail import verify
from governance.changes.descriptions import describe
from governance.changes.keys import issue_key, revoke_key, rotate_key, save_key
from governance.changes.records import (
    bring_back,
    remove_evaluation,
    retire,
    save_evaluation,
    save_record,
    switch,
)
from governance.changes.settings import clear_setting, store_setting
from governance.models import (
    AccessKey,
    Application,
    AuditEvent,
    Budget,
    Revision,
    SettingsVersion,
    SettingValue,
    Webhook,
)
from routing.models import (
    CatalogueVersion,
    Configuration,
    EvaluationResult,
    FallbackLink,
    LanguageModel,
    ListedModel,
    NamedRecord,
    Price,
    Provider,
)
from tests.authors import SOMEBODY
from tests.factories import (
    LONG_AGO,
    AccessKeyFactory,
    ApplicationFactory,
    BudgetFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
    WebhookFactory,
)

pytestmark = pytest.mark.django_db


def new_model() -> LanguageModel:
    return LanguageModel(identifier="wise", model_id="gpt-x-pro", provider=ProviderFactory.create(identifier="lab"))


UNREVISED = {RecordKind.SUBMISSION, RecordKind.BATCH, RecordKind.ROUTE, RecordKind.ATTEMPT, RecordKind.ALERT}
"""Of these the trail tells what was done, and no revision is kept: they are calls, and no records that people set."""

NEW: dict[RecordKind, Callable[[], NamedRecord]] = {
    RecordKind.PROVIDER: lambda: Provider(identifier="prod-west", adapter_type="openai"),
    RecordKind.MODEL: new_model,
    RecordKind.CONFIGURATION: lambda: Configuration(identifier="plain-chat"),
    RecordKind.APPLICATION: lambda: Application(identifier="web-shop"),
    RecordKind.BUDGET: lambda: Budget(identifier="all-of-it", limit=5),
    RecordKind.WEBHOOK: lambda: Webhook(identifier="pager", url="https://alerts.example.com/signalbox"),
}


def last() -> AuditEvent:
    event: AuditEvent | None = AuditEvent.objects.select_related("revision").first()
    assert event is not None
    return event


def trail() -> list[tuple[str, str, str]]:
    return [(event.action, event.kind, event.record) for event in AuditEvent.objects.order_by("number")]


def documents() -> tuple[Any, Any]:
    revision = last().revision
    assert revision is not None
    return revision.before, revision.after


@pytest.mark.parametrize("kind", NEW)
def test_a_record_with_an_identifier_from_its_making_to_its_retirement(kind: RecordKind) -> None:
    record = NEW[kind]()
    name = record.identifier
    save_record(record, author=SOMEBODY, reason="We need it.")
    before, after = documents()
    assert before is None
    assert (after["identifier"], after["is_active"]) == (name, True)
    assert (last().author, last().channel, last().reason) == ("somebody", "command", "We need it.")

    record.name = "Another name"
    save_record(record, author=SOMEBODY, only=["name"])
    assert last().revision.changes == {"name": ("", "Another name")}  # type: ignore[union-attr]

    switch(record, on=False, author=SOMEBODY)
    assert last().revision.changes == {"is_active": (True, False)}  # type: ignore[union-attr]
    switch(record, on=True, author=SOMEBODY)
    retire(record, author=SOMEBODY)
    before, after = documents()
    assert (before["retired_at"], after["is_active"]) == (None, False)
    assert datetime.fromisoformat(after["retired_at"]) <= timezone.now()
    bring_back(record, author=SOMEBODY)
    assert [action for action, *_ in trail()] == [
        "created", "changed", "changed", "changed", "retired", "broughtBack",
    ]  # fmt: skip
    assert {(each, of) for _, each, of in trail()} == {(kind.value, name)}
    assert [revision.number for revision in Revision.objects.order_by("pk")] == [1, 2, 3, 4, 5, 6]
    assert verify().flaws == ()


@pytest.mark.parametrize("kind", NEW)
def test_nothing_differs_nothing_is_written(kind: RecordKind) -> None:
    record = NEW[kind]()
    record.save()
    stored = type(record)._default_manager.get(pk=record.pk)
    before = record.counter.read()
    save_record(stored, author=SOMEBODY)
    switch(stored, on=True, author=SOMEBODY)
    bring_back(stored, author=SOMEBODY)
    assert (trail(), record.counter.read()) == ([], before)
    again = type(record)._default_manager.get(pk=record.pk)
    assert again.updated_at == record.updated_at


@pytest.mark.parametrize("kind", NEW)
def test_what_is_wrong_is_not_saved(kind: RecordKind) -> None:
    record = NEW[kind]()
    record.save()
    before = record.counter.read()
    record.name = "x" * 300
    with pytest.raises(ValidationError) as refused:
        save_record(record, author=SOMEBODY)
    assert list(refused.value.message_dict) == ["name"]
    assert type(record)._default_manager.get(pk=record.pk).name == ""
    assert (trail(), record.counter.read()) == ([], before)


def test_a_part_that_is_wrong_saves_neither_the_record_nor_the_other_parts() -> None:
    model = new_model()
    good = Price(model=model, valid_from=LONG_AGO, input_rate=1, output_rate=1)
    bad = Price(model=model, valid_from=timezone.now(), input_rate=1, output_rate=1, currency="dollars")
    with pytest.raises(ValidationError):
        save_record(model, author=SOMEBODY, parts=[good, bad])
    assert not LanguageModel.objects.filter(identifier="wise").exists()
    assert not Price.objects.exists()
    assert trail() == []


def test_a_failure_after_the_change_takes_the_entry_with_it() -> None:
    provider = ProviderFactory.create()
    with transaction.atomic():
        switch(provider, on=False, author=SOMEBODY)
        transaction.set_rollback(True)
    assert Provider.objects.get().is_active is True
    assert trail() == []
    assert not Revision.objects.exists()


def test_a_reason_that_is_too_long_saves_nothing() -> None:
    provider = ProviderFactory.create()
    with pytest.raises(ValidationError, match="reason: "):
        switch(provider, on=False, author=SOMEBODY, reason="x" * 501)
    assert Provider.objects.get().is_active is True


def test_only_the_columns_named_are_written() -> None:
    mine = ProviderFactory.create()
    theirs = Provider.objects.get()
    theirs.region = "eu-north"
    save_record(theirs, author=SOMEBODY, only=["region"])
    mine.priority = 7
    save_record(mine, author=SOMEBODY, only=["priority"])
    stored = Provider.objects.get()
    assert (stored.region, stored.priority) == ("eu-north", 7)
    assert last().revision.changes == {"priority": (50, 7)}  # type: ignore[union-attr]


def test_a_record_with_a_field_that_is_wrong_can_be_switched_off_and_retired() -> None:
    broken = ConfigurationFactory.create(selection="fixed", fixed_model=None)
    with pytest.raises(ValidationError):
        save_record(broken, author=SOMEBODY)
    switch(broken, on=False, author=SOMEBODY)
    with pytest.raises(ValidationError):
        switch(Configuration.objects.get(), on=True, author=SOMEBODY)
    retire(broken, author=SOMEBODY)
    assert [action for action, *_ in trail()] == ["changed", "retired"]


def test_a_retired_record_is_not_switched_on() -> None:
    provider = ProviderFactory.create(retired_at=timezone.now(), is_active=False)
    with pytest.raises(ValidationError, match="bring it back first"):
        switch(provider, on=True, author=SOMEBODY)


# --- Parts ----------------------------------------------------------------------------------------------------------


def test_prices_are_part_of_their_model() -> None:
    model = new_model()
    save_record(model, author=SOMEBODY, parts=[Price(model=model, valid_from=LONG_AGO, input_rate=5, output_rate=7)])
    (price,) = documents()[1]["prices"]
    assert (price["input_rate"], price["output_rate"], price["currency"]) == (5, 7, "USD")
    stored = Price.objects.get()
    stored.input_rate = 6
    save_record(LanguageModel.objects.get(), author=SOMEBODY, parts=[stored], only=[])
    before, after = documents()
    assert (before["prices"][0]["input_rate"], after["prices"][0]["input_rate"]) == (5, 6)
    save_record(LanguageModel.objects.get(), author=SOMEBODY, parts_removed=[stored], only=[])
    assert documents()[1]["prices"] == []
    assert len(trail()) == 3


def test_lists_are_part_of_their_configuration_and_told_in_their_order() -> None:
    configuration = ConfigurationFactory.create(listed=True)
    fallback = ConfigurationFactory.create(identifier="plan-b")
    one, two = configuration.listed_models.all()
    one.position, two.position = 1, 0
    link = FallbackLink(configuration=configuration, fallback=fallback)
    save_record(configuration, author=SOMEBODY, parts=[one, two, link], only=[])
    assert last().revision.changes == {  # type: ignore[union-attr]
        "listed_models": (["fast", "fast-2"], ["fast-2", "fast"]),
        "fallbacks": ([], ["plan-b"]),
    }
    fixed = ConfigurationFactory.create(identifier="fixed-chat")
    fixed.selection, fixed.fixed_model = "fixed", LanguageModel.objects.get(identifier="fast")
    save_record(fixed, author=SOMEBODY)
    assert last().revision.changes["fixed_model"] == (None, "fast")  # type: ignore[union-attr]


def test_a_place_that_is_taken_is_given_to_another_in_one_change() -> None:
    configuration = ConfigurationFactory.create(listed=True)
    (one, *_) = configuration.listed_models.all()
    again = ListedModel(configuration=configuration, model=one.model, position=5)
    save_record(configuration, author=SOMEBODY, parts=[again], parts_removed=[one], only=[])
    assert documents()[1]["listed_models"] == ["fast-2", "fast"]


# --- Evaluation results ---------------------------------------------------------------------------------------------


def test_a_result_is_entered_changed_and_taken_away() -> None:
    model = LanguageModelFactory.create()
    result = EvaluationResult(model=model, golden_set="g" * 190, mean_score=0.5, run_at=LONG_AGO)
    save_evaluation(result, author=SOMEBODY)
    result.mean_score = 1.0
    save_evaluation(result, author=SOMEBODY, only=["mean_score"])
    assert last().revision.changes == {"mean_score": (0.5, 1.0)}  # type: ignore[union-attr]
    remove_evaluation(result, author=SOMEBODY, reason="A wrong grader.")
    before, after = documents()
    assert (before["model"], before["mean_score"], after) == ("fast", 1.0, None)
    assert trail()[-1] == ("removed", "evaluation", f"fast/{'g' * 190}")
    assert not EvaluationResult.objects.exists()
    assert verify().flaws == ()


# --- Keys -----------------------------------------------------------------------------------------------------------


def new_key(**values: Any) -> tuple[AccessKey, str]:
    application = Application.objects.first() or ApplicationFactory.create()
    key = AccessKey(application=application, name="Robot", **values)
    return key, issue_key(key, author=SOMEBODY)


def test_a_key_is_issued_changed_and_revoked_without_its_secret() -> None:
    LanguageModelFactory.create(identifier="fast")
    key, secret = new_key(allowed_models=["fast"])
    assert trail() == [("issued", "key", f"helpdesk/{secret[:9]}")]
    key.name, key.allowed_models = "Other robot", None
    save_key(key, author=SOMEBODY, only=["name", "allowed_models"])
    assert last().revision.changes == {"name": ("Robot", "Other robot"), "allowed_models": (["fast"], None)}  # type: ignore[union-attr]
    revoke_key(key, author=SOMEBODY)
    revoke_key(key, author=SOMEBODY)
    assert [action for action, *_ in trail()] == ["issued", "changed", "revoked"]
    with pytest.raises(ValidationError, match="revoked and cannot be changed"):
        save_key(key, author=SOMEBODY, only=["name"])
    everything = repr([*Revision.objects.values(), *AuditEvent.objects.values()])
    assert secret[9:] not in everything
    assert key.secret_digest not in everything


def test_a_key_is_rotated_at_once() -> None:
    ConfigurationFactory.create(identifier="support-chat")
    key, secret = new_key(allowed_configurations=["support-chat"], may_name_models=True)
    retire(Configuration.objects.get(), author=SOMEBODY)  # what a key allowed, its successor allows
    successor, other = rotate_key(key, author=SOMEBODY)
    assert other != secret
    assert (successor.name, successor.allowed_configurations, successor.may_name_models) == (
        "Robot", ["support-chat"], True,
    )  # fmt: skip
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert [action for action, kind, _ in trail() if kind == "key"] == ["issued", "issued", "rotated"]
    assert trail()[-1][2] == f"helpdesk/{key.prefix}"


@pytest.mark.parametrize("expires_in", [None, timedelta(hours=1), timedelta(days=30)])
def test_a_rotated_key_goes_on_for_the_grace_but_never_longer_than_before(expires_in: timedelta | None) -> None:
    expires = None if expires_in is None else timezone.now() + expires_in
    key, _ = new_key(expires_at=expires)
    begun = timezone.now()
    successor, _ = rotate_key(key, author=SOMEBODY, grace=timedelta(days=1))
    key.refresh_from_db()
    assert key.revoked_at is None
    assert key.expires_at is not None
    if expires is not None and expires_in == timedelta(hours=1):
        assert key.expires_at == expires
    else:
        assert begun + timedelta(days=1) <= key.expires_at <= timezone.now() + timedelta(days=1)
    assert successor.expires_at == expires


def test_a_key_that_opens_nothing_is_not_rotated() -> None:
    revoked, _ = new_key(revoked_at=timezone.now())
    expired, _ = new_key(expires_at=timezone.now() - timedelta(seconds=1))
    for key, complaint in ((revoked, "is revoked"), (expired, "has expired")):
        with pytest.raises(ValidationError, match=complaint):
            rotate_key(key, author=SOMEBODY)
    assert AccessKey.objects.count() == 2


# --- Settings -------------------------------------------------------------------------------------------------------


def test_a_setting_is_stored_changed_and_set_back() -> None:
    store_setting("routing.currency", "EUR", author=SOMEBODY)
    assert documents() == (None, {"value": "EUR"})
    store_setting("routing.currency", "CHF", author=SOMEBODY, reason="We moved.")
    assert documents() == ({"value": "EUR"}, {"value": "CHF"})
    clear_setting("routing.currency", author=SOMEBODY)
    assert documents() == ({"value": "CHF"}, None)
    assert trail() == [
        ("created", "setting", "routing.currency"),
        ("changed", "setting", "routing.currency"),
        ("reset", "setting", "routing.currency"),
    ]
    before = SettingsVersion.read()
    clear_setting("routing.currency", author=SOMEBODY)
    assert (len(trail()), SettingsVersion.read()) == (3, before)


def test_the_same_value_again_is_no_change() -> None:
    store_setting("routing.callHistory", True, author=SOMEBODY)
    before = SettingsVersion.read()
    store_setting("routing.callHistory", True, author=SOMEBODY)
    assert (len(trail()), SettingsVersion.read()) == (1, before)


def test_a_stored_value_that_cannot_be_read_is_told_as_it_is() -> None:
    SettingValue.objects.create(key="routing.policyMode", value={"a": [None, 1.5, 1e22]})
    store_setting("routing.policyMode", "economy", author=SOMEBODY)
    assert documents()[0] == {"value": {"a": [None, 1.5, 1e22]}}
    assert verify().flaws == ()


# --- Descriptions ---------------------------------------------------------------------------------------------------


def test_every_kind_is_described_by_plain_values_without_a_secret() -> None:
    record, secret = AccessKeyFactory.create()
    provider = ProviderFactory.create(sealed_key=b"sealed-bytes", key_hint="b971")
    rows: dict[RecordKind, Any] = {
        RecordKind.PROVIDER: provider,
        RecordKind.MODEL: PriceFactory.create().model,
        RecordKind.CONFIGURATION: ConfigurationFactory.create(listed=True),
        RecordKind.EVALUATION: EvaluationResultFactory.create(),
        RecordKind.APPLICATION: record.application,
        RecordKind.KEY: record,
        RecordKind.BUDGET: BudgetFactory.create(),
        RecordKind.WEBHOOK: WebhookFactory.create(sealed_secret=b"sealed-bytes", sealed_query=b"sealed-bytes"),
        RecordKind.SETTING: SettingValue.objects.create(key="routing.callHistory", value=True),
    }
    assert set(rows) == set(RecordKind) - UNREVISED
    for kind, row in rows.items():
        document = describe(kind, row.pk)
        assert document is not None
        Revision(kind=kind, record="x", number=1, after=document, author="x", at=datetime.now(UTC)).save()
        for hidden in (secret[9:], record.secret_digest, "sealed-bytes", str(provider.uuid), "uuid"):
            assert hidden not in repr(document)
    assert describe(RecordKind.PROVIDER, 0) is None


def test_the_version_moves_with_every_change() -> None:
    provider = ProviderFactory.create()
    for on in (False, True):
        before = CatalogueVersion.read()
        switch(provider, on=on, author=SOMEBODY)
        assert CatalogueVersion.read() > before
    assert trail()[0] == (AuditAction.CHANGED, RecordKind.PROVIDER, "prod-east")
