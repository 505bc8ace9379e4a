"""The test buttons: through the stack that serves everybody, from a page of the admin."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from governance.admin.trials import REMEDIES
from governance.changes.records import switch
from governance.gateway import home
from governance.gateway.service import opened_service
from routing.core.failures import FailureKind
from routing.models import Provider
from telemetry.models import Call
from tests.authors import SOMEBODY
from tests.factories import ConfigurationFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.upstream import ANSWER, fails
from tests.servers.fake_provider import whole


@pytest.fixture
def operator(tables: None) -> Iterator[Client]:
    client = Client()
    client.force_login(User.objects.create_superuser("olivia", password="a long pass phrase"))
    yield client
    User.objects.all().delete()  # `tables` empties ours only


def page(kind: str, row: Any) -> str:
    return reverse(f"admin:routing_{kind}_try", args=[row.pk])


def ask(client: Client, kind: str, row: Any, prompt: str = "Say hello.") -> str:
    return client.post(page(kind, row), {"prompt": prompt}).content.decode()


def test_every_failure_has_a_remedy() -> None:
    assert set(REMEDIES) == set(FailureKind)
    assert all(remedy.endswith(".") for remedy in REMEDIES.values())


def test_a_configuration_answers_like_for_an_application(world: World, operator: Client) -> None:
    shown = ask(operator, "configuration", world.configuration)
    for text in ("It answered", ANSWER, "prod-east/fast", "1,200", "340", "0.00595 USD"):
        assert text in shown, text
    call = world.call()
    assert (call.source, call.user, call.application, call.requested) == (
        "admin-test", "olivia", "", "support-chat",
    )  # fmt: skip
    assert reverse("admin:telemetry_call_change", args=[call.pk]) in shown


def test_a_model_that_only_embeds_is_asked_for_a_vector(world: World, operator: Client) -> None:
    model = world.models[2]
    model.capabilities = ["embeddings"]
    model.save()
    data = [{"object": "embedding", "index": 0, "embedding": [0.5] * 1536}]
    answered = {"object": "list", "data": data, "model": "vector-x", "usage": {"prompt_tokens": 8}}
    world.script(*[whole(orjson.dumps(answered))] * 3)
    shown = ask(operator, "languagemodel", model)
    assert "A vector of 1,536 numbers." in shown
    fixed = ConfigurationFactory(identifier="help-search", fixed=True, fixed_model=model)
    assert "A vector of 1,536 numbers." in ask(operator, "configuration", fixed)
    assert [call.operation for call in world.calls()] == ["embed", "embed"]
    assert world.asked == [0, 0, 2]


def test_a_model_is_asked_by_its_route(world: World, operator: Client) -> None:
    shown = ask(operator, "languagemodel", world.models[2])
    assert "lab/huge" in shown
    assert world.asked == [0, 0, 1]


def test_what_was_changed_a_moment_ago_counts(world: World, operator: Client) -> None:
    switch(world.configuration, on=False, author=SOMEBODY)
    shown = ask(operator, "configuration", world.configuration)
    assert "It failed" in shown
    assert "switched off" in shown
    assert world.asked == [0, 0, 0]


def test_a_failure_comes_with_its_remedy(world: World, operator: Client) -> None:
    world.script(fails(401), fails(401), fails(401))
    shown = ask(operator, "configuration", world.configuration)
    assert "The provider refuses our key" in shown
    assert "Enter a key that the provider accepts" in shown


def test_a_provider_lists_its_models_and_asks_none(world: World, operator: Client) -> None:
    provider = Provider.objects.get(identifier="prod-east")
    world.script(whole(b'{"data": [{"id": "gpt-x-mini"}, {"id": "gpt-x-more"}]}'))
    shown = operator.post(page("provider", provider)).content.decode()
    assert "lists 2 models" in shown
    assert "gpt-x-more" in shown
    assert not Call.objects.exists()
    world.script(whole(b'{"data": []}'))
    assert (
        "Models here that it does not list: fast (gpt-x-mini)"
        in operator.post(page("provider", provider)).content.decode()
    )
    world.script(fails(401))
    assert "Enter a key that the provider accepts" in operator.post(page("provider", provider)).content.decode()


def test_opening_the_page_asks_nobody(world: World, operator: Client) -> None:
    for kind, row in (("provider", world.models[0].provider), ("configuration", world.configuration)):
        assert operator.get(page(kind, row)).status_code == 200
    assert operator.post(page("configuration", world.configuration), {"prompt": ""}).status_code == 200
    assert world.asked == [0, 0, 0]


@pytest.mark.usefixtures("operator")
def test_it_takes_the_permission_to_change(world: World) -> None:
    user = User.objects.create_user("ada", password="a long pass phrase", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    for kind, row in (
        ("provider", world.models[0].provider),
        ("languagemodel", world.models[0]),
        ("configuration", world.configuration),
    ):
        assert client.post(page(kind, row), {"prompt": "x"}).status_code == 403
    assert world.asked == [0, 0, 0]


@pytest.mark.usefixtures("tls")
def test_a_process_without_a_gateway_opens_one(operator: Client, outbound: object) -> None:
    """As under a server that does not speak the lifespan protocol."""
    try:
        assert "It failed" in ask(operator, "configuration", ConfigurationFactory.create())
        assert opened_service() is not None
    finally:
        home.close()
    assert Call.objects.get().source == "admin-test"
