"""Two web processes on one PostgreSQL: a strict tier that a call of the one brings into force binds calls of the other.

The other process makes no call meanwhile: one that is booked would tell it what the account has reached. What it is
asked is refused before anything is sent, for one reason before it has heard of the tier and for another one afterwards.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from budgets.models import Account, Crossing
from budgets.windows import WindowKind
from governance.models import Application, Budget, BudgetTier
from routing.core.vocabulary import Reach
from tests.factories import (
    ApplicationFactory,
    BudgetFactory,
    ConfigurationFactory,
    LanguageModelFactory,
    PriceFactory,
    ProviderFactory,
)
from tests.governance.gateway.harness import LoopThread
from tests.governance.gateway.upstream import answers
from tests.keys import issue_key
from tests.servers.fake_provider import FakeProvider
from tests.servers.postgres import PostgresServer
from tests.servers.web import WebServer, wait_until

COST = 6_400_000  # of every call, whoever serves it
READ = "budgets: version"  # what a process says once it has read budgets anew
TOO_LONG = "word " * 2_000  # for the context of the model that the configuration names


@dataclass
class Installation:
    """Two processes, and the providers behind them: the dear one's and the cheap one's."""

    webs: list[WebServer]
    dear: FakeProvider
    cheap: FakeProvider
    secret: str

    def call(self, web: WebServer, *, model: str = "support-chat", content: str = "Hello") -> httpx.Response:
        return httpx.post(
            f"{web.url}/v1/chat/completions",
            json={"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": content}]},
            headers={"authorization": f"Bearer {self.secret}"},
            timeout=20,
            trust_env=False,
            verify=False,  # noqa: S501  # there is no TLS here
        )

    def knows_the_tier(self, web: WebServer) -> bool:
        """Whether it refuses the dear model by name for the tier. The prompt is too long for it either way."""
        answer = self.call(web, model="prod-east/dear", content=TOO_LONG)
        assert answer.status_code in (400, 402), answer.text
        return bool(answer.json()["error"]["code"] == "budget_target_unavailable")

    @property
    def asked(self) -> tuple[int, int]:
        """How many requests the dear and the cheap provider have received."""
        return len(self.dear.requests), len(self.cheap.requests)


@pytest.fixture
def together(
    postgres_server: PostgresServer, django_db_blocker: DjangoDbBlocker, tmp_path: Path
) -> Iterator[Installation]:
    with ExitStack() as stack:
        loop = stack.enter_context(LoopThread())
        dear, cheap = FakeProvider(answers()), FakeProvider(answers())
        for fake in (dear, cheap):
            loop.run(fake.__aenter__())
            stack.callback(stop, loop, fake)
        database_url = stack.enter_context(postgres_server.database(prefix="tiers"))
        stack.enter_context(django_db_blocker.unblock())
        environ = {"SIGNALBOX_OUTBOUND_ALLOW": f"{dear.host_port},{cheap.host_port}"}
        webs = [WebServer(environ=environ, database_url=database_url, folder=folder_in(tmp_path, n)) for n in "ab"]
        webs[0].migrate()
        with webs[0].records():
            secret = furnish(dear, cheap)
        for web in webs:
            stack.callback(web.stop)
            web.start()
        yield Installation(webs, dear, cheap, secret)


def stop(loop: LoopThread, fake: FakeProvider) -> None:
    loop.run(fake.__aexit__(None, None, None))


def folder_in(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


def furnish(dear: FakeProvider, cheap: FakeProvider) -> str:
    """A configuration that names the dear model, and a soft budget that two calls bring to a strict tier of the cheap
    one; gives a key."""
    models: list[Any] = []
    for name, provider, fake in (("dear", "prod-east", dear), ("cheap", "lab", cheap)):
        row = ProviderFactory(
            identifier=provider, adapter_type="custom", base_url=fake.url, reach=Reach.SELF_HOSTED.value
        )
        models.append(LanguageModelFactory(identifier=name, provider=row, capabilities=[], context_length=500))
        PriceFactory(model=models[-1])
    ConfigurationFactory(identifier="support-chat", fixed=True, fixed_model=models[0])
    budget = BudgetFactory(
        application="", limit=COST * 5 // 2, window=WindowKind.TOTAL.value, is_hard=False, enforce_targets=True
    )
    BudgetTier(budget=budget, threshold=80, model="cheap").save()
    application: Application = ApplicationFactory()
    _, secret = issue_key(application=application, name="Ticket robot", may_name_models=True)
    return secret


def test_a_tier_that_one_process_crosses_binds_the_other_and_stays(together: Installation) -> None:
    first, second = together.webs
    assert together.call(second).status_code == 200
    with first.records():
        wait_until(lambda: Account.objects.filter(spent=COST, reserved=0).exists())
    assert together.call(first).status_code == 200
    wait_until(lambda: together.knows_the_tier(first))
    wait_until(lambda: together.knows_the_tier(second))
    assert [together.call(web).status_code for web in (second, first)] == [200, 200]
    assert together.asked == (2, 2)

    read = [web.log.count(READ) for web in (first, second)]
    with first.records():
        (crossing,) = Crossing.objects.all()
        assert (crossing.threshold, crossing.limit, crossing.spent) == (80, COST * 5 // 2, 2 * COST)
        budget = Budget.objects.get()
        budget.limit = COST * 1_000
        budget.save()
    wait_until(lambda: all(web.log.count(READ) > before for web, before in zip((first, second), read, strict=True)))
    assert [together.call(web).status_code for web in (second, first)] == [200, 200]
    assert together.asked == (2, 4)
