"""Every change of a record raises the counter of its app, in the transaction of the change, and none is lost."""

from collections.abc import Callable
from datetime import timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import close_old_connections, connection, models, transaction

from governance.models import AccessKey, AccessVersion, BudgetTier, SettingsVersion, SettingValue
from routing.models import CatalogueVersion, NamedRecord, Provider, VersionCounter, VersionedRecord
from tests import factories

Make = Callable[[], VersionedRecord]


def _setting() -> SettingValue:
    return SettingValue.objects.create(key="routing.callHistory", value=True)


def _key() -> AccessKey:
    issued: factories.IssuedKey = factories.AccessKeyFactory.create()
    return issued.record


def _tier() -> BudgetTier:
    return BudgetTier.objects.create(budget=factories.BudgetFactory.create(), threshold=80, model="fast")


# A record of each versioned model, its counter, and a change of it.
RECORDS: dict[str, tuple[Make, type[VersionCounter], dict[str, Any]]] = {
    "routing.Provider": (factories.ProviderFactory.create, CatalogueVersion, {"priority": 70}),
    "routing.LanguageModel": (factories.LanguageModelFactory.create, CatalogueVersion, {"sorting": 3}),
    "routing.Price": (factories.PriceFactory.create, CatalogueVersion, {"input_rate": 1}),
    "routing.Configuration": (factories.ConfigurationFactory.create, CatalogueVersion, {"plan_limit": 5}),
    "routing.ListedModel": (
        lambda: factories.ConfigurationFactory.create(listed=True).listed_models.all()[0],
        CatalogueVersion,
        {"position": 9},
    ),
    "routing.FallbackLink": (factories.FallbackLinkFactory.create, CatalogueVersion, {"position": 9}),
    "routing.EvaluationResult": (factories.EvaluationResultFactory.create, CatalogueVersion, {"mean_score": 0.1}),
    "governance.Application": (factories.ApplicationFactory.create, AccessVersion, {"name": "Help"}),
    "governance.AccessKey": (_key, AccessVersion, {"name": "Robot"}),
    "governance.Budget": (factories.BudgetFactory.create, AccessVersion, {"limit": 7}),
    "governance.BudgetTier": (_tier, AccessVersion, {"position": 9}),
    "governance.Webhook": (factories.WebhookFactory.create, AccessVersion, {"name": "Another name"}),
    "governance.SettingValue": (_setting, SettingsVersion, {"value": False}),
}
NAMED = [
    "routing.Provider",
    "routing.LanguageModel",
    "routing.Configuration",
    "governance.Application",
    "governance.Budget",
    "governance.Webhook",
]
OTHERS = sorted(set(RECORDS) - set(NAMED))
COUNTERS: tuple[type[VersionCounter], ...] = (CatalogueVersion, AccessVersion, SettingsVersion)


def versions() -> dict[type[VersionCounter], int]:
    return {counter: counter.read() for counter in COUNTERS}


def moved(before: dict[type[VersionCounter], int]) -> set[type[VersionCounter]]:
    return {counter for counter, version in versions().items() if version > before[counter]}


@pytest.mark.django_db
def test_a_counter_that_never_moved_says_one() -> None:
    assert set(versions().values()) == {1}


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(RECORDS))
def test_making_and_changing_a_record_raises_its_counter_and_no_other(name: str) -> None:
    make, counter, change = RECORDS[name]
    before = counter.read()
    record = make()
    assert counter.read() > before

    at = versions()
    for field, value in change.items():
        setattr(record, field, value)
    record.save()
    assert moved(at) == {counter}

    at = versions()
    record.save(update_fields=list(change))
    assert moved(at) == {counter}


@pytest.mark.django_db
@pytest.mark.parametrize("name", OTHERS)
def test_removing_a_record_raises_its_counter(name: str) -> None:
    make, counter, _ = RECORDS[name]
    record = make()
    before = versions()
    record.delete()
    assert moved(before) == {counter}

    again = make()
    before = versions()
    type(again).objects.filter(pk=again.pk).delete()
    assert moved(before) == {counter}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", sorted(RECORDS))
def test_a_change_that_is_rolled_back_raises_nothing(name: str) -> None:
    make, _, change = RECORDS[name]
    record = make()
    before = versions()

    class Undone(Exception):
        pass

    def change_and_fail() -> None:
        for field, value in change.items():
            setattr(record, field, value)
        record.save()
        assert moved(before)
        raise Undone

    with pytest.raises(Undone), transaction.atomic():
        change_and_fail()
    assert versions() == before


@pytest.mark.django_db(transaction=True)
def test_a_refused_row_leaves_the_counter_where_it_was() -> None:
    price = factories.PriceFactory.create()
    before = versions()
    with pytest.raises(Exception, match=r"(?i)unique"):
        factories.PriceFactory.create(model=price.model, valid_from=price.valid_from)
    assert versions() == before


@pytest.mark.django_db(transaction=True)
def test_a_removal_in_bulk_and_its_counter_stand_or_fall_together(monkeypatch: pytest.MonkeyPatch) -> None:
    price = factories.PriceFactory.create()

    def fail() -> None:
        raise RuntimeError("the counter cannot be raised")

    monkeypatch.setattr(CatalogueVersion, "bump", fail)
    with pytest.raises(RuntimeError):
        type(price).objects.all().delete()
    assert type(price).objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(RECORDS))
def test_writes_in_bulk_are_refused(name: str) -> None:
    make, _, change = RECORDS[name]
    record = make()
    rows = type(record).objects
    before = versions()
    with pytest.raises(NotImplementedError, match="save each record"):
        rows.update(**change)
    with pytest.raises(NotImplementedError, match="save each record"):
        rows.bulk_create([record])
    with pytest.raises(NotImplementedError, match="save each record"):
        rows.bulk_update([record], list(change))
    assert versions() == before


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_no_manager_offers_to_delete_everything(name: str) -> None:
    assert not hasattr(model_named(name)._default_manager, "delete")


@pytest.mark.django_db
def test_update_or_create_raises_the_counter() -> None:
    provider = factories.ProviderFactory.create()
    before = versions()
    same, created = Provider.objects.update_or_create(identifier=provider.identifier, defaults={"region": "us-west"})
    assert (same.pk, same.region, created) == (provider.pk, "us-west", False)
    assert moved(before) == {CatalogueVersion}


# --- Identifiers --------------------------------------------------------------------------------------------------


def model_named(name: str) -> type[VersionedRecord]:
    label, _, class_name = name.partition(".")
    return next(model for model in VERSIONED if (model._meta.app_label, model.__name__) == (label, class_name))


VERSIONED = [
    model for parent in (VersionedRecord, NamedRecord) for model in parent.__subclasses__() if not model._meta.abstract
]


def test_every_versioned_model_is_tested_here() -> None:
    assert sorted(f"{model._meta.app_label}.{model.__name__}" for model in VERSIONED) == sorted(RECORDS)
    assert sorted(
        f"{model._meta.app_label}.{model.__name__}" for model in VERSIONED if issubclass(model, NamedRecord)
    ) == sorted(NAMED)


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMED)
def test_an_identifier_cannot_be_changed(name: str) -> None:
    record = RECORDS[name][0]()
    assert isinstance(record, NamedRecord)
    model: Any = type(record)
    for changed in (
        record,
        model.objects.get(pk=record.pk),
        model.objects.defer("identifier").get(pk=record.pk),
    ):
        changed.identifier = "another"
        with pytest.raises(ValidationError) as refused:
            changed.save()
        assert list(refused.value.message_dict) == ["identifier"]
        with pytest.raises(ValidationError):
            changed.clean()
    made_by_hand = model(pk=record.pk, identifier="another")
    with pytest.raises(ValidationError):
        made_by_hand.save()
    assert model.objects.filter(identifier="another").count() == 0


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMED)
def test_a_record_that_others_name_is_not_deleted(name: str) -> None:
    record = RECORDS[name][0]()
    with pytest.raises(ValidationError, match="Retire it instead"):
        record.delete()
    with pytest.raises(NotImplementedError, match="Retire them instead"):
        type(record).objects.filter(pk=record.pk).delete()
    assert type(record).objects.filter(pk=record.pk).exists()


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(
    ("identifier", "is_good"),
    [
        ("prod-east", True),
        ("a", True),
        ("4-o_mini", True),
        ("Prod-East", False),
        ("prod.east", False),
        ("prod/east", False),
        ("prod east", False),
        ("-east", False),
        ("östlich", False),
        ("prod-east\n", False),
        ("", False),
    ],
)
def test_identifiers_are_spelled_so_that_they_need_no_quoting(name: str, identifier: str, is_good: bool) -> None:
    model: Any = model_named(name)
    field = model._meta.get_field("identifier")
    assert isinstance(field, models.Field)
    if is_good:
        assert field.clean(identifier, None) == identifier
    else:
        with pytest.raises(ValidationError):
            field.clean(identifier, None)


# --- Many at a time -----------------------------------------------------------------------------------------------


def in_threads(*work: Callable[[], None]) -> list[Exception]:
    """Run each piece in a thread and on a connection of its own, all from the same moment; the errors they had."""
    barrier = Barrier(len(work))
    errors: list[Exception] = []

    def run(piece: Callable[[], None]) -> None:
        close_old_connections()
        try:
            barrier.wait(timeout=30)
            piece()
        except Exception as error:  # noqa: BLE001 (whatever it is, the test wants to see it)
            errors.append(error)
        finally:
            connection.close()

    threads = [Thread(target=run, args=(piece,)) for piece in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.mark.django_db(transaction=True)
def test_changes_at_the_same_time_are_all_counted() -> None:
    providers = [factories.ProviderFactory.create() for _ in range(2)]
    before = CatalogueVersion.read()

    def change(provider: Provider) -> Callable[[], None]:
        def work() -> None:
            for priority in range(25):
                provider.priority = priority
                provider.save()

        return work

    assert in_threads(*(change(provider) for provider in providers)) == []
    assert CatalogueVersion.read() == before + 50


@pytest.mark.django_db(transaction=True)
def test_the_very_first_changes_may_come_at_the_same_time() -> None:
    for _ in range(5):
        CatalogueVersion.objects.all().delete()
        assert in_threads(*(CatalogueVersion.bump for _ in range(4))) == []
        assert CatalogueVersion.read() == 5


@pytest.mark.django_db(transaction=True)
def test_changes_of_the_same_records_in_another_order_wait_for_each_other() -> None:
    one, other = (factories.ProviderFactory.create() for _ in range(2))
    before = CatalogueVersion.read()

    def change(*providers: Provider) -> Callable[[], None]:
        def work() -> None:
            for _ in range(10):
                with transaction.atomic():
                    for provider in providers:
                        Provider.objects.get(pk=provider.pk).save()

        return work

    assert in_threads(change(one, other), change(other, one)) == []
    assert CatalogueVersion.read() == before + 40


@pytest.mark.django_db(transaction=True)
def test_versions_commit_in_the_order_in_which_they_are_given_out() -> None:
    """A reader that saw a version has everything before it: the second change waits for the first one's commit."""
    one, other = (factories.ProviderFactory.create() for _ in range(2))
    before = CatalogueVersion.read()
    seen: list[tuple[str, int]] = []
    holding = Barrier(2)

    def first() -> None:
        with transaction.atomic():
            one.save()
            holding.wait(timeout=30)
            seen.append(("first", CatalogueVersion.read()))

    def second() -> None:
        holding.wait(timeout=30)
        with transaction.atomic():
            other.save()
            seen.append(("second", CatalogueVersion.read()))

    assert in_threads(first, second) == []
    assert seen == [("first", before + 1), ("second", before + 2)]


@pytest.mark.django_db
def test_an_expiry_is_a_change_like_any_other() -> None:
    key = factories.AccessKeyFactory.create().record
    before = versions()
    key.expires_at = factories.RECENTLY + timedelta(days=1)
    key.save(update_fields=["expires_at"])
    assert moved(before) == {AccessVersion}
