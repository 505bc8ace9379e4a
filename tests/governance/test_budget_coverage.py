"""Whatever can cost money passes the ledger: every address, task and function that makes calls finds an exhausted
budget closed. What there is is taken from addresses, tasks and imports, so that a new one has to be judged here."""

import ast
from pathlib import Path
from typing import Any

import orjson
import pytest

from budgets.models import Entry
from governance import calls, tasks
from governance.access.directory import Caller
from governance.gateway import home, stack
from governance.gateway.middleware import budget, provider_call
from governance.gateway.urls import urlpatterns
from governance.models import Application
from governance.submissions import execution
from governance.submissions.intake import submit
from governance.submissions.readouts import read_result
from routing.core.failures import CallFailed, FailureKind
from tests.factories import BudgetFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.upstream import fails
from tests.governance.submissions.orders import order

ROOT = Path(__file__).resolve().parents[2]
SAID = [{"role": "user", "content": "Hello"}]

# Every address below /v1/ that makes a call, and a request to it.
PAID: dict[str, dict[str, Any]] = {
    "v1/chat/completions": {"messages": SAID},
    "v1/messages": {"messages": SAID, "max_tokens": 9},
    "v1/responses": {"input": "Hello"},
    "v1/completions": {"prompt": "Hello"},
    "v1/embeddings": {"input": "Hello"},
}
FREE = {"v1/messages/count_tokens", "v1/models", "v1/models/<path:name>"}

PAID_TASKS = {"signalbox.execute"}
FREE_TASKS = {"signalbox.run_call", "signalbox.read_answer", "signalbox.sweep", "signalbox.remove_old"}
"""What hands in is made by ``execute``. Others of ours make no call: they have no way to the stack."""


@pytest.fixture
def exhausted(world: World) -> World:
    """The installation's budget is used up."""
    application = Application.objects.get(identifier="helpdesk")
    application.may_run_tasks = True
    application.save()
    BudgetFactory(identifier="everything", application="", limit=0)
    world.gateway.refresh()
    return world


def assert_closed(world: World) -> None:
    assert world.asked == [0, 0, 0]
    assert not Entry.objects.exists()


def test_every_address_is_judged() -> None:
    assert {str(each.pattern) for each in urlpatterns} == set(PAID) | FREE


@pytest.mark.parametrize("path", sorted(PAID))
def test_an_address_refuses_what_no_budget_has_room_for(exhausted: World, path: str) -> None:
    reply = exhausted.gateway.request(orjson.dumps({"model": "support-chat", **PAID[path]}), path=f"/{path}")
    assert (reply.status, reply.error["code"]) == (402, "budget_exceeded")
    assert_closed(exhausted)


@pytest.mark.parametrize("path", ["v1/chat/completions", "v1/messages", "v1/responses", "v1/completions"])
def test_and_so_does_its_stream(exhausted: World, path: str) -> None:
    body = orjson.dumps({"model": "support-chat", "stream": True, **PAID[path]})
    assert exhausted.gateway.request(body, path=f"/{path}").status == 402
    assert_closed(exhausted)


def test_the_stack_has_nothing_between_the_ledger_and_the_provider() -> None:
    """So every repetition, repair and fallback passes it: nobody else reaches the provider."""
    assert stack.STACK[-2:] == (budget.handle, provider_call.handle)


def test_a_route_that_is_left_for_another_one_passes_it_again(world: World) -> None:
    BudgetFactory(identifier="once", application="", limit=170_000_000)
    world.gateway.refresh()
    world.script(fails(503))
    reply = world.gateway.chat(max_tokens=16_000)
    assert reply.status == 200
    kinds = list(Entry.objects.order_by("pk").values_list("kind", flat=True))
    assert [kinds.count("reserved"), sum(world.asked)] == [2, 2]


def test_a_function_refuses(exhausted: World) -> None:
    with pytest.raises(CallFailed) as refused:
        calls.run(application="helpdesk", request={"model": "support-chat", "messages": SAID}, seconds=20)
    assert refused.value.failure.kind is FailureKind.OVER_BUDGET
    assert refused.value.failure.details["budget"] == "everything"
    assert_closed(exhausted)


def test_every_task_is_judged() -> None:
    ours = {name for name in tasks.app.tasks if not name.startswith("celery.")}
    assert ours >= PAID_TASKS
    assert ours >= FREE_TASKS


def test_a_submitted_call_refuses(exhausted: World) -> None:
    caller = Caller(
        key="", application="helpdesk", allowed_configurations=None, allowed_models=None, may_name_models=False,
        expires_at=None,
    )  # fmt: skip
    submission = submit(order(), caller=caller)
    assert home.wait(lambda service: execution.execute(service, submission, worker="worker-1"), seconds=20) is True
    failure = read_result(submission, application="helpdesk").failure
    assert failure is not None
    assert failure.kind is FailureKind.OVER_BUDGET
    assert_closed(exhausted)


def test_every_way_to_the_stack_is_judged() -> None:
    """Whoever makes calls does it through the views or through ``calls.ask``; the test buttons and the execution of
    what was handed in come to the latter."""
    ways = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "governance").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "governance.gateway.stack"
    }
    assert ways == {"governance/gateway/views.py", "governance/calls.py"}


def test_only_the_last_layer_reaches_a_provider() -> None:
    callers = {
        file.relative_to(ROOT).as_posix()
        for file in (ROOT / "governance").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and node.module == "routing.providers.registry"
        and any(each.name == "api_for" for each in node.names)
    }
    assert callers == {"governance/gateway/middleware/provider_call.py"}
