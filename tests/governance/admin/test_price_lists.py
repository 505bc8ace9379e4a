"""The page of the price lists."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from governance.admin import price_lists
from governance.models import AuditEvent
from routing.models import LanguageModel, Price
from routing.price_catalogue import CatalogueMissing
from tests.factories import LanguageModelFactory, PriceFactory, ProviderFactory
from tests.governance.admin.pages import text_of
from tests.price_lists import NANOS, ListsOfATest

PAGE = reverse("admin:routing_languagemodel_price_lists")
LIST = reverse("admin:routing_languagemodel_changelist")
FAST, WISE = "fast in 1.00, out 4.00 USD", "wise in 9.00, out 2.00 USD"


@pytest.fixture(autouse=True)
def lists(db: None, monkeypatch: pytest.MonkeyPatch) -> ListsOfATest:
    """Lists of an unpriced model and of one whose price moves too far."""
    provider = ProviderFactory.create()
    LanguageModelFactory.create(provider=provider, identifier="fast", model_id="fast-1")
    held = LanguageModelFactory.create(provider=provider, identifier="wise", model_id="wise-2")
    PriceFactory.create(model=held, input_rate=1 * NANOS, output_rate=2 * NANOS, provenance="genai-prices 0.1")
    catalogue = ListsOfATest({"fast-1": (1, 4), "wise-2": (9, 2)})
    monkeypatch.setattr(price_lists, "PriceCatalogue", lambda: catalogue)
    return catalogue


def test_it_shows_what_is_in_force_and_what_is_listed(operator: Client) -> None:
    page = text_of(operator.get(PAGE))
    for words in ("prod-east/fast", "unpriced", "in 1.00, out 4.00 USD", "input 1.00 → 9.00", "Held for a person"):
        assert words in page
    assert f'value="{FAST}" id="choice-fast" checked' in page
    assert f'value="{WISE}" id="choice-wise" aria' in page  # a person ticks it


def test_the_list_of_models_leads_there_for_all_and_for_some(operator: Client) -> None:
    assert PAGE in text_of(operator.get(LIST))
    chosen = LanguageModel.objects.get(identifier="wise").pk
    answer = operator.post(LIST, {"action": "compare_prices", "_selected_action": [str(chosen)]})
    assert answer.headers["Location"] == f"{PAGE}?model=wise"
    page = text_of(operator.get(answer.headers["Location"]))
    assert "prod-east/wise" in page
    assert "prod-east/fast" not in page


def test_what_is_chosen_is_taken_over_with_a_reason(operator: Client) -> None:
    answer = operator.post(PAGE, {"choice": [FAST, WISE], "do": "take", "reason": "new list"}, follow=True)
    assert "Taken over: fast, wise." in text_of(answer)
    assert Price.objects.filter(provenance="genai-prices 9.9").count() == 2
    assert set(AuditEvent.objects.values_list("reason", flat=True)) == {"new list"}


def test_what_is_held_is_turned_down(operator: Client) -> None:
    answer = operator.post(PAGE, {"choice": [WISE], "do": "decline", "reason": ""}, follow=True)
    assert "Turned down: wise." in text_of(answer)
    assert Price.objects.count() == 1
    assert LanguageModel.objects.get(identifier="wise").declined_price == "in 9.00, out 2.00 USD"


def test_a_price_that_is_not_the_one_shown_is_left_alone(operator: Client, lists: ListsOfATest) -> None:
    lists.listed["fast-1"] = (1, 5)
    answer = operator.post(PAGE, {"choice": [FAST], "do": "take", "reason": ""}, follow=True)
    assert "Left alone, since it is not as it was shown: 1." in text_of(answer)
    assert Price.objects.count() == 1


def test_who_may_only_look_sees_no_button_and_changes_nothing(auditor: Client) -> None:
    page = text_of(auditor.get(PAGE))
    assert "prod-east/fast" in page
    assert "Take over what is chosen" not in page
    assert auditor.post(PAGE, {"choice": [FAST], "do": "take", "reason": ""}).status_code == 403
    assert Price.objects.count() == 1


def test_who_may_not_see_models_does_not_see_it(staff: Callable[..., Client]) -> None:
    assert staff("view_call").get(PAGE).status_code == 403


def test_without_the_package_the_page_says_what_to_install(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise CatalogueMissing

    monkeypatch.setattr(price_lists, "PriceCatalogue", missing)
    assert "add the package genai-prices" in text_of(operator.get(PAGE))
