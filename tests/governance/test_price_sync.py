"""Prices beside price lists: what is taken over, what is held, and what stands."""

from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from governance.audit.actions import Author, Channel
from governance.changes.records import save_record
from governance.models import AuditEvent, Revision
from governance.price_sync import Comparison, PriceStanding, compare, count_standings, decline, take_over
from routing.models import LanguageModel, Price
from routing.price_catalogue import Listing
from routing.snapshots import load_snapshot
from tests.factories import LanguageModelFactory, PriceFactory, ProviderFactory
from tests.price_lists import NANOS, ListsOfATest

AUTHOR = Author("olga", Channel.COMMAND)
LISTS = "genai-prices 0.1"


@pytest.fixture
def model(db: None) -> LanguageModel:
    model: LanguageModel = LanguageModelFactory.create(identifier="wise", model_id="wise-2-latest")
    return model


def priced(model: LanguageModel, units_in: int, units_out: int, provenance: str = LISTS) -> Price:
    price: Price = PriceFactory.create(
        model=model, input_rate=units_in * NANOS, output_rate=units_out * NANOS, provenance=provenance
    )
    return price


def lists(units_in: int, units_out: int) -> ListsOfATest:
    return ListsOfATest({"wise-2-latest": (units_in, units_out)})


def only(catalogue: ListsOfATest) -> Comparison:
    (found,) = compare(catalogue)
    return found


def test_a_model_without_a_price_is_given_the_listed_one(model: LanguageModel) -> None:
    catalogue = lists(2, 8)
    shown = only(catalogue)
    assert (shown.standing, shown.route, shown.listed) == (
        PriceStanding.FIRST,
        "prod-east/wise",
        "in 2.00, out 8.00 USD",
    )
    assert take_over(catalogue, [shown], author=AUTHOR) == [shown]
    price = model.prices.get()
    assert (price.input_rate, price.output_rate, price.provenance) == (2 * NANOS, 8 * NANOS, "genai-prices 9.9")
    event = AuditEvent.objects.get()
    assert (event.record, event.author, event.reason) == ("wise", "olga", "From the price lists (vendor/wise-2-latest)")
    assert only(catalogue).standing is PriceStanding.SAME


def test_other_classes_of_service_are_none_of_the_lists(model: LanguageModel) -> None:
    priced(model, 2, 8)
    PriceFactory.create(model=model, service_tier="flex", valid_from=timezone.now(), provenance=LISTS, input_rate=1)
    assert only(lists(2, 8)).standing is PriceStanding.SAME
    model.prices.filter(service_tier="standard").delete()
    assert only(lists(2, 8)).standing is PriceStanding.FIRST


def test_a_price_from_the_lists_moves_with_them_and_the_old_one_stays(model: LanguageModel) -> None:
    before = priced(model, 2, 8)
    catalogue = lists(3, 8)
    shown = only(catalogue)
    assert shown.standing is PriceStanding.MOVED
    take_over(catalogue, [shown], author=AUTHOR)
    assert [row.input_rate for row in model.prices.order_by("valid_from")] == [2 * NANOS, 3 * NANOS]
    before.refresh_from_db()
    assert before.provenance == LISTS


@pytest.mark.parametrize("provenance", ["manual", "contract of 2026", "demo"])
def test_what_somebody_entered_stands(model: LanguageModel, provenance: str) -> None:
    priced(model, 2, 8, provenance)
    catalogue = lists(3, 9)
    shown = only(catalogue)
    assert shown.standing is PriceStanding.MANUAL
    assert take_over(catalogue, [shown], author=AUTHOR) == []
    assert model.prices.count() == 1


@pytest.mark.parametrize("listed", [(4, 8), (2, 3), (0, 8), (0, 0)], ids=["up", "down", "free input", "free"])
def test_a_move_that_looks_like_a_mistake_is_held(model: LanguageModel, listed: tuple[int, int]) -> None:
    priced(model, 2, 8)
    shown = only(lists(*listed))
    assert shown.standing is PriceStanding.HELD
    assert "→" in shown.why


def test_a_first_price_of_nothing_is_held_since_it_would_pass_every_budget(model: LanguageModel) -> None:
    assert only(lists(0, 0)).standing is PriceStanding.HELD


@pytest.mark.parametrize(
    ("capabilities", "standing"),
    [
        (["chat"], PriceStanding.HELD),
        ([], PriceStanding.HELD),
        (["embeddings", "chat"], PriceStanding.HELD),
        (["embeddings"], PriceStanding.FIRST),
    ],
)
def test_a_first_price_without_one_for_answers_is_held_unless_there_are_none(
    model: LanguageModel, capabilities: list[str], standing: PriceStanding
) -> None:
    """The lists have no output rate for some models that generate; they would pass every budget by what they say."""
    model.capabilities = capabilities
    model.save()
    shown = only(lists(3, 0))
    assert shown.standing is standing
    assert ("generates" in shown.why) is (standing is PriceStanding.HELD)


def test_what_was_turned_down_is_held_no_more_until_the_lists_say_something_else(model: LanguageModel) -> None:
    priced(model, 2, 8)
    decline(only(lists(9, 8)), author=AUTHOR, reason="a typing mistake")
    assert only(lists(9, 8)).standing is PriceStanding.DECLINED
    assert only(lists(7, 8)).standing is PriceStanding.HELD
    event = AuditEvent.objects.get()
    assert (event.record, event.reason) == ("wise", "a typing mistake")
    with pytest.raises(ValidationError, match="Nothing is held"):
        decline(only(lists(9, 8)), author=AUTHOR)


def test_a_held_price_is_forgotten_when_the_lists_return(model: LanguageModel) -> None:
    priced(model, 2, 8)
    assert only(lists(9, 8)).standing is PriceStanding.HELD
    assert only(lists(2, 8)).standing is PriceStanding.SAME


@pytest.mark.parametrize("turned_down", [False, True])
def test_whoever_hands_in_a_held_price_approves_it(model: LanguageModel, turned_down: bool) -> None:
    priced(model, 2, 8)
    catalogue = lists(9, 8)
    if turned_down:
        decline(only(catalogue), author=AUTHOR)
    assert len(take_over(catalogue, [only(catalogue)], author=AUTHOR, reason="they say so")) == 1
    assert only(catalogue).standing is PriceStanding.SAME


def test_what_was_shown_and_is_not_so_any_more_is_left_alone(model: LanguageModel) -> None:
    shown = only(lists(2, 8))
    priced(model, 5, 5, "manual")
    assert take_over(lists(2, 8), [shown], author=AUTHOR) == []
    assert take_over(lists(3, 8), [shown], author=AUTHOR) == []
    assert model.prices.count() == 1


def test_figures_changed_by_hand_are_manual_from_then_on(model: LanguageModel) -> None:
    price = priced(model, 2, 8)
    price.output_rate = 7 * NANOS
    save_record(model, author=AUTHOR, parts=[price], only=[])
    price.refresh_from_db()
    assert price.provenance == "manual"
    assert only(lists(2, 8)).standing is PriceStanding.MANUAL


def test_who_says_where_changed_figures_come_from_is_believed(model: LanguageModel) -> None:
    price = priced(model, 2, 8)
    price.output_rate, price.provenance = 7 * NANOS, "genai-prices 0.2"
    save_record(model, author=AUTHOR, parts=[price], only=[])
    price.refresh_from_db()
    assert price.provenance == "genai-prices 0.2"


def test_what_is_not_listed_or_does_not_fit_is_told(model: LanguageModel) -> None:
    assert only(ListsOfATest({})).standing is PriceStanding.ABSENT
    unfit = Listing(name="vendor/x", price=None, problem="It is not priced by the token.", left_out=())
    shown = only(ListsOfATest({"wise-2-latest": unfit}))
    assert (shown.standing, shown.why) == (PriceStanding.UNFIT, "It is not priced by the token.")


def test_the_address_is_the_providers_own_or_that_of_its_kind(db: None) -> None:
    asked = []

    class Asked(ListsOfATest):
        def find(self, **named: object) -> Listing | None:
            asked.append(named["base_url"])
            return None

    LanguageModelFactory.create(provider=ProviderFactory.create(adapter_type="anthropic", base_url=""))
    LanguageModelFactory.create(provider=ProviderFactory.create(base_url="https://own.example.com/v1"))
    compare(Asked({}))
    assert sorted(map(str, asked)) == ["https://api.anthropic.com/v1", "https://own.example.com/v1"]


def test_retired_models_are_left_alone_and_all_others_cost_two_queries(
    model: LanguageModel, django_assert_num_queries: Any
) -> None:
    LanguageModelFactory.create_batch(3, priced=True)
    model.retired_at, model.is_active = model.created_at, False
    model.save()
    with django_assert_num_queries(2):
        found = compare(lists(1, 1))
    assert len(found) == 3
    assert count_standings(found) == {PriceStanding.ABSENT: 3}


def test_the_snapshot_prices_calls_by_it(model: LanguageModel) -> None:
    catalogue = lists(2, 8)
    take_over(catalogue, [only(catalogue)], author=AUTHOR)
    spec = load_snapshot().catalogue.by_identifier["wise"]
    assert [price.rates.input for price in spec.prices] == [2 * NANOS]
    assert Revision.objects.count() == 1
