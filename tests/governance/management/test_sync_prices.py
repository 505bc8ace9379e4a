"""``manage.py sync_prices``."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from governance.management.commands import sync_prices
from routing.models import Price
from routing.price_catalogue import CatalogueMissing
from tests.factories import LanguageModelFactory, PriceFactory, ProviderFactory
from tests.price_lists import NANOS, ListsOfATest


@pytest.fixture(autouse=True)
def lists(db: None, monkeypatch: pytest.MonkeyPatch) -> ListsOfATest:
    """Lists of three models: one unpriced, one held, one that is not listed."""
    provider = ProviderFactory.create()
    LanguageModelFactory.create(provider=provider, identifier="fast", model_id="fast-1")
    held = LanguageModelFactory.create(provider=provider, identifier="wise", model_id="wise-2")
    PriceFactory.create(model=held, input_rate=1 * NANOS, output_rate=2 * NANOS, provenance="genai-prices 0.1")
    LanguageModelFactory.create(provider=provider, identifier="own", model_id="own-3")
    catalogue = ListsOfATest({"fast-1": (1, 4), "wise-2": (9, 2)})
    monkeypatch.setattr(sync_prices, "PriceCatalogue", lambda: catalogue)
    return catalogue


def run(*arguments: str, **options: Any) -> str:
    out = StringIO()
    call_command("sync_prices", *arguments, stdout=out, **options)
    return out.getvalue()


def test_it_shows_what_it_would_do_and_does_nothing() -> None:
    said = run()
    assert "prod-east/fast: first price" in said
    assert "listed  in 1.00, out 4.00 USD (vendor/fast-1)" in said
    assert "not in our rates: web searches" in said
    assert "input 1.00 → 9.00" in said
    assert "own" not in said.replace("turned down", "")
    assert "genai-prices 9.9: first price 1, held for a person 1, not in the lists 1." in said
    assert "--apply would write 1" in said
    assert Price.objects.count() == 1


def test_applied_it_writes_all_but_what_is_held() -> None:
    assert "Written: 1." in run("--apply")
    assert list(Price.objects.filter(provenance="genai-prices 9.9").values_list("model__identifier", flat=True)) == [
        "fast"
    ]
    assert "Written: 0." in run("--apply")


def test_a_held_price_is_approved_by_the_name_of_its_model() -> None:
    assert "Written: 1." in run("wise", "--apply", "--approve")
    assert Price.objects.filter(model__identifier="wise").count() == 2
    with pytest.raises(CommandError, match="Name the models"):
        run("--apply", "--approve")


def test_a_model_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandError, match="There is no model nobody"):
        run("nobody")


def test_everything_is_told_when_asked_for() -> None:
    assert "prod-east/own: not in the lists" in run("--all")


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise CatalogueMissing

    monkeypatch.setattr(sync_prices, "PriceCatalogue", missing)
    with pytest.raises(CommandError, match="add the package genai-prices"):
        run()
