"""Rates and quotas at the gateway: who is refused, what clients are told, and what is given back."""

import re
from typing import Any

import pytest
from pytest_django import Settings

from governance import calls
from governance.changes.keys import rotate_key
from governance.gateway.errors import problem_of
from governance.gateway.rates import spell_duration
from governance.models import AccessKey, Application, SharedState
from routing.core.failures import CallFailed, Failure, FailureKind
from tests.authors import SOMEBODY
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Reply, question
from tests.governance.gateway.upstream import answers, fails, streams
from tests.servers.fake_provider import Stall
from tests.servers.valkey import ValkeyServer
from tests.servers.web import wait_until

SPENT = 1200 + 340
"""Tokens of every answer here."""


@pytest.fixture(params=["table", "server"])
def counts(request: pytest.FixtureRequest, settings: Settings) -> None:
    """Where counts are kept."""
    settings.REDIS_URL = None
    if request.param == "server":
        server: ValkeyServer = request.getfixturevalue("valkey_server")
        settings.REDIS_URL = server.url


@pytest.fixture
def limited(counts: None, world: World) -> World:
    """A gateway whose counts are kept in a table, or in a server."""
    return world


def limit_key(world: World, **limits: int) -> None:
    key = AccessKey.objects.get(pk=world.configuration_key)
    for name, most in limits.items():
        setattr(key, name, most)
    key.save()
    world.gateway.refresh()


def limit_application(world: World, **limits: int) -> None:
    application = Application.objects.get()
    for name, most in limits.items():
        setattr(application, name, most)
    application.save()
    world.gateway.refresh()


def left(world: World, word: str) -> int:
    """What an answer says is left, after itself."""
    return int(world.gateway.chat().headers[f"x-ratelimit-remaining-{word}"])


def test_a_key_is_held_to_its_requests(limited: World) -> None:
    limit_key(limited, requests_per_day=2)
    statuses = [limited.gateway.chat().status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert limited.asked == [2, 0, 0]


def test_a_refusal_in_the_words_of_openai(limited: World) -> None:
    limit_key(limited, requests_per_minute=1)
    assert limited.gateway.chat().status == 200
    reply = limited.gateway.chat()
    assert reply.status == 429
    assert reply.error["code"] == "rate_limit_exceeded"
    assert reply.error["message"].startswith("this key may use 1 requests per minute: 0 are left and 1 are asked for")
    assert 50 <= int(reply.headers["retry-after"]) <= 60
    assert "x-should-retry" not in reply.headers  # a client does well to wait
    assert reply.headers["x-ratelimit-limit-requests"] == "1"
    assert reply.headers["x-ratelimit-remaining-requests"] == "0"
    assert re.fullmatch(r"5[0-9]s|1m0s", reply.headers["x-ratelimit-reset-requests"])
    call = limited.calls()[-1]
    assert (call.success, call.failure_kind, call.requests_sent) == (False, "rate_exceeded", 0)


def test_a_refusal_in_the_words_of_anthropic(world: World) -> None:
    limit_key(world, requests_per_minute=1)
    body = question(max_tokens=5)
    assert world.gateway.request(body, path="/v1/messages").status == 200
    reply = world.gateway.request(body, path="/v1/messages")
    assert (reply.status, reply.json["type"]) == (429, "error")
    assert reply.error["type"] == "rate_limit_error"
    assert reply.headers["anthropic-ratelimit-requests-limit"] == "1"
    assert reply.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", reply.headers["anthropic-ratelimit-requests-reset"])


def test_a_day_that_is_used_up_is_not_waited_for(world: World) -> None:
    limit_key(world, requests_per_day=1)
    world.gateway.chat()
    reply = world.gateway.chat()
    assert 0 < int(reply.headers["retry-after"]) <= 24 * 3600
    if int(reply.headers["retry-after"]) > 60:
        assert reply.headers["x-should-retry"] == "false"


def test_tokens_are_estimated_before_and_booked_after(limited: World) -> None:
    limit_key(limited, tokens_per_day=10_000)
    before = left(limited, "tokens")
    assert 9_900 < before < 10_000  # the estimate of a short question
    assert before - left(limited, "tokens") == SPENT


def test_a_stream_is_booked_when_it_is_over(limited: World) -> None:
    limit_key(limited, tokens_per_day=10_000)
    before = left(limited, "tokens")
    limited.script(streams())
    assert limited.gateway.chat(stream=True).status == 200
    limited.script(answers())
    assert before - left(limited, "tokens") == 2 * SPENT


def test_all_keys_of_an_application_share_its_limits(limited: World) -> None:
    limit_application(limited, requests_per_day=2)
    other = limited.issue(application=Application.objects.get())
    assert limited.gateway.chat().status == 200
    assert limited.gateway.request(question(), key=other).status == 200
    reply = limited.gateway.request(question(), key=other)
    assert reply.status == 429
    assert "this application may use 2 requests per day" in reply.error["message"]


def test_what_a_later_refusal_makes_moot_is_given_back(limited: World) -> None:
    limit_key(limited, requests_per_day=2, tokens_per_day=100_000)
    assert [limited.gateway.chat("no-such-name").status for _ in range(5)] == [404] * 5
    assert left(limited, "requests") == 1


def test_a_request_that_failed_counts_and_its_tokens_do_not(limited: World) -> None:
    limit_key(limited, requests_per_day=9, tokens_per_day=100_000)
    limited.script(fails(400))
    assert limited.gateway.chat().status == 400
    limited.script(answers())
    reply = limited.gateway.chat()
    assert reply.headers["x-ratelimit-remaining-requests"] == "7"
    estimate = 100_000 - int(reply.headers["x-ratelimit-remaining-tokens"])
    assert estimate < 40


def test_whoever_hangs_up_has_used_what_was_estimated(world: World) -> None:
    limit_key(world, requests_per_day=9, tokens_per_day=100_000)
    world.script([Stall()])
    conversation = world.gateway.begin(question(text="long " * 100))
    world.wait_for_request(0)
    conversation.hang_up()
    conversation.finish()
    world.script(answers())
    wait_until(lambda: left(world, "requests") < 9)
    assert left(world, "tokens") < 100_000 - SPENT - 100


def test_a_prompt_that_never_fits_is_not_waited_for(world: World) -> None:
    limit_key(world, tokens_per_minute=10)
    reply = world.gateway.chat(text="long " * 100)
    assert reply.status == 429
    assert "make it smaller, or have the limit raised" in reply.error["message"]
    assert "retry-after" not in reply.headers
    assert reply.headers["x-should-retry"] == "false"


def test_a_limit_that_is_raised_counts_at_once(world: World) -> None:
    limit_key(world, requests_per_day=1)
    assert [world.gateway.chat().status for _ in range(2)] == [200, 429]
    limit_key(world, requests_per_day=2)
    assert [world.gateway.chat().status for _ in range(2)] == [200, 429]


def test_a_call_without_limits_asks_no_store(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("the store was asked")

    monkeypatch.setattr(type(world.gateway.service.shared), "meter", asked)
    reply = world.gateway.chat()
    assert reply.status == 200
    assert not [name for name in reply.headers if "ratelimit" in name]


def test_a_store_that_is_away_lets_each_process_count_by_itself(world: World, settings: Settings) -> None:
    limit_key(world, requests_per_day=1)
    SharedState.objects.all().delete()
    shared: Any = world.gateway.service.shared
    shared._asked_at, shared._away_since = float("inf"), 0.0
    assert [world.gateway.chat().status for _ in range(2)] == [200, 429]


def test_parallel_calls_are_admitted_exactly(limited: World) -> None:
    limit_key(limited, requests_per_day=5)
    replies: list[Reply] = [each.reply() for each in [limited.gateway.begin_chat() for _ in range(20)]]
    assert sorted(each.status for each in replies) == [200] * 5 + [429] * 15
    assert sum(limited.asked) == 5


def test_a_rotated_key_keeps_its_limits(world: World) -> None:
    limit_key(world, requests_per_day=1, tokens_per_minute=7)
    successor, _ = rotate_key(AccessKey.objects.get(), author=SOMEBODY)
    assert (successor.requests_per_day, successor.tokens_per_minute, successor.tokens_per_day) == (1, 7, None)


def test_calls_without_a_key_are_held_to_the_limits_of_their_application(world: World) -> None:
    application = Application.objects.get()
    application.may_run_tasks, application.requests_per_day = True, 1
    application.save()
    world.gateway.refresh()
    request = {"model": "support-chat", "messages": [{"role": "user", "content": "Hello"}]}
    assert calls.run(application=application.identifier, request=request).attempts == 1
    with pytest.raises(CallFailed) as refused:
        calls.run(application=application.identifier, request=request)
    assert refused.value.failure.kind is FailureKind.RATE_EXCEEDED


@pytest.mark.parametrize(
    ("kind", "wait", "final"),
    [
        (FailureKind.RATE_EXCEEDED, 12.0, False),
        (FailureKind.RATE_EXCEEDED, 3600.0, True),
        (FailureKind.RATE_EXCEEDED, None, True),
        (FailureKind.RATE_LIMITED, 12.0, True),
    ],
    ids=["soon", "tomorrow", "never", "a provider's"],
)
def test_clients_are_told_to_wait_only_where_that_helps(kind: FailureKind, wait: float | None, final: bool) -> None:
    assert problem_of(Failure(kind, "no", retry_after=wait)).final is final


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (0, "0ms"),
        (250, "250ms"),
        (1000, "1s"),
        (1001, "2s"),
        (60_000, "1m0s"),
        (360_000, "6m0s"),
        (3_600_000, "1h0m0s"),
    ],
)
def test_times_are_spelled_as_in_openais_headers(milliseconds: int, words: str) -> None:
    assert spell_duration(milliseconds) == words
