"""A running simulator and its two kinds of clients."""

from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.demo.questions import PROVIDER
from tests.servers.simulator import SimulatorServer


@pytest.fixture(scope="module")
def running() -> Iterator[SimulatorServer]:
    with SimulatorServer(record_bodies=True) as server:
        yield server


@pytest.fixture
def simulator(running: SimulatorServer) -> SimulatorServer:
    """The module's server as it was at its start."""
    running.restore_behaviours()
    running.reset_stats()
    return running


@pytest.fixture
def http(simulator: SimulatorServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=simulator.base_url(PROVIDER), trust_env=False, timeout=5.0) as client:
        yield client


@pytest.fixture
def sdk(simulator: SimulatorServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=simulator.base_url(PROVIDER), api_key="any", max_retries=0) as client:
        yield client
