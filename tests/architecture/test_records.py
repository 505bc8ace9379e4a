"""Every table is of a kind that says how it may change: versioned, written once, or a kind explained here."""

import pytest
from django.apps import apps
from django.db import models

from budgets.models import AddedOnly
from routing.models import VersionCounter, VersionedRecord
from telemetry.models import WrittenOnce

APPS = ("routing", "telemetry", "budgets", "governance")
MODELS = [model for label in APPS for model in apps.get_app_config(label).get_models(include_auto_created=True)]

# What is none of them, and why it need not be.
EXPLAINED = {
    "routing.CatalogueVersion": "a counter itself",
    "governance.AccessVersion": "a counter itself",
    "governance.SettingsVersion": "a counter itself",
    "governance.ChainHead": "the last entry of the audit trail; locked and changed with every entry that is added",
    "governance.StoredContent": "sealed content, written once and removed when it has expired",
    "governance.NamedCall": "a name that a caller gave to a call; changed by compare-and-set, removed when it is over",
    "governance.AlertDelivery": "an alert on its way; changed by conditional statements, under its claim",
    "governance.SharedState": "what processes tell one another; changed by conditional statements, and may be lost",
    "governance.Submission": "a call that waits for a worker; its state changes by compare-and-set, not by anybody",
    "governance.Batch": "calls handed in together; never changed, and removed with the last of them",
    "budgets.Account": "a balance, changed by the entry that says by how much, in the same statement",
    "budgets.Carryover": "the sums of entries that are not kept any more; changed in the step that removes them",
    "budgets.Hold": "what an attempt under way holds; removed when its outcome is booked",
    "telemetry.UsageDay": "a running sum, added to by one upsert; no process keeps a copy",
    "telemetry.UsageHour": "a running sum, added to by one upsert; no process keeps a copy",
}


def kind_of(model: type[models.Model]) -> set[str]:
    kinds: dict[str, tuple[type[models.Model], ...]] = {
        "versioned": (VersionedRecord,),
        "written once": (WrittenOnce, AddedOnly),
    }
    found = {kind for kind, parents in kinds.items() if issubclass(model, parents)}
    return found | ({"explained"} if model._meta.label in EXPLAINED else set())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_a_table_is_of_exactly_one_kind(model: type[models.Model]) -> None:
    assert len(kind_of(model)) == 1, f"{model._meta.label} is {kind_of(model) or 'of no kind'}; see EXPLAINED"


@pytest.mark.parametrize(
    "model", [model for model in MODELS if issubclass(model, VersionedRecord)], ids=lambda model: model._meta.label
)
def test_a_versioned_record_raises_the_counter_of_its_own_app(model: type[VersionedRecord]) -> None:
    assert issubclass(model.counter, VersionCounter)
    assert model.counter._meta.app_label == model._meta.app_label
    for manager in model._meta.managers:
        with pytest.raises(NotImplementedError):
            manager.get_queryset().update()


def test_nothing_is_explained_that_is_not_there() -> None:
    assert set(EXPLAINED) <= {model._meta.label for model in MODELS}
