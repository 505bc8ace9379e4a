"""Who may ask for what: keys, configurations, models named directly, and headers that can only tighten."""

import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.db import InterfaceError, OperationalError

from governance.gateway import service
from governance.models import AccessKey, Application
from routing.core.vocabulary import Reach
from routing.models import Configuration
from telemetry.models import Call
from tests.factories import (
    ApplicationFactory,
    ConfigurationFactory,
    FallbackLinkFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.governance.gateway.conftest import World
from tests.governance.gateway.harness import Gateway, LoopThread, Reply, question
from tests.governance.gateway.upstream import fails
from tests.keys import issue_key, revoke_key
from tests.servers.fake_provider import FakeProvider
from tests.servers.web import wait_until


@pytest.fixture
def polling(
    tables: None, loop_thread: LoopThread, upstreams: list[FakeProvider], outbound: list[tuple[str, int]]
) -> Any:
    """A gateway that looks at records by itself, as in an installation."""
    provider = ProviderFactory(base_url=upstreams[0].url, reach=Reach.SELF_HOSTED.value)
    ConfigurationFactory(fixed=True, fixed_model=LanguageModelFactory(provider=provider))
    gateway = Gateway(loop_thread)
    _, gateway.secret = issue_key(application=ApplicationFactory(), name="Ticket robot")
    gateway.open()
    yield gateway
    gateway.close()


def seconds_until(gateway: Gateway, status: int, *, key: str | None = None) -> float:
    """How long it takes until calls are answered so."""
    started = time.monotonic()
    wait_until(lambda: gateway.request(question(), key=key).status == status, seconds=3)
    return time.monotonic() - started


def test_a_key_can_be_used_as_soon_as_it_was_issued(polling: Gateway) -> None:
    """No client tries again after a 401."""
    application = Application.objects.get()
    for number in range(4):
        _, secret = issue_key(application=application, name=f"Another {number}")
        assert polling.request(question(), key=secret).status == 200


def test_a_flood_of_bad_keys_costs_a_few_reads_a_second(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a key that was issued in the middle of it can be used all the same."""
    looks: list[float] = []
    refresh = world.gateway.service._directory.refresh

    def look() -> bool:
        looks.append(time.monotonic())
        return refresh()

    monkeypatch.setattr(world.gateway.service._directory, "refresh", look)
    started = time.monotonic()
    flood = [world.gateway.begin(question(), key=f"sb-{number}") for number in range(100)]
    _, secret = issue_key(application=Application.objects.get(), name="Another")
    assert world.gateway.request(question(), key=secret).status == 200
    flood += [world.gateway.begin(question(), key=f"sb-{number}") for number in range(100)]
    assert {each.reply().status for each in flood} == {401}
    took = time.monotonic() - started
    assert len(looks) <= 2 + took / service.LOOK_SECONDS
    assert all(after - before > 0.9 * service.LOOK_SECONDS for before, after in pairwise(looks))
    looks.clear()
    assert world.gateway.request(question()).status == 200
    assert world.gateway.request(question(), key="").status == 401
    assert not looks  # for a known key, and for none at all, nobody looks


def test_a_bad_key_is_refused_while_the_database_is_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()

    def away() -> bool:
        raise OperationalError("away")

    def hang() -> bool:
        answering.wait(5)
        return False

    for refresh in (away, hang):
        monkeypatch.setattr(world.gateway.service._directory, "refresh", refresh)
        monkeypatch.setattr(service, "POLL_SECONDS", 0.2)
        started = time.monotonic()
        assert world.gateway.request(question(), key="sb-unknown").status == 401
        assert time.monotonic() - started < 2
        assert world.gateway.request(question()).status == 200
    answering.set()


def test_a_key_is_revoked_within_a_second(polling: Gateway) -> None:
    assert service.POLL_SECONDS <= 0.5
    application = Application.objects.get()
    key, secret = issue_key(application=application, name="Another")
    assert polling.request(question(), key=secret).status == 200
    revoke_key(key)
    assert seconds_until(polling, 401, key=secret) < 1
    assert polling.request(question()).status == 200


def test_an_application_that_is_switched_off_calls_no_more(polling: Gateway) -> None:
    application = Application.objects.get()
    application.is_active = False
    application.save()
    assert seconds_until(polling, 401) < 1
    application.is_active = True
    application.save()
    assert seconds_until(polling, 200) < 1


def test_a_key_expires_at_its_second(polling: Gateway) -> None:
    """Nothing has to be looked at for that."""
    key = AccessKey.objects.get()
    end = key.expires_at = datetime.now(UTC) + timedelta(seconds=1.2)
    key.save()
    time.sleep(0.8)  # it is heard of
    assert polling.request(question()).status == 200
    wait_until(lambda: datetime.now(UTC) >= end)
    assert polling.request(question()).status == 401


def test_a_change_of_any_record_is_heard_of_within_a_second(polling: Gateway) -> None:
    assert polling.chat().status == 200
    configuration = ConfigurationFactory(identifier="new-one", criteria=True)
    wait_until(lambda: polling.chat("new-one").status == 200, seconds=1.5)
    configuration.is_active = False
    configuration.save()
    wait_until(lambda: polling.chat("new-one").status == 404, seconds=1.5)


def test_a_poll_outlives_whatever_goes_wrong_in_it(polling: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a key that is revoked afterwards would go on for as long as the process."""
    fails = {"left": 2}
    refresh = polling.service._directory.refresh

    def fail_at_first() -> bool:
        fails["left"] -= 1
        if fails["left"] == 1:
            raise LookupError("a row that nobody can read")
        if fails["left"] == 0:
            raise InterfaceError("the connection is closed")
        return refresh()

    monkeypatch.setattr(polling.service._directory, "refresh", fail_at_first)
    wait_until(lambda: fails["left"] < 0, seconds=3)
    revoke_key(AccessKey.objects.get())
    assert seconds_until(polling, 401) < 1


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer {}"},
        {"authorization": "bearer   {}  "},
        {"x-api-key": "{}"},
        {"x-api-key": " {} "},
        {"authorization": "Basic c2I6eA==", "x-api-key": "{}"},
    ],
    ids=range(5),
)
def test_where_a_key_may_stand(world: World, headers: dict[str, str]) -> None:
    fields = {name: value.format(world.gateway.secret) for name, value in headers.items()}
    assert world.gateway.request(question(), key="", headers=fields).status == 200


def test_a_key_that_is_none(world: World) -> None:
    secret = world.gateway.secret
    for shown in (secret[:-1], secret + "x", secret.upper(), "sb-", secret.removeprefix("sb-"), "x" * 1000):
        reply = world.gateway.request(question(), key=shown)
        assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
        assert reply.headers["www-authenticate"] == "Bearer"
        assert shown not in reply.error["message"]
    reply = world.gateway.request(question(), key="")
    assert (reply.status, reply.error["code"], reply.headers["www-authenticate"]) == (401, "missing_api_key", "Bearer")
    assert "www-authenticate" not in world.gateway.chat().headers


# --- Configurations and models --------------------------------------------------------------------------------------


def test_configurations_that_a_key_allows(world: World) -> None:
    ConfigurationFactory(identifier="other", criteria=True)
    ConfigurationFactory(identifier="third", criteria=True)
    for allowed, expected in (
        (None, {"support-chat": 200, "other": 200, "third": 200}),
        (["other"], {"support-chat": 403, "other": 200, "third": 403}),
        ([], {"support-chat": 403, "other": 403}),
    ):
        world.gateway.secret = world.issue(allowed_configurations=allowed)
        assert {name: world.gateway.chat(name).status for name in expected} == expected
        listed = world.gateway.request(path="/v1/models", method="GET").json["data"]
        assert [each["id"] for each in listed] == sorted(name for name, status in expected.items() if status == 200)
    message = world.gateway.chat().error["message"]
    assert "support-chat" in message  # the name asked for
    assert "third" not in message  # and none that is not the key's to know


def test_models_that_a_key_allows(world: World) -> None:
    world.gateway.secret = world.issue(allowed_models=["huge"])
    reply = world.gateway.chat()
    assert (reply.status, reply.headers["x-signalbox-route"]) == (200, "lab/huge")
    call = world.call()
    assert (call.rejection_reasons, call.candidates, world.asked) == ("notPermitted", 3, [0, 0, 1])
    world.gateway.secret = world.issue(allowed_models=[])
    reply = world.gateway.chat()
    assert (reply.status, reply.error["type"]) == (403, "forbidden")
    assert reply.error["message"] == "support-chat: the key does not allow any of its models"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("target", "members"),
    [
        ("support-chat", {}),  # asked, and failed
        ("support-chat", {"tools": [{"type": "function", "function": {"name": "look_up"}}]}),  # refused
        ("prod-west/wise", {}),
        ("prod-west/", {}),
        ("secret-plans", {}),
        ("no-such-plans", {}),
    ],
)
def test_no_message_names_what_the_key_may_not_use(
    world: World, target: str, members: dict[str, Any], stream: bool
) -> None:
    """Neither models and their providers nor configurations, whatever goes wrong."""
    _, wise, huge = world.models
    ConfigurationFactory(identifier="secret-plans", criteria=True)
    hidden = ConfigurationFactory(identifier="hidden-drafts", fixed=True, fixed_model=wise)
    ConfigurationFactory(identifier="hidden-gone", is_active=False)
    for position, fallback in enumerate((hidden, Configuration.objects.get(identifier="hidden-gone"))):
        FallbackLinkFactory(configuration=world.configuration, fallback=fallback, position=position)
    huge.capabilities = ["chat"]
    huge.save()
    world.gateway.secret = world.issue(
        allowed_models=["huge"], allowed_configurations=["support-chat"], may_name_models=True
    )
    world.script(fails(503), fails(503), fails(503))
    reply = world.gateway.chat(target, stream=stream, **members)
    assert reply.status >= 400
    text = reply.body.decode() + str(reply.headers)
    for name in {"fast", "wise", "prod-east", "prod-west", "secret-plans", "hidden"} - {target, *target.split("/")}:
        assert name not in text, text


@pytest.mark.parametrize(
    ("name", "served"),
    [
        ("prod-west/wise", "prod-west/wise"),
        ("prod-west/gpt-x-pro", "prod-west/wise"),
        ("lab/org/deep/model:7b", "lab/deep"),
        ("lab/deep", "lab/deep"),
    ],
)
def test_a_model_that_is_named_directly(world: World, name: str, served: str) -> None:
    LanguageModelFactory(
        provider=world.models[2].provider, identifier="deep", model_id="org/deep/model:7b", capabilities=[]
    )
    assert world.issue() != world.gateway.secret
    assert world.gateway.chat(name).status == 403  # a key that may not
    world.gateway.secret = world.issue(may_name_models=True)
    reply = world.gateway.chat(name)
    assert (reply.status, reply.headers["x-signalbox-route"]) == (200, served)
    for asked in (name, served):
        found = world.gateway.request(path=f"/v1/models/{asked}", method="GET")
        assert (found.status, found.json["id"]) == (200, asked)


def test_a_model_that_is_named_directly_is_not_replaced(world: World) -> None:
    world.gateway.secret = world.issue(may_name_models=True)
    world.gateway.threads.run(world.upstreams[1].__aexit__(None, None, None))
    assert world.gateway.chat("prod-west/wise").status == 503
    assert world.asked == [0, 0, 0]


@pytest.mark.parametrize("name", ["prod-west/fast", "nowhere/wise", "/wise", "prod-west/", "/", "fast", "prod-west"])
def test_a_model_that_is_not_there(world: World, name: str) -> None:
    world.gateway.secret = world.issue(may_name_models=True)
    reply = world.gateway.chat(name)
    assert (reply.status, reply.error["code"]) == (404, "model_not_found")


def test_naming_a_model_does_not_go_round_the_models_allowed(world: World) -> None:
    world.gateway.secret = world.issue(may_name_models=True, allowed_models=["wise"])
    assert world.gateway.chat("prod-west/wise").status == 200
    reply = world.gateway.chat("prod-east/fast")
    assert (reply.status, reply.error["type"]) == (403, "forbidden")
    assert reply.error["message"] == "the named model: the key does not allow it"
    assert world.calls()[-1].rejection_reasons == "notPermitted"
    listed = world.gateway.request(path="/v1/models", method="GET").json["data"]
    assert [each["id"] for each in listed] == ["support-chat", "prod-west/wise"]
    assert world.gateway.request(path="/v1/models/prod-east/fast", method="GET").status == 404


def test_the_list_of_names(world: World) -> None:
    ConfigurationFactory(identifier="off", criteria=True, is_active=False)
    world.gateway.refresh()
    reply = world.gateway.request(path="/v1/models", method="GET")
    assert reply.json == {
        "object": "list",
        "data": [{"id": "support-chat", "object": "model", "created": 0, "owned_by": "signalbox"}],
    }
    assert world.gateway.request(path="/v1/models/support-chat", method="GET").json == reply.json["data"][0]
    for name in ("off", "prod-east/fast", "nonesuch"):
        missing = world.gateway.request(path=f"/v1/models/{name}", method="GET")
        assert (missing.status, missing.error["code"]) == (404, "model_not_found")
    assert world.gateway.chat("off").status == 404
    world.gateway.flush()
    assert Call.objects.count() == 1  # looking at the list is no call


# --- Headers --------------------------------------------------------------------------------------------------------


def ask(world: World, **headers: str) -> Reply:
    """Ask with headers."""
    return world.gateway.request(question(), headers={name.replace("_", "-"): value for name, value in headers.items()})


def test_on_device(world: World) -> None:
    for model in world.models[:2]:
        model.provider.reach = Reach.PRIVATE_ENDPOINT.value
        model.provider.save()
    world.gateway.refresh()
    reply = ask(world, x_signalbox_on_device="true")
    assert (reply.status, reply.headers["x-signalbox-route"]) == (200, "lab/huge")
    assert world.call().rejection_reasons == "reachNotAllowed"
    world.models[2].provider.reach = Reach.CLOUD_PARTNER.value
    world.models[2].provider.save()
    world.gateway.refresh()
    assert "reachNotAllowed" in ask(world, x_signalbox_on_device="TRUE").error["message"]
    assert world.asked == [0, 0, 1]


def test_the_most_a_call_may_cost(world: World) -> None:
    """The upper bound of the first model, as priced, is 4096 tokens at ten dollars a million, and one or two more."""
    _, wise, huge = world.models
    for model in world.models:
        model.max_output = 0
        model.save()
    PriceFactory(model=wise, valid_from=datetime(2026, 1, 1, tzinfo=UTC), input_rate=0, output_rate=1_000_000_000)
    huge.prices.all().delete()
    world.gateway.refresh()

    def served(ceiling: str) -> str:
        reply = ask(world, x_signalbox_max_cost=ceiling)
        return reply.headers.get("x-signalbox-route", "") or reply.error["message"]

    assert served("0.05") == "prod-east/fast"
    assert served("0.040965") == "prod-east/fast"
    assert served("0.040964") == "prod-west/wise"
    assert served("0.004096") == "prod-west/wise"
    refusal = served("0.004095")
    assert "prod-west/wise: aboveRequestCeiling" in refusal
    assert "lab/huge: aboveRequestCeiling (has no price" in refusal
    assert served("") == "prod-east/fast"
