"""Answers that are kept for an application, where a configuration says so."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from django.db import OperationalError

from budgets.models import Entry
from governance import replays, tasks
from governance.gateway.middleware.cache import is_deterministic
from governance.gateway.protocols import anthropic, openai_chat, openai_embeddings, openai_responses
from governance.models import Application, NamedCall, SettingValue, StoredContent
from governance.safekeeping import read
from routing.core.calls import CallRequest
from telemetry.health import read_health
from telemetry.models import UsageDay
from tests.factories import AccessKeyFactory, ApplicationFactory, BudgetFactory
from tests.governance.gateway import test_embeddings
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply, question
from tests.governance.gateway.test_budget import settled
from tests.governance.gateway.upstream import ANSWER, answers, completion, fails, streams
from tests.servers.fake_provider import Pause


@pytest.fixture
def cached(world: World) -> World:
    """The usual world, whose configuration keeps answers for ten minutes."""
    keep_for(world, 600)
    world.script(answers())
    return world


def keep_for(world: World, seconds: int | None) -> None:
    world.configuration.cache_seconds = seconds
    world.configuration.save()
    world.gateway.refresh()


def ask(world: World, *, key: str | None = None, headers: dict[str, str] | None = None, **members: Any) -> Reply:
    body = question(**{"temperature": 0, **members})
    return world.gateway.request(body, key=key, headers=headers or {})


def another_key(world: World, **settings: Any) -> str:
    """Of the same application."""
    return world.issue(application=Application.objects.get(), **settings)


def outcome(reply: Reply) -> str | None:
    assert reply.status == 200
    return reply.headers.get("x-signalbox-cache")


# --- What a hit is ----------------------------------------------------------------------------------------------------


def test_the_same_request_gets_the_answer_that_is_kept(cached: World) -> None:
    first, again = ask(cached), ask(cached)
    assert (outcome(first), outcome(again), cached.asked) == ("miss", "hit", [1, 0, 0])
    assert again.body == first.body
    assert again.headers["x-signalbox-replay-of"] == first.headers["x-signalbox-call"]
    assert again.headers["x-signalbox-attempts"] == "0"
    assert "x-signalbox-cost" not in again.headers
    assert "x-signalbox-replay-of" not in first.headers


def test_a_hit_is_recorded_as_one_and_says_nothing_of_any_provider(cached: World) -> None:
    ask(cached)
    ask(cached)
    made, given = cached.calls()
    assert (made.cache_hit, made.replay_of, made.requests_sent) == (False, None, 1)
    assert (given.cache_hit, given.replay_of, given.requests_sent, given.success) == (True, made.pk, 0, True)
    assert (given.actual_cost_nanos, given.actual_input_tokens, given.served_model) == (None, None, "")
    assert given.decision_id == made.decision_id
    assert read_health(now=datetime.now(UTC))["openai"].samples == 1
    used = UsageDay.objects.all()
    assert sum(day.requests for day in used) == 2
    assert sum(day.unpriced_requests for day in used) == 0
    assert sum(day.cost_nanos or 0 for day in used) == made.actual_cost_nanos


def test_a_hit_is_found_while_its_route_rests(cached: World) -> None:
    ask(cached)
    cached.script(fails(503), fails(503), fails(503))
    assert ask(cached, text="Another").status == 503
    assert outcome(ask(cached)) == "hit"


def test_a_hit_reserves_nothing(cached: World) -> None:
    BudgetFactory()
    cached.gateway.refresh()
    ask(cached)
    settled(cached)
    booked = [*Entry.objects.order_by("pk").values_list("kind", flat=True)]
    assert booked == ["reserved", "settled"]
    assert outcome(ask(cached)) == "hit"
    settled(cached)
    assert [*Entry.objects.order_by("pk").values_list("kind", flat=True)] == booked


def test_what_is_kept_is_sealed_for_its_application_and_has_an_end(cached: World) -> None:
    ask(cached)
    content = StoredContent.objects.get()
    assert (content.kind, content.owner) == ("cached", cached.call().application)
    assert ANSWER.encode() not in bytes(content.sealed)
    assert ANSWER.encode() in (read(content, now=datetime.now(UTC)) or b"")
    assert content.expires_at - content.created_at == timedelta(seconds=600)


def test_nothing_is_kept_for_longer_than_content_is(cached: World) -> None:
    SettingValue.objects.create(key="calls.contentHours", value=2)
    keep_for(cached, 24 * 3600)
    ask(cached)
    content = StoredContent.objects.get()
    assert content.expires_at - content.created_at == timedelta(hours=2)


def test_what_is_over_is_not_given_again_and_is_removed(cached: World) -> None:
    ask(cached)
    past = datetime.now(UTC) - timedelta(seconds=1)
    StoredContent.objects.update(expires_at=past)
    NamedCall.objects.update(expires_at=past)
    tasks.remove_old()
    assert (StoredContent.objects.count(), NamedCall.objects.count()) == (0, 0)
    assert outcome(ask(cached)) == "miss"
    NamedCall.objects.update(expires_at=past)  # nor where nobody removed it
    assert outcome(ask(cached)) == "miss"
    assert cached.asked == [3, 0, 0]


# --- Whose, and of what ----------------------------------------------------------------------------------------------


def test_keys_of_one_application_share_and_applications_do_not(cached: World) -> None:
    ask(cached)
    assert outcome(ask(cached, key=another_key(cached))) == "hit"
    stranger = AccessKeyFactory.create(application=ApplicationFactory.create(identifier="web-shop")).secret
    cached.gateway.refresh()
    assert outcome(ask(cached, key=stranger)) == "miss"


@pytest.mark.parametrize(
    "members", [{"text": "When?"}, {"user": "ann"}, {"max_tokens": 7}, {"seed": 7}], ids=lambda each: next(iter(each))
)
def test_whatever_differs_is_another_request(cached: World, members: dict[str, Any]) -> None:
    ask(cached)
    assert outcome(ask(cached, **members)) == "miss"
    assert outcome(ask(cached, **members)) == "hit"


def test_another_first_candidate_or_a_changed_configuration_begins_anew(cached: World) -> None:
    ask(cached)
    cached.models[0].model_id = "gpt-x-mini-2"
    cached.models[0].save()
    cached.gateway.refresh()
    assert outcome(ask(cached)) == "miss"
    assert outcome(ask(cached)) == "hit"
    cached.configuration.plan_limit = 2
    keep_for(cached, 600)
    assert outcome(ask(cached)) == "miss"


def test_a_rescue_is_not_kept(cached: World) -> None:
    cached.script(fails(503), answers())
    assert outcome(ask(cached)) == "miss"
    cached.script(answers())
    assert outcome(ask(cached)) == "miss"
    assert cached.asked == [2, 1, 0]
    assert outcome(ask(cached)) == "hit"


def test_a_failure_and_a_refusal_are_not_kept(cached: World) -> None:
    cached.script(fails(400))
    assert (ask(cached).status, NamedCall.objects.count()) == (400, 0)
    refusal = {"index": 0, "message": {"role": "assistant", "refusal": "No."}, "finish_reason": "stop"}
    cached.script(answers(choices=[refusal]))
    assert (outcome(ask(cached)), NamedCall.objects.count()) == ("miss", 0)


def test_embeddings_are_kept_at_any_temperature(cached: World) -> None:
    cached.script(test_embeddings.answers())
    first, again = test_embeddings.embed(cached), test_embeddings.embed(cached)
    assert (outcome(first), outcome(again), again.body) == ("miss", "hit", first.body)


def test_twins_do_not_wait_for_each_other(cached: World) -> None:
    cached.script([Pause(0.3), *answers()])
    begun = [cached.gateway.begin(question(temperature=0), headers={}) for _ in range(2)]
    assert [outcome(each.reply()) for each in begun] == ["miss", "miss"]
    assert (cached.asked, NamedCall.objects.count()) == ([2, 0, 0], 1)
    assert outcome(ask(cached)) == "hit"


def test_a_hit_may_have_a_name(cached: World) -> None:
    ask(cached)
    given = ask(cached, headers={"idempotency-key": "order-17"})
    again = ask(cached, headers={"idempotency-key": "order-17"})
    assert (outcome(given), outcome(again)) == ("hit", None)
    assert again.headers["x-signalbox-replay-of"] == given.headers["x-signalbox-replay-of"]


def test_without_the_database_the_call_is_made(cached: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(replays, "claim", away)
    assert [outcome(ask(cached)) for _ in range(2)] == ["miss", "miss"]
    assert cached.asked == [2, 0, 0]


# --- What is not looked up ------------------------------------------------------------------------------------------


def test_off_unless_the_configuration_says_so(cached: World) -> None:
    keep_for(cached, None)
    assert [outcome(ask(cached)) for _ in range(2)] == [None, None]
    assert (cached.asked, NamedCall.objects.count()) == ([2, 0, 0], 0)


def test_what_is_drawn_is_never_kept(cached: World) -> None:
    assert [outcome(ask(cached, temperature=0.2)) for _ in range(2)] == [None, None]
    assert (cached.asked, NamedCall.objects.count()) == ([2, 0, 0], 0)


def test_a_stream_is_neither_kept_nor_answered_with_what_is(cached: World) -> None:
    ask(cached)
    cached.script(streams())
    reply = ask(cached, stream=True)
    assert (outcome(reply), cached.asked) == (None, [2, 0, 0])


def test_a_model_named_directly_has_no_cache(cached: World) -> None:
    key = another_key(cached, may_name_models=True)
    assert [outcome(ask(cached, key=key, model="prod-east/fast")) for _ in range(2)] == [None, None]


HELLO = {"role": "user", "content": "Hello"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def shows(url: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}


def chat(**members: Any) -> CallRequest:
    document = {"model": "support-chat", "messages": [HELLO], "temperature": 0, **members}
    return openai_chat.read_request(orjson.dumps(document))


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (chat(), True),
        (chat(temperature=0.0), True),
        (chat(n=2), True),
        (chat(messages=[shows("data:image/png;base64,AAAA")]), True),
        (chat(messages=[shows("https://example.com/now.png")]), False),
        (chat(temperature=None), False),
        (chat(temperature=0.01), False),
        (chat(stream=True), False),
        (chat(tools=[TOOL]), False),
        (chat(web_search_options={}), False),
    ],
)
def test_what_is_deterministic(request_: CallRequest, expected: bool) -> None:
    assert is_deterministic(request_) is expected


def test_what_is_deterministic_in_other_protocols() -> None:
    said = {"model": "support-chat", "messages": [HELLO], "max_tokens": 9, "temperature": 0}
    assert is_deterministic(anthropic.read_request(orjson.dumps(said)))
    asked = {"model": "support-chat", "input": "Hello", "temperature": 0}
    assert is_deterministic(openai_responses.read_request(orjson.dumps(asked)))
    gone_on = {**asked, "previous_response_id": "resp_7"}
    assert not is_deterministic(openai_responses.read_request(orjson.dumps(gone_on)))
    embedding = openai_embeddings.read_request(orjson.dumps({"model": "support-chat", "input": "Ulm"}))
    assert is_deterministic(embedding)
    assert not is_deterministic(replace(embedding, uncarried=("sort",)))


# --- Vectors of nr-llm that fit (decision record 0079 names the others) -----------------------------------------------


@pytest.mark.parametrize("vector", ["cache-001", "cache-004", "cache-005", "cache-021"])
def test_vectors(cached: World, vector: str) -> None:
    if vector == "cache-001":  # who asks for no caching passes through
        keep_for(cached, None)
        ask(cached)
        assert (cached.asked, NamedCall.objects.count(), StoredContent.objects.count()) == ([1, 0, 0], 0, 0)
    elif vector == "cache-004":  # a hit asks no provider, is marked, and writes nothing
        ask(cached)
        kept = StoredContent.objects.values_list("pk", "sealed").get()
        ask(cached)
        assert (cached.asked, cached.calls()[-1].cache_hit) == ([1, 0, 0], True)
        assert StoredContent.objects.values_list("pk", "sealed").get() == kept
    elif vector == "cache-005":  # a miss is not marked
        ask(cached)
        assert cached.call().cache_hit is False
    else:  # another operation, or another provider, is another request
        ask(cached)
        cached.script(answers(), answers())
        key = another_key(cached, allowed_models=["wise"])
        assert (outcome(ask(cached, key=key)), cached.asked) == ("miss", [1, 1, 0])
        cached.script(test_embeddings.answers())
        assert outcome(test_embeddings.embed(cached)) == "miss"


def test_an_answer_of_another_protocol_is_kept_as_the_caller_got_it(cached: World) -> None:
    body = orjson.dumps({"model": "support-chat", "messages": [HELLO], "max_tokens": 9, "temperature": 0})
    first, again = (cached.gateway.request(body, path="/v1/messages") for _ in range(2))
    assert (outcome(first), outcome(again), again.body) == ("miss", "hit", first.body)
    assert orjson.loads(again.body)["type"] == "message"
    assert first.body != completion()
