"""Models in the admin, and their prices: typed as decimals, stored as whole nano-units."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from routing.core.vocabulary import Capability
from routing.models import CatalogueVersion, LanguageModel, Price
from routing.snapshots import load_snapshot
from tests.factories import LanguageModelFactory, PriceFactory, ProviderFactory
from tests.governance.admin.pages import complaints, sent_by, text_of

LIST = reverse("admin:routing_languagemodel_changelist")
ADD = reverse("admin:routing_languagemodel_add")


def page_of(model: LanguageModel) -> str:
    return reverse("admin:routing_languagemodel_change", args=[model.pk])


def add(operator: Client, **values: Any) -> Any:
    defaults = {
        "name": "Fast and small",
        "identifier": "fast",
        "provider": ProviderFactory.create().pk,
        "model_id": "gpt-x-mini",
        "capabilities": ["tools", "chat"],
    }
    return operator.post(ADD, sent_by(operator.get(ADD), **{**defaults, **values}))


def change(operator: Client, model: LanguageModel, **values: Any) -> Any:
    return operator.post(page_of(model), sent_by(operator.get(page_of(model)), **values))


def test_a_model_is_made_with_a_price(operator: Client) -> None:
    before = timezone.now()
    answer = add(operator, **{"prices-0-input_rate": "2.50", "prices-0-output_rate": "10"})
    assert answer.status_code == 302
    model = LanguageModel.objects.get()
    assert model.capabilities == ["chat", "tools"]
    price = model.prices.get()
    assert (price.input_rate, price.output_rate, price.currency) == (2_500_000_000, 10_000_000_000, "USD")
    assert (price.cached_input_rate, price.cache_write_rate) == (None, None)
    assert before - timedelta(seconds=1) <= price.valid_from <= timezone.now()  # nothing entered is now


def test_a_model_without_a_price_is_unpriced(operator: Client) -> None:
    assert add(operator).status_code == 302
    assert not Price.objects.exists()
    assert "unpriced" in text_of(operator.get(LIST))


def test_nothing_ticked_is_undeclared(operator: Client) -> None:
    add(operator, capabilities=None)
    assert LanguageModel.objects.get().capabilities == []
    assert "undeclared" in text_of(operator.get(LIST))


def test_every_capability_is_a_checkbox_in_words(operator: Client) -> None:
    page = text_of(operator.get(ADD))
    for capability in Capability:
        assert f'type="checkbox" name="capabilities" value="{capability.value}"' in page
    assert "Reads images" in page


def test_stored_capabilities_are_ticked(operator: Client) -> None:
    model = LanguageModelFactory.create(capabilities=["vision", "chat"])
    assert sent_by(operator.get(page_of(model)))["capabilities"] == ["chat", "vision"]


@pytest.mark.parametrize(
    ("typed", "stored"),
    [("2.50", 2_500_000_000), ("0.075", 75_000_000), ("0", 0), ("0.000000001", 1), ("1234.5", 1_234_500_000_000)],
)
def test_a_price_is_changed_by_decimals(operator: Client, typed: str, stored: int) -> None:
    price = PriceFactory.create(input_rate=7)
    before = CatalogueVersion.read()
    assert change(operator, price.model, **{"prices-0-input_rate": typed}).status_code == 302
    price.refresh_from_db()
    assert (price.input_rate, price.output_rate) == (stored, 10_000_000_000)
    assert CatalogueVersion.read() > before
    (seen,) = load_snapshot().catalogue.by_identifier["fast"].prices
    assert seen.rates.input == stored


def test_a_price_is_shown_as_it_is_typed(operator: Client) -> None:
    price = PriceFactory.create(cached_input_rate=0, long_input_rate=None)
    sent = sent_by(operator.get(page_of(price.model)))
    assert sent["prices-0-input_rate"] == ["2.50"]
    assert sent["prices-0-output_rate"] == ["10.00"]
    assert sent["prices-0-cached_input_rate"] == ["0.00"]  # free, which is not absent
    assert sent["prices-0-cache_write_rate"] == [""]
    assert "2.50 / 10.00 USD" in text_of(operator.get(LIST))


def test_saving_a_page_as_it_is_changes_no_price(operator: Client) -> None:
    price = PriceFactory.create(input_rate=1_234_567_891, valid_from=timezone.now())
    before = CatalogueVersion.read()
    assert change(operator, price.model).status_code == 302
    assert CatalogueVersion.read() == before
    assert Price.objects.get().valid_from == price.valid_from


def test_a_long_prompt_tier_is_stored_whole(operator: Client) -> None:
    price = PriceFactory.create()
    change(
        operator,
        price.model,
        **{
            "prices-0-long_prompt_threshold": "200000",
            "prices-0-long_prompt_inclusive": "on",
            "prices-0-long_input_rate": "5",
            "prices-0-long_output_rate": "22.50",
        },
    )
    price.refresh_from_db()
    assert price.long_prompt_threshold == 200_000
    assert price.long_prompt_inclusive is True
    assert (price.long_input_rate, price.long_output_rate) == (5_000_000_000, 22_500_000_000)


def test_a_price_for_later_waits(operator: Client) -> None:
    price = PriceFactory.create()
    answer = change(
        operator,
        price.model,
        **{
            "prices-1-valid_from_0": "2099-01-01",
            "prices-1-valid_from_1": "00:00:00",
            "prices-1-input_rate": "1",
            "prices-1-output_rate": "4",
        },
    )
    assert answer.status_code == 302
    assert Price.objects.count() == 2
    assert "2.50 / 10.00 USD" in text_of(operator.get(LIST))


def test_the_price_in_force_is_the_latest_that_has_begun(operator: Client) -> None:
    price = PriceFactory.create()
    PriceFactory.create(model=price.model, valid_from=timezone.now() - timedelta(days=1), input_rate=1_000_000_000)
    PriceFactory.create(model=price.model, valid_from=timezone.now() + timedelta(days=1), input_rate=3_000_000_000)
    assert "1.00 / 10.00 USD" in text_of(operator.get(LIST))


@pytest.mark.parametrize(
    ("values", "field", "complaint"),
    [
        ({"prices-0-input_rate": "2,50"}, "prices-0-input_rate", "point before the decimals"),
        ({"prices-0-input_rate": "cheap"}, "prices-0-input_rate", "such as 2.50"),
        ({"prices-0-input_rate": "-1"}, "prices-0-input_rate", "cannot be negative"),
        ({"prices-0-input_rate": "0.0000000001"}, "prices-0-input_rate", "nine decimals"),
        ({"prices-0-output_rate": ""}, "prices-0-output_rate", "required"),
        ({"prices-0-currency": "dollars"}, "prices-0-currency", "at most 3"),
        ({"prices-0-currency": "U5D"}, "prices-0-currency", "Three capital letters"),
        ({"prices-0-valid_from_0": "", "prices-0-valid_from_1": ""}, "prices-0-valid_from", "enter it"),
        ({"prices-0-long_input_rate": "5"}, "prices-0-long_prompt_threshold", "needs its threshold"),
        ({"prices-0-long_cached_input_rate": "5"}, "prices-0-long_prompt_threshold", "needs its threshold"),
        ({"prices-0-long_prompt_threshold": "0"}, "prices-0-long_prompt_threshold", "greater than or equal to 1"),
        ({"model_id": ""}, "model_id", "required"),
        ({"context_length": "-1"}, "context_length", "greater than or equal to 0"),
        ({"capabilities": ["dance"]}, "capabilities", "dance"),
    ],
)
def test_bad_input_names_its_field_and_loses_nothing(
    operator: Client, values: dict[str, Any], field: str, complaint: str
) -> None:
    price = PriceFactory.create()
    before = CatalogueVersion.read()
    answer = change(operator, price.model, name="A better name", **values)
    found = complaints(answer)
    assert field in found
    assert complaint in " ".join(found[field])
    assert CatalogueVersion.read() == before
    assert sent_by(answer)["name"] == ["A better name"]
    for name, typed in values.items():
        if isinstance(typed, str):
            assert sent_by(answer)[name] == [typed]


def test_two_prices_of_one_moment_are_refused(operator: Client) -> None:
    price = PriceFactory.create()
    answer = change(
        operator,
        price.model,
        **{
            "prices-1-valid_from_0": f"{price.valid_from:%Y-%m-%d}",
            "prices-1-valid_from_1": f"{price.valid_from:%H:%M:%S}",
            "prices-1-input_rate": "1",
            "prices-1-output_rate": "4",
        },
    )
    assert complaints(answer)
    assert Price.objects.count() == 1


def test_a_currency_may_be_typed_in_small_letters(operator: Client) -> None:
    price = PriceFactory.create()
    change(operator, price.model, **{"prices-0-currency": "eur"})
    assert Price.objects.get().currency == "EUR"


def test_a_wrong_price_is_removed(operator: Client) -> None:
    price = PriceFactory.create()
    change(operator, price.model, **{"prices-0-DELETE": "on"})
    assert not Price.objects.exists()


def test_models_are_found_by_the_id_at_the_provider(operator: Client) -> None:
    model = LanguageModelFactory.create(model_id="gpt-x-maxi")
    other = LanguageModelFactory.create()
    page = text_of(operator.get(LIST, {"q": "maxi"}))
    assert page_of(model) in page
    assert page_of(other) not in page
