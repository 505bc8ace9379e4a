"""A gateway in the test's process, providers on loopback, and the records that lead from the one to the other."""

import logging
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.test import TransactionTestCase
from pytest_django import Settings

from governance.gateway import service
from governance.gateway.middleware import retry
from governance.models import SettingValue
from routing.core.vocabulary import ListedOrder, Reach
from routing.models import Configuration, LanguageModel, ListedModel
from telemetry.models import Call
from tests.factories import (
    AccessKeyFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.governance.gateway.harness import Gateway, LoopThread
from tests.governance.gateway.overheard import Overheard, overheard
from tests.governance.gateway.upstream import answers
from tests.servers.fake_provider import FakeProvider, Script
from tests.servers.web import wait_until
from tests.telemetry.tables import empty_tables

UPSTREAMS = 3


@dataclass
class World:
    """The gateway, three providers with a model each, and a configuration that lists them in order."""

    gateway: Gateway
    upstreams: list[FakeProvider]
    models: list[LanguageModel]
    configuration: Configuration
    configuration_key: UUID

    def script(self, *scripts: Script) -> None:
        """What each provider answers to everything, in order; those that are not named are left as they are.

        Routes that rest have rested.
        """
        self.let_rest()
        for upstream, script in zip(self.upstreams, scripts, strict=False):
            upstream.answer_in_turn(script)

    def let_rest(self, *, seconds: float = 300.0) -> None:
        """Let time pass for the circuits of routes, and for nothing else."""
        circuits = self.gateway.service.circuits
        clock = circuits._clock
        circuits._clock = lambda: clock() + seconds

    @property
    def asked(self) -> list[int]:
        """How many requests each provider has received."""
        return [len(each.requests) for each in self.upstreams]

    def forget(self) -> None:
        """Forget what providers were asked."""
        for each in self.upstreams:
            each.requests.clear()

    def wait_for_request(self, upstream: int) -> None:
        """Wait until a provider is asked."""
        wait_until(lambda: bool(self.upstreams[upstream].requests))

    def issue(self, **settings: Any) -> str:
        """A further key of the application."""
        secret: str = AccessKeyFactory.create(name="Another key", **settings).secret
        self.gateway.refresh()
        return secret

    def call(self) -> Call:
        """The only call recorded."""
        self.gateway.flush()
        return Call.objects.get()

    def calls(self) -> list[Call]:
        """All calls recorded, oldest first."""
        self.gateway.flush()
        return list(Call.objects.order_by("started_at", "pk"))


@pytest.fixture(autouse=True)
def heard() -> Iterator[Overheard]:
    """Whatever any test here makes the gateway log, at every level: no key, no prompt, no answer may be in it."""
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.DEBUG)
    root.addHandler(overheard)
    yield overheard
    root.removeHandler(overheard)
    root.setLevel(level)
    leaks = overheard.leaks()
    overheard.forget()
    assert leaks == []


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    with LoopThread() as threads:
        yield threads


@pytest.fixture
def upstreams(loop_thread: LoopThread) -> Iterator[list[FakeProvider]]:
    fakes = [FakeProvider(answers()) for _ in range(UPSTREAMS)]
    for fake in fakes:
        loop_thread.run(fake.__aenter__())
    yield fakes
    for fake in fakes:
        loop_thread.run(fake.__aexit__(None, None, None))


@pytest.fixture
def outbound(upstreams: list[FakeProvider], settings: Settings) -> list[tuple[str, int]]:
    """The exceptions of the outbound policy; further ones are appended before the gateway is asked for."""
    settings.SIGNALBOX_OUTBOUND_ALLOW = [("127.0.0.1", fake.port) for fake in upstreams]
    allowed: list[tuple[str, int]] = settings.SIGNALBOX_OUTBOUND_ALLOW
    return allowed


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    """Tables in which threads see each other's rows, and which are empty again afterwards."""
    monkeypatch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: empty_tables())


@lru_cache
def tls_context() -> ssl.SSLContext:
    """One for the whole run: reading the authorities is half of what opening a gateway takes."""
    return ssl.create_default_context()


@pytest.fixture
def tls(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authorities as read before."""
    monkeypatch.setattr(httpx, "create_ssl_context", lambda **_: tls_context())


@pytest.fixture
def gateway(
    tables: None,
    loop_thread: LoopThread,
    outbound: list[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
    tls: None,
) -> Iterator[Gateway]:
    """A gateway that looks at records only when it is told to (`refresh`), so that tests count and time the rest."""
    monkeypatch.setattr(service, "POLL_SECONDS", 3600.0)
    monkeypatch.setattr(retry, "sleep", _no_sleep)
    monkeypatch.setattr(service, "GATHER_SECONDS", 0.0)
    opened = Gateway(loop_thread)
    opened.open()
    yield opened
    opened.close()


async def _no_sleep(seconds: float) -> None:
    """What is waited between two attempts is in the rows, and in no test's time."""


@pytest.fixture
def world(gateway: Gateway, upstreams: list[FakeProvider]) -> World:
    """Routes ``prod-east/fast``, ``prod-west/wise`` and ``lab/huge``, listed in that order by ``support-chat``.

    Each is asked once for a call: repetitions are the business of ``test_retry``, which counts anew.
    """
    SettingValue.objects.create(key="retry.attempts", value=1)
    names = [("prod-east", "fast", "gpt-x-mini"), ("prod-west", "wise", "gpt-x-pro"), ("lab", "huge", "gpt-x-max")]
    kinds = ["openai", "custom", "vllm"]
    lengths = [8_000, 8_000, 128_000]
    models: list[LanguageModel] = []
    for (provider, model, model_id), kind, length, upstream in zip(names, kinds, lengths, upstreams, strict=True):
        row = ProviderFactory(
            identifier=provider, adapter_type=kind, base_url=upstream.url, reach=Reach.SELF_HOSTED.value
        )
        models.append(
            LanguageModelFactory(
                provider=row, identifier=model, model_id=model_id, capabilities=[], context_length=length
            )
        )
        PriceFactory(model=models[-1], cached_input_rate=250_000_000)
    configuration = ConfigurationFactory(listed=True, models=models, listed_order=ListedOrder.AS_LISTED.value)
    key, gateway.secret = AccessKeyFactory.create()
    gateway.refresh()
    return World(gateway, upstreams, models, configuration, key.pk)


def relist(configuration: Configuration, models: list[LanguageModel]) -> None:
    """Let a configuration list other models."""
    configuration.listed_models.all().delete()
    for position, model in enumerate(models):
        ListedModel.objects.create(configuration=configuration, model=model, position=position)
