"""What is in force is never older than it may be, and what cannot be read hides nothing else."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, InterfaceError

from governance import standing_poll
from governance.changes.settings import clear_setting, store_setting
from governance.decisions import Standing
from governance.settings_store.registry import CALL_HISTORY, CURRENCY, POLICY_MODE, TELEMETRY
from governance.standing_poll import HEALTH_AGE, HISTORY_AGE, StandingPoll
from routing.core.money import Money
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.signals import Figures, HealthFigure, HistoryFigure, HistoryKey
from routing.core.vocabulary import Operation
from telemetry.health import read_health
from telemetry.history import read_history
from tests.authors import SOMEBODY
from tests.factories import (
    CallFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.governance.test_decisions import NOW, SOON, alone


class Reads:
    """Counts the reads of history and health, and lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.history: list[str] = []
        self.health = 0
        self.error: Exception | None = None

        def count_history(*, now: datetime, currency: str) -> Mapping[HistoryKey, HistoryFigure]:
            self.history.append(currency)
            self._fail()
            return read_history(now=now, currency=currency)

        def count_health(*, now: datetime) -> Mapping[str, HealthFigure]:
            self.health += 1
            self._fail()
            return read_health(now=now)

        monkeypatch.setattr(standing_poll, "read_history", count_history)
        monkeypatch.setattr(standing_poll, "read_health", count_health)

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def poll(db: None) -> StandingPoll:
    return StandingPoll(circuits=alone())


def in_force(poll: StandingPoll, now: datetime = NOW) -> Standing:
    """What is in force after a look at a moment."""
    standing = poll.refresh(now=now)
    assert poll.current is standing
    return standing


def test_nothing_is_in_force_before_the_first_look(poll: StandingPoll) -> None:
    assert poll.current is None
    assert in_force(poll).settings.routing == RoutingPolicy()


def test_a_standing_stays_while_nothing_changes(poll: StandingPoll, django_assert_num_queries: Any) -> None:
    first = in_force(poll)
    with django_assert_num_queries(3):  # settings, catalogue, and what budgets come with
        assert in_force(poll, NOW + timedelta(seconds=59)) is first
    ConfigurationFactory()
    second = in_force(poll, NOW + timedelta(seconds=59))
    assert second is not first
    assert "support-chat" in second.snapshot.configurations
    store_setting(POLICY_MODE.key, "economy", author=SOMEBODY)
    assert in_force(poll, NOW + timedelta(seconds=59)).settings.routing.mode is PolicyMode.ECONOMY
    clear_setting(POLICY_MODE.key, author=SOMEBODY)
    third = in_force(poll, NOW + timedelta(seconds=59))
    assert third.settings.routing.mode is PolicyMode.PROVIDER_PRIORITY
    assert third.remembered == {}


def test_history_is_kept_for_five_minutes_and_health_for_one(poll: StandingPoll, reads: Reads) -> None:
    assert (timedelta(minutes=5), timedelta(minutes=1)) == (HISTORY_AGE, HEALTH_AGE)
    expected = {0: (1, 1), 59: (1, 1), 60: (1, 2), 119: (1, 2), 120: (1, 3), 299: (1, 4), 300: (2, 4), 359: (2, 5)}
    for seconds, counts in expected.items():
        in_force(poll, NOW + timedelta(seconds=seconds))
        assert (len(reads.history), reads.health) == counts, seconds


def test_a_clock_that_is_set_back_keeps_nothing(poll: StandingPoll, reads: Reads) -> None:
    in_force(poll)
    in_force(poll, NOW - timedelta(seconds=1))
    assert (len(reads.history), reads.health) == (2, 2)


def test_figures_can_be_forgotten(poll: StandingPoll, reads: Reads) -> None:
    first = in_force(poll)
    poll.forget_figures()
    assert in_force(poll) is not first
    assert (len(reads.history), reads.health) == (2, 2)


@pytest.mark.parametrize("error", [DatabaseError("no"), InterfaceError("no")], ids=["database", "interface"])
def test_a_read_that_fails_is_no_figures_and_no_failure(
    poll: StandingPoll, reads: Reads, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    LanguageModelFactory()
    CallFactory(started_at=NOW - timedelta(minutes=1))
    reads.error = error
    standing = in_force(poll)
    assert standing.figures.history is None
    assert standing.figures.health == {}
    assert "call history cannot be read" in caplog.text
    assert "health cannot be read" in caplog.text
    reads.error = None
    standing = in_force(poll, NOW + HISTORY_AGE)
    assert standing.figures.history is not None
    assert standing.figures.health.keys() == {"fast"}


def test_without_telemetry_nothing_is_read(poll: StandingPoll, reads: Reads) -> None:
    LanguageModelFactory()
    CallFactory(started_at=NOW - timedelta(minutes=1))
    store_setting(TELEMETRY.key, False, author=SOMEBODY)
    standing = in_force(poll)
    assert (reads.history, reads.health) == ([], 0)
    assert (standing.figures.history, standing.figures.health) == (None, {})
    store_setting(TELEMETRY.key, True, author=SOMEBODY)
    assert in_force(poll).figures.health.keys() == {"fast"}  # at once
    assert (len(reads.history), reads.health) == (1, 1)
    store_setting(TELEMETRY.key, False, author=SOMEBODY)
    assert in_force(poll).figures == Figures(quality={}, failures_in_a_row={})


def test_another_currency_is_another_history(poll: StandingPoll, reads: Reads) -> None:
    LanguageModelFactory()
    for _ in range(5):
        CallFactory(started_at=NOW - timedelta(minutes=1), actual_cost_nanos=5, cost_currency="EUR")

    def cost() -> Money | None:
        history = in_force(poll).figures.history
        assert history is not None
        return history[Operation.CHAT]["fast"].mean_cost

    assert cost() is None
    store_setting(CURRENCY.key, "EUR", author=SOMEBODY)
    assert cost() == Money(5, "EUR")
    assert reads.history == ["USD", "EUR"]
    store_setting(CALL_HISTORY.key, True, author=SOMEBODY)
    assert cost() == Money(5, "EUR")
    assert reads.history == ["USD", "EUR"]  # whether it is used does not matter for reading it


def test_figures_find_their_models_by_adapter_type(poll: StandingPoll) -> None:
    """The identifiers of these providers are spelled like adapter types, those of the models like model ids."""
    east = ProviderFactory(identifier="custom", adapter_type="openai")
    west = ProviderFactory(identifier="openai", adapter_type="custom")
    fast = LanguageModelFactory(provider=east, identifier="gpt-x-pro", model_id="gpt-x-mini")
    LanguageModelFactory(provider=west, identifier="gpt-x-mini", model_id="gpt-x-pro")
    EvaluationResultFactory(model=fast, mean_score=0.7)
    CallFactory(
        started_at=NOW - timedelta(minutes=1),
        first_provider="x", first_adapter_type="openai", first_model="y", first_model_id="z",
        served_provider="openai", served_adapter_type="openai", served_model="x", served_model_id="gpt-x-mini",
    )  # fmt: skip
    figures = in_force(poll).figures
    assert figures.quality == {"gpt-x-pro": 0.7}
    assert figures.health.keys() == {"gpt-x-pro"}
    assert figures.history is not None
    assert {operation for operation, found in figures.history.items() if found} == {Operation.CHAT}
    assert figures.history[Operation.CHAT].keys() == {"gpt-x-pro"}


def test_a_price_that_comes_into_force_is_a_new_standing(poll: StandingPoll, reads: Reads) -> None:
    model = LanguageModelFactory(priced=True)
    PriceFactory(model=model, valid_from=SOON)
    PriceFactory(model=model, valid_from=SOON + timedelta(hours=1))
    first = in_force(poll)
    assert first.fresh_until == SOON
    just_before = SOON - timedelta(microseconds=1)
    poll._measured.refresh(first.settings, now=just_before)  # so that only the price is new
    assert in_force(poll, just_before) is first
    second = in_force(poll, SOON)
    assert second is not first
    assert second.fresh_until == SOON + timedelta(hours=1)


def test_a_look_that_fails_half_way_hides_nothing(poll: StandingPoll, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings have changed, and the catalogue cannot be read at just that moment."""
    first = in_force(poll)
    store_setting(POLICY_MODE.key, "economy", author=SOMEBODY)
    refresh: Callable[[], bool] = poll._catalogue.refresh

    def fail() -> bool:
        raise DatabaseError("away")

    monkeypatch.setattr(poll._catalogue, "refresh", fail)
    with pytest.raises(DatabaseError):
        poll.refresh(now=NOW)
    assert poll.current is first  # the last one stays in force
    monkeypatch.setattr(poll._catalogue, "refresh", refresh)
    assert in_force(poll).settings.routing.mode is PolicyMode.ECONOMY
