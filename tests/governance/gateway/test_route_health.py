"""Routes as operators see them: by page and by API, over the gateway that makes the calls."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from governance.models import AuditEvent
from governance.route_health import read_routes, resting_among, unusable_among
from governance.tab.routes import PANEL
from governance.tab.why import PANEL as WHY
from routing.core.breaker import CircuitState
from routing.models import LanguageModel
from tests.factories import LanguageModelFactory, ProviderFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.test_circuits import state
from tests.governance.gateway.upstream import answers, fails
from tests.servers.fake_provider import Script, whole


@pytest.fixture
def people(world: World) -> Iterator[None]:
    yield
    User.objects.all().delete()  # no table of ours


@pytest.fixture
def operator(people: None) -> Client:
    client = Client()
    client.force_login(User.objects.create_superuser("olivia", password="a long pass phrase"))
    return client


def lists(*models: str) -> Script:
    return whole(orjson.dumps({"object": "list", "data": [{"id": each, "object": "model"} for each in models]}))


def told() -> list[tuple[str, str, str, str]]:
    rows = AuditEvent.objects.filter(kind="route").order_by("number")
    return list(rows.values_list("action", "record", "author", "reason"))


def test_what_rests_is_told_with_its_reason_and_its_end(world: World, operator: Client) -> None:
    world.script(answers(), fails(401))
    world.configuration.listed_models.filter(position=0).delete()
    world.gateway.refresh()
    world.gateway.chat()
    (resting,) = resting_among(read_routes())
    assert (resting.model.route, resting.state.state) == ("prod-west/wise", CircuitState.RESTING)
    (unused,) = unusable_among(read_routes())
    assert (unused.model.route, unused.unusable) == ("prod-east/fast", "no configuration in service can choose it")
    panel = operator.get(PANEL.url).context["panel"]
    assert [(row.route, row.state, row.why, row.failures) for row in panel.rows] == [
        ("prod-west/wise", "rests", "The provider refuses our key", 1),
        ("lab/huge", "asked", "", 0),
        ("prod-east/fast", "asked", "", 0),
    ]
    assert panel.rows[0].left.startswith(("4 min", "5 min 0 s"))
    answer = operator.get("/api/v1/routes?only=resting").json()
    assert [(each["route"], each["cause"], each["failure"]) for each in answer["items"]] == [
        ("prod-west/wise", "failures", "auth")
    ]
    assert [each["model"] for each in operator.get("/api/v1/routes?only=unusable").json()["items"]] == ["fast"]


def test_a_route_is_paused_and_cleared_by_hand(world: World, operator: Client) -> None:
    page = operator.get(PANEL.url, {"model": "fast", "do": "pause"})
    assert page.context["panel"].confirmation.title == "Pause prod-east/fast"
    assert state(world) is CircuitState.CLOSED  # nothing is done by looking
    sent = {"do": "pause", "model": "fast", "seconds": "3600", "reason": "The vendor does maintenance."}
    assert operator.post(PANEL.url, sent).status_code == 302
    reply = world.gateway.chat()
    assert reply.headers["x-signalbox-fell-through"] == "prod-east/fast (resting)"
    row = operator.get(PANEL.url).context["panel"].rows[0]
    assert (row.route, row.why, row.left) == ("prod-east/fast", "Paused by an operator", row.left)
    why = operator.get(WHY.url, {"configuration": "support-chat"}).context["panel"].reply
    rests = [each.rests.partition("(")[2] for each in why.routes]
    assert rests == ["Paused by an operator)", "", ""]
    asked = operator.post("/api/v1/explain", {"configuration": "support-chat"}, content_type="application/json")
    assert [each["rests"].partition("(")[2] for each in asked.json()["plan"]] == rests
    assert operator.post(PANEL.url, {"do": "clear", "model": "fast"}).status_code == 302
    assert world.gateway.chat().headers["x-signalbox-route"] == "prod-east/fast"
    assert told() == [
        ("paused", "fast", "olivia", "3600 s. The vendor does maintenance."),
        ("cleared", "fast", "olivia", ""),
    ]


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"do": "pause", "model": "fast", "seconds": "0"}, "seconds"),
        ({"do": "pause", "model": "fast", "seconds": "soon"}, "how long"),
        ({"do": "clear", "model": "nonesuch"}, "no route nonesuch"),
        ({"do": "clear", "model": "fast", "reason": "x" * 501}, "reason"),
        ({"do": "dance", "model": "fast", "seconds": "60"}, "how long"),
    ],
)
def test_what_cannot_be_done_is_said(world: World, operator: Client, sent: dict[str, str], words: str) -> None:
    page = operator.post(PANEL.url, sent)
    assert (page.status_code, words in page.context["panel"].problem) == (200, True)
    assert (told(), state(world)) == ([], CircuitState.CLOSED)


def test_who_may_only_look_changes_nothing(people: None) -> None:
    user = User.objects.create_user("ada", password="a long pass phrase", is_staff=True)

    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    page = client.get(PANEL.url, {"model": "fast", "do": "pause"})
    assert page.context["panel"].confirmation is None
    assert b"Pause" not in page.content
    assert client.post(PANEL.url, {"do": "pause", "model": "fast", "seconds": "300"}).status_code == 403
    assert client.post("/api/v1/preflight").status_code == 403


def test_the_api_pauses_and_clears(world: World, operator: Client) -> None:
    def post(path: str, **body: object) -> Any:
        return operator.post(f"/api/v1/{path}", body, content_type="application/json")

    paused = post("routes/fast/pause", seconds=90, reason="Too dear today.")
    assert (paused.status_code, paused.json()["cause"], paused.json()["state"]) == (200, "paused", "resting")
    assert paused.json()["remaining_seconds"] == pytest.approx(90, abs=2)
    assert post("routes/fast/clear").json()["state"] == "closed"
    assert post("routes/nonesuch/clear").status_code == 404
    assert post("routes/fast/pause", seconds=90_000).status_code == 400
    assert [action for action, *_ in told()] == ["paused", "cleared"]


def test_preflight_asks_every_provider_once_and_rests_what_is_denied(world: World, operator: Client) -> None:
    world.script(lists("gpt-x-mini", "another"), fails(401), fails(503))
    LanguageModelFactory(provider=world.models[0].provider, identifier="odd", model_id="gpt-x-odd", capabilities=[])
    unlisting = ProviderFactory(identifier="no-list", adapter_type="custom", base_url=f"{world.upstreams[2].url}/none")
    LanguageModelFactory(provider=unlisting, identifier="last", model_id="gpt-x-last", capabilities=[])
    world.gateway.refresh()
    world.forget()
    found = operator.post("/api/v1/preflight", {}, content_type="application/json").json()["items"]
    assert {each["route"]: each["access"] for each in found} == {
        "prod-east/fast": "ready",
        "prod-east/odd": "denied",
        "prod-west/wise": "denied",
        "lab/huge": "unknown",
        "no-list/last": "unknown",
    }
    assert world.asked[0] == 1  # one list for both of its models
    rests = {each.model.identifier: each.state for each in resting_among(read_routes())}
    assert set(rests) == {"odd", "wise"}
    assert {(each.cause, each.seconds, each.failures) for each in rests.values()} == {("preflight", 300.0, 0)}
    assert sorted(told()) == [
        ("paused", "odd", "olivia", "300 s. Denied at preflight."),
        ("paused", "wise", "olivia", "300 s. Denied at preflight."),
    ]
    world.script(lists("gpt-x-mini"), lists(), fails(404))
    page = operator.post(PANEL.url, {"do": "preflight"})
    access = {row.route: row.access for row in page.context["panel"].found}
    assert (access["prod-west/wise"], access["lab/huge"]) == ("Could not be checked", "Could not be checked")


def test_a_provider_that_cannot_be_used_is_named(world: World) -> None:
    model = LanguageModel.objects.get(identifier="wise")
    model.provider.adapter_type = "telegraph"
    model.provider.save()
    world.gateway.refresh()
    (unusable,) = unusable_among(read_routes())
    assert unusable.model.identifier == "wise"
    assert "telegraph" in unusable.unusable
