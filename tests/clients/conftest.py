"""A web process with a simulated provider behind it, for programs that believe to talk to OpenAI."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import openai
import pytest
from pytest_django import DjangoDbBlocker

from governance.models import Application
from routing.core.vocabulary import Reach
from tests.environment import TestDatabase, chosen_database
from tests.factories import (
    ApplicationFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.keys import issue_key
from tests.servers.coding_model import CodingModel, running_coding_model
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, running_web

CODING = {
    "coding-by-chat": "custom",
    "coding-by-messages": "anthropic",
    "coding-by-responses": "openai_responses",
    "coding-by-gemini": "gemini",
}
"""Configurations that end at the coding model, and the adapter that asks it."""


@dataclass
class Installation:
    """The server, the simulator, the coding model, and a key that may ask for ``support-chat`` and name models."""

    web: WebServer
    simulator: SimulatorServer
    coding_model: CodingModel
    secret: str

    @property
    def received(self) -> int:
        """How many requests have reached the simulator."""
        number: int = self.simulator.stats()["received"]
        return number

    def issue(self, **settings: Any) -> str:
        """A further key of the application."""
        with self.web.records():
            _, secret = issue_key(application=Application.objects.get(), name="Another", **settings)
        return secret


@pytest.fixture(scope="package")
def installation(request: pytest.FixtureRequest, django_db_blocker: DjangoDbBlocker) -> Iterator[Installation]:
    with ExitStack() as stack:
        database_url = None
        if chosen_database() is TestDatabase.POSTGRES:
            database_url = stack.enter_context(request.getfixturevalue("postgres_server").database())
        stack.enter_context(django_db_blocker.unblock())
        simulator = stack.enter_context(SimulatorServer(record_bodies=True))
        coding_model = stack.enter_context(running_coding_model(command="cat note.txt"))
        allowed = [each.removeprefix("http://") for each in (simulator.url, coding_model.url)]
        environ = {"SIGNALBOX_OUTBOUND_ALLOW": ",".join(allowed)}
        web = stack.enter_context(running_web(environ=environ, database_url=database_url, start=False))
        with web.records():
            secret = _furnish(simulator, coding_model)
        web.start()
        yield Installation(web, simulator, coding_model, secret)


def _furnish(simulator: SimulatorServer, coding_model: CodingModel) -> str:
    """One route to the simulator, ``prod-east/fast``, and one to the coding model in each vendor's words; gives a key's
    secret."""
    provider = ProviderFactory(
        adapter_type="custom", base_url=simulator.base_url("east"), reach=Reach.SELF_HOSTED.value
    )
    model = LanguageModelFactory(provider=provider, capabilities=[])
    PriceFactory(model=model)
    ConfigurationFactory(fixed=True, fixed_model=model)
    ConfigurationFactory(identifier="secret-chat", fixed=True, fixed_model=model)
    for configuration, adapter_type in CODING.items():
        _furnish_coding(coding_model, configuration=configuration, adapter_type=adapter_type)
    _, secret = issue_key(
        application=ApplicationFactory(),
        name="Ticket robot",
        allowed_configurations=["support-chat"],
        allowed_models=[model.identifier],
        may_name_models=True,
    )
    return secret


def _furnish_coding(coding_model: CodingModel, *, configuration: str, adapter_type: str) -> None:
    provider = ProviderFactory(
        identifier=f"host-{configuration}",
        adapter_type=adapter_type,
        base_url=f"{coding_model.url}/v1",
        reach=Reach.SELF_HOSTED.value,
    )
    model = LanguageModelFactory(
        identifier=f"coder-{configuration}", model_id="model-x", provider=provider, capabilities=[], max_output=64_000
    )
    PriceFactory(model=model, cached_input_rate=1_000_000_000)
    ConfigurationFactory(identifier=configuration, fixed=True, fixed_model=model)


@pytest.fixture
def simulator(installation: Installation) -> SimulatorServer:
    """The simulator as it was at its start."""
    if installation.simulator.has_failed:
        installation.web.let_routes_serve()
    installation.simulator.restore_behaviours()
    installation.simulator.reset_stats()
    return installation.simulator


@pytest.fixture
def sdk(installation: Installation, simulator: SimulatorServer) -> Iterator[openai.OpenAI]:
    """The official client with everything as it comes, its own retries included."""
    with openai.OpenAI(base_url=f"{installation.web.url}/v1", api_key=installation.secret, timeout=20.0) as client:
        yield client
