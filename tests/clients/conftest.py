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
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, running_web


@dataclass
class Installation:
    """The server, the simulator, and a key that may ask for ``support-chat`` and name models."""

    web: WebServer
    simulator: SimulatorServer
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
        environ = {"SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://")}
        web = stack.enter_context(running_web(environ=environ, database_url=database_url, start=False))
        with web.records():
            secret = _furnish(simulator)
        web.start()
        yield Installation(web, simulator, secret)


def _furnish(simulator: SimulatorServer) -> str:
    """One route, ``prod-east/fast``; gives a key's secret."""
    provider = ProviderFactory(
        adapter_type="custom", base_url=simulator.base_url("east"), reach=Reach.SELF_HOSTED.value
    )
    model = LanguageModelFactory(provider=provider, capabilities=[])
    PriceFactory(model=model)
    ConfigurationFactory(fixed=True, fixed_model=model)
    ConfigurationFactory(identifier="secret-chat", fixed=True, fixed_model=model)
    _, secret = issue_key(
        application=ApplicationFactory(),
        name="Ticket robot",
        allowed_configurations=["support-chat"],
        may_name_models=True,
    )
    return secret


@pytest.fixture
def simulator(installation: Installation) -> SimulatorServer:
    """The simulator as it was at its start."""
    installation.simulator.restore_behaviours()
    installation.simulator.reset_stats()
    return installation.simulator


@pytest.fixture
def sdk(installation: Installation, simulator: SimulatorServer) -> Iterator[openai.OpenAI]:
    """The official client with everything as it comes, its own retries included."""
    with openai.OpenAI(base_url=f"{installation.web.url}/v1", api_key=installation.secret, timeout=20.0) as client:
        yield client
