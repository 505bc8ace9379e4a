"""Each setting does something: what a call through the whole gateway comes to is one thing before a setting is
flipped, and another thing afterwards. A setting without an effect here fails. While the effect is shown, whoever reads
the value in force is watched: the pages name these readers, and the registry says who they are."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from pytest_django import Settings

from budgets.ledger import release, settle
from budgets.models import Account, Entry
from budgets.windows import WindowKind
from governance.audit.actions import Author, Channel
from governance.changes.settings import store_setting
from governance.gateway.errors import RequestProblem
from governance.models import AlertDelivery, SettingsVersion, SettingValue, Submission
from governance.settings_store.registry import REGISTRY
from governance.submissions.claims import Ending, end
from governance.submissions.intake import cancel, submit_batch
from governance.submissions.readouts import read_result
from governance.submissions.sweeping import remove_old, sweep
from governance.tasks import prune_ledger
from routing.core.money import Money
from routing.models import Price
from telemetry.models import Call
from tests.budgets.claims import claim, hold, key_of
from tests.factories import CallFactory, ConfigurationFactory, FallbackLinkFactory
from tests.governance.alerts.rows import delivery
from tests.governance.gateway.conftest import World, relist
from tests.governance.gateway.harness import question
from tests.governance.gateway.upstream import answers, fails
from tests.governance.settings_store.reading import attributes_of, watched
from tests.governance.submissions.orders import HELPDESK, handed_in, later, order, taken_up

AUTHOR = Author("a test", Channel.COMMAND)


@dataclass(frozen=True)
class Effect:
    """What to flip a setting to, how to set the scene, and what to look at: before, and after."""

    value: Any
    before: Any
    after: Any
    look: Callable[[World], Any]
    prepare: Callable[[World], None] = lambda world: None


def any_chat(world: World) -> None:
    ConfigurationFactory(identifier="any-chat", criteria=True)


def route(world: World) -> str:
    """Which route serves. The call is forgotten, so that looking does not move what the next look is decided by."""
    served: str = world.gateway.chat("any-chat").headers["x-signalbox-route"]
    world.gateway.flush()
    Call.objects.filter(requested="any-chat").delete()
    return served


def status(world: World) -> int:
    return world.gateway.chat().status


def status_below_a_ceiling(world: World) -> int:
    body, headers = question(), {"x-signalbox-max-cost": "0.03"}
    return world.gateway.request(body, headers=headers).status


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/parcel.png"}}
DOCUMENT = {"type": "file", "file": {"file_id": "file-7"}}


def status_with(attached: dict[str, Any]) -> Callable[[World], int]:
    """Of a call that may cost a cent, and hardly says anything beside what is attached."""

    def look(world: World) -> int:
        content = [{"type": "text", "text": "What is this?"}, attached]
        body = question(messages=[{"role": "user", "content": content}], max_tokens=1)
        return world.gateway.request(body, headers={"x-signalbox-max-cost": "0.01"}).status

    return look


def let_it_see(world: World) -> None:
    for model in world.models:
        model.capabilities = ["chat", "vision"]
        model.save()


def in_another_currency(world: World) -> tuple[int, int]:
    """Prices that are no figures pass a limit of the criteria, and never keep below a ceiling."""
    return world.gateway.chat("cheap-chat").status, status_below_a_ceiling(world)


def status_of_a_large_body(world: World) -> int:
    return world.gateway.chat(text="parcel " * 1000).status


def calls_recorded(world: World) -> int:
    before = Call.objects.count()
    assert world.gateway.chat().status == 200
    world.gateway.flush()
    return Call.objects.count() - before


def make_the_last_one_cheap(world: World) -> None:
    any_chat(world)
    price = Price.objects.get(model=world.models[2])
    price.input_rate, price.cached_input_rate, price.output_rate = 1_000, 100, 4_000
    price.save()


def make_the_last_one_quick(world: World) -> None:
    any_chat(world)
    store_setting("routing.policyMode", "balanced", author=AUTHOR)
    for model in world.models:
        CallFactory.create_batch(
            6,
            started_at=datetime.now(UTC) - timedelta(days=1),
            served_adapter_type=model.provider.adapter_type,
            served_model_id=model.model_id,
            latency_ms=100.0 if model == world.models[2] else 9_000.0,
        )


def declare_something_else(world: World) -> None:
    for model in world.models:
        model.capabilities = ["embeddings"]
        model.save()


def leave_the_longest_answer_open(world: World) -> None:
    for model in world.models:
        model.max_output = 0  # not known
        model.save()


def cap_the_answers_and_limit_prices(world: World) -> None:
    ConfigurationFactory(identifier="cheap-chat", criteria=True, max_input_rate=1)
    for model in world.models:
        model.max_output = 100
        model.save()


def deliveries_of_lost_workers(world: World) -> int:
    """How often a call is taken up whose workers are all lost before they have sent anything."""
    submission = handed_in()
    for count in range(1, 20):
        taken_up(submission)
        if not sweep(now=later(seconds=31)).deliveries:
            return count
    raise AssertionError("it is taken up for ever")


def hours_an_answer_is_kept(world: World) -> float:
    submission = handed_in()
    end(taken_up(submission), Ending(answer=b"{}", failure=None), now=datetime.now(UTC))
    kept_until = read_result(submission, application="helpdesk").kept_until
    assert kept_until is not None
    return round((kept_until - datetime.now(UTC)) / timedelta(hours=1), 2)


def is_row_there_after_a_fortnight(world: World) -> bool:
    submission = handed_in()
    cancel(submission)
    remove_old(now=later(days=14))
    return Submission.objects.filter(pk=submission).exists()


def is_an_entry_there_after_a_year(world: World) -> bool:
    """An entry of all time that was booked a year ago."""
    at = datetime.now(UTC) - timedelta(days=365)
    release(attempt=hold(claim(key_of(window=WindowKind.TOTAL)), now=at), now=at)
    prune_ledger()
    return Entry.objects.exists()


def is_an_account_there_after_three_years(world: World) -> bool:
    """One of a day three years ago, whose entries are carried over."""
    at = datetime.now(UTC) - timedelta(days=3 * 365)
    settle(attempt=hold(claim(key_of(moment=at, window=WindowKind.DAY)), now=at), cost=Money(7, "USD"), now=at)
    prune_ledger()
    return Account.objects.exists()


def is_a_delivery_there_after_a_month(world: World) -> bool:
    if not AlertDelivery.objects.exists():
        delivery()
    AlertDelivery.objects.update(created_at=datetime.now(UTC) - timedelta(days=30))
    prune_ledger()
    return AlertDelivery.objects.exists()


def is_a_batch_of_five_taken(world: World) -> bool:
    try:
        submit_batch([order()] * 5, caller=HELPDESK)
    except RequestProblem:
        return False
    return True


def asked_of_a_provider_that_is_away(world: World) -> int:
    """How often a route is asked. A passing fault is repeated, and the world asks once unless it is told."""
    relist(world.configuration, world.models[:1])
    world.gateway.refresh()
    world.script(fails(503))
    return int(world.gateway.chat().headers["x-signalbox-attempts"])


def let_it_ask_often(world: World) -> None:
    SettingValue.objects.filter(key="retry.attempts").delete()
    store_setting("retry.attempts", 10, author=AUTHOR)


def is_a_wait_short(at: int, *, than: float) -> Callable[[World], bool]:
    """Whether one of the waits of a call is shorter than so many seconds."""

    def look(world: World) -> bool:
        asked_of_a_provider_that_is_away(world)
        call = world.calls()[-1]
        return call.attempts.order_by("index")[at].waited_ms < than * 1000

    return look


def make_the_first_fallback_ill(world: World) -> None:
    """A configuration of one model, which is away, with two to fall back to; every call to one of them failed."""
    fast, wise, huge = world.models
    relist(world.configuration, [fast])
    for position, model in enumerate((wise, huge)):
        fallback = ConfigurationFactory(identifier=f"instead-{position}", fixed=True, fixed_model=model)
        FallbackLinkFactory(configuration=world.configuration, fallback=fallback, position=position)
    CallFactory.create_batch(
        4,
        started_at=datetime.now(UTC) - timedelta(minutes=1),
        first_adapter_type=wise.provider.adapter_type,
        first_failure_kind="transient",
        success=False,
    )


def who_rescues(world: World) -> str:
    world.script(fails(503), answers(), answers())
    reply = world.gateway.chat()
    return reply.headers["x-signalbox-route"]


def status_of_a_rate_limit_and_another_route(world: World) -> int:
    """A wait that is advised and would take too long ends a call, although another route is left."""
    world.script(fails(429, headers={"retry-after": "60"}), answers())
    return world.gateway.chat().status


EFFECTS: dict[str, Effect] = {
    "routing.policyMode": Effect("economy", "prod-east/fast", "lab/huge", route, make_the_last_one_cheap),
    "routing.callHistory": Effect(True, "prod-east/fast", "lab/huge", route, make_the_last_one_quick),
    "routing.operationCapabilityEnforcement": Effect("observe", 400, 200, status, declare_something_else),
    "routing.currency": Effect("EUR", (400, 200), (200, 400), in_another_currency, cap_the_answers_and_limit_prices),
    "telemetry.enabled": Effect(False, 1, 0, calls_recorded),
    "gateway.maxBodyBytes": Effect(2048, 200, 413, status_of_a_large_body),
    "health.reorderFallback": Effect(True, "prod-west/wise", "lab/huge", who_rescues, make_the_first_fallback_ill),
    "gateway.deadlineSeconds": Effect(50, 200, 504, status_of_a_rate_limit_and_another_route, let_it_ask_often),
    "retry.attempts": Effect(3, 1, 3, asked_of_a_provider_that_is_away),
    "retry.firstWaitMilliseconds": Effect(2, False, True, is_a_wait_short(1, than=0.1), let_it_ask_often),
    "retry.longestWaitMilliseconds": Effect(300, False, True, is_a_wait_short(9, than=0.301), let_it_ask_often),
    "calls.maxDeliveries": Effect(4, 2, 4, deliveries_of_lost_workers),
    "calls.contentHours": Effect(5, 24.0, 5.0, hours_an_answer_is_kept),
    "calls.submissionDays": Effect(7, True, False, is_row_there_after_a_fortnight),
    "calls.maxBatchCalls": Effect(4, True, False, is_a_batch_of_five_taken),
    "budgets.assumedImageTokens": Effect(1, 400, 200, status_with(IMAGE), let_it_see),
    "budgets.assumedFileTokens": Effect(1, 400, 200, status_with(DOCUMENT), let_it_see),
    "budgets.entryDays": Effect(364, True, False, is_an_entry_there_after_a_year),
    "budgets.accountDays": Effect(1000, True, False, is_an_account_there_after_three_years),
    "budgets.deliveryDays": Effect(29, True, False, is_a_delivery_there_after_a_month),
    "budgets.assumedMaxOutput": Effect(77, 400, 200, status_below_a_ceiling, leave_the_longest_answer_open),
}


def test_every_setting_has_an_effect() -> None:
    assert set(EFFECTS) == set(REGISTRY)


def store(key: str, value: Any, settings: Settings) -> None:
    store_setting(key, value, author=AUTHOR)


def pin(key: str, value: Any, settings: Settings) -> None:
    """As a restart with the variable would."""
    settings.SIGNALBOX_SETTINGS = {key: value}
    with transaction.atomic():
        SettingsVersion.bump()


@pytest.mark.parametrize("flip", [store, pin])
@pytest.mark.parametrize("key", sorted(REGISTRY))
def test_flipping_a_setting_changes_what_a_call_comes_to(
    key: str, flip: Callable[[str, Any, Settings], None], world: World, settings: Settings
) -> None:
    effect = EFFECTS[key]
    effect.prepare(world)
    with watched(attributes_of(key, effect.value)) as readers:
        world.gateway.refresh()
        assert effect.look(world) == effect.before
        flip(key, effect.value, settings)
        world.gateway.refresh()
        assert effect.look(world) == effect.after
    assert readers == set(REGISTRY[key].readers), "who reads it and who is said to read it, in the registry"
