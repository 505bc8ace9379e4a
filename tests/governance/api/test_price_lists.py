"""Price lists by REST."""

import pytest

from governance.api import price_lists
from routing.models import LanguageModel, Price
from routing.price_catalogue import CatalogueMissing
from tests.factories import LanguageModelFactory, PriceFactory, ProviderFactory
from tests.governance.api.program import Program
from tests.price_lists import NANOS, ListsOfATest

ADDRESS = "price-lists"


@pytest.fixture(autouse=True)
def lists(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of an unpriced model and of one whose price moves too far; and a model priced by hand."""
    provider = ProviderFactory.create()
    LanguageModelFactory.create(provider=provider, identifier="fast", model_id="fast-1")
    held = LanguageModelFactory.create(provider=provider, identifier="wise", model_id="wise-2")
    PriceFactory.create(model=held, input_rate=1 * NANOS, output_rate=2 * NANOS, provenance="genai-prices 0.1")
    LanguageModelFactory.create(provider=provider, identifier="own", model_id="own-3", priced=True)
    catalogue = ListsOfATest({"fast-1": (1, 4), "wise-2": (9, 2), "own-3": (1, 1)})
    monkeypatch.setattr(price_lists, "PriceCatalogue", lambda: catalogue)


def test_the_comparison_is_that_of_the_page(auditor: Program) -> None:
    answer = auditor.get(ADDRESS)
    assert answer.json()["catalogue"] == "genai-prices 9.9"
    assert {each["model"]: each["standing"] for each in answer.json()["items"]} == {
        "fast": "first", "own": "manual", "wise": "held",
    }  # fmt: skip
    assert answer.json()["items"][0] == {
        "model": "fast", "route": "prod-east/fast", "standing": "first", "why": "", "current": None, "provenance": "",
        "listed": "in 1.00, out 4.00 USD", "listed_as": "vendor/fast-1", "left_out": ["web searches"],
    }  # fmt: skip


def test_all_is_taken_over_but_what_is_held(operator: Program) -> None:
    assert operator.post(ADDRESS, {}).json() == {"models": ["fast"]}
    assert Price.objects.filter(provenance="genai-prices 9.9").count() == 1


def test_naming_a_model_approves_what_is_held(operator: Program) -> None:
    assert operator.post(ADDRESS, {"models": ["wise"], "reason": "so they say"}).json() == {"models": ["wise"]}


@pytest.mark.parametrize(("name", "words"), [("own", "nothing to take over for own"), ("nobody", "no model nobody")])
def test_what_cannot_be_taken_over_is_named_and_nothing_is_done(operator: Program, name: str, words: str) -> None:
    answer = operator.post(ADDRESS, {"models": ["fast", name]})
    assert answer.status_code == 400
    assert words in str(answer.json())
    assert not Price.objects.filter(provenance="genai-prices 9.9").exists()


def test_what_is_held_is_turned_down(operator: Program) -> None:
    assert operator.post(f"{ADDRESS}/decline", {"models": ["wise"]}).json() == {"models": ["wise"]}
    assert LanguageModel.objects.get(identifier="wise").declined_price == "in 9.00, out 2.00 USD"
    assert operator.post(f"{ADDRESS}/decline", {"models": ["wise"]}).status_code == 400


def test_without_the_package_it_says_what_to_install(operator: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise CatalogueMissing

    monkeypatch.setattr(price_lists, "PriceCatalogue", missing)
    answer = operator.get(ADDRESS)
    assert answer.status_code == 409
    assert "genai-prices" in answer.json()["detail"]
