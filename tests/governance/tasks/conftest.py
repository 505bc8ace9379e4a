"""An installation whose tasks a real worker does, over either broker."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest_django import DjangoDbBlocker

from tests.governance.tasks.installation import Installation, installed
from tests.servers.worker import Worker, running_worker


@pytest.fixture(scope="module", params=["redis", "filesystem"])
def broker(request: pytest.FixtureRequest) -> str:
    """Which broker; modules with other plans override this."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def installation(
    request: pytest.FixtureRequest, broker: str, django_db_blocker: DjangoDbBlocker
) -> Iterator[Installation]:
    """An installation without a web process and without a worker."""
    with django_db_blocker.unblock(), installed(request, broker=broker) as made:
        yield made


@pytest.fixture(scope="module")
def kept(installation: Installation) -> Iterator[list[tuple[Worker, ExitStack]]]:
    """The worker, if one runs, that is shared by the tests that do it no harm."""
    workers: list[tuple[Worker, ExitStack]] = []
    yield workers
    for _, stack in workers:
        stack.close()


@pytest.fixture(autouse=True)
def afresh(request: pytest.FixtureRequest, installation: Installation, kept: list[tuple[Worker, ExitStack]]) -> None:
    """The provider is as it was, and has been asked nothing; there is no worker but the one that a test asks for."""
    if "worker" not in request.fixturenames:
        while kept:
            kept.pop()[1].close()
    if installation.simulator.has_failed:
        installation.web.let_routes_serve()
    installation.simulator.restore_behaviours()
    installation.simulator.reset_stats()


@pytest.fixture
def worker(installation: Installation, kept: list[tuple[Worker, ExitStack]]) -> Worker:
    """A worker that was there before and will be there afterwards."""
    if not kept:
        stack = ExitStack()
        kept.append((stack.enter_context(running_worker(installation.web)), stack))
    return kept[0][0]
