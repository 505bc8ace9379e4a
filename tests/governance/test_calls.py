"""Calls from Python: through the stack that serves everybody, with an answer or a failure of a known kind."""

import logging
from typing import Any

import orjson
import pytest
from django.db import transaction

from governance.calls import Answer, CallOptions, Unanswered, Wanted, run
from governance.changes.records import switch
from governance.gateway.home import CalledFromTheWrongPlace
from governance.models import Application
from routing.core.calls import Usage
from routing.core.failures import CallFailed, FailureKind
from routing.core.money import Money
from tests.authors import SOMEBODY
from tests.factories import ApplicationFactory
from tests.governance.gateway.conftest import World
from tests.governance.gateway.upstream import ANSWER, completion, fails
from tests.servers.fake_provider import whole

REQUEST: dict[str, Any] = {"model": "support-chat", "messages": [{"role": "user", "content": "Where is my parcel?"}]}


@pytest.fixture
def nightly(world: World) -> Application:
    """An application that may run tasks."""
    application: Application = ApplicationFactory.create(identifier="nightly", may_run_tasks=True)
    world.gateway.refresh()
    return application


def call(application: str = "nightly", **settings: Any) -> Answer:
    return run(application=application, request=REQUEST, seconds=10, **settings)


@pytest.mark.usefixtures("nightly")
def test_an_answer_says_everything_there_is_to_know(world: World) -> None:
    answer = call(options=CallOptions(user="agent-17", source="night-run"))
    assert answer.text == ANSWER
    assert answer.document["choices"][0]["message"]["content"] == ANSWER
    assert (answer.route, answer.response_model) == ("prod-east/fast", "gpt-x-mini-2026-05-01")
    assert answer.usage is not None
    assert (answer.usage.prompt, answer.usage.output) == (1200, 340)
    assert answer.cost == Money(5_950_000, "USD")
    assert (answer.attempts, answer.refusal) == (1, None)
    assert answer.latency_ms > 0
    row = world.call()
    assert (row.pk, row.application, row.key, row.user, row.source) == (
        answer.call_id, "nightly", "", "agent-17", "night-run",
    )  # fmt: skip
    assert ANSWER not in repr(answer)


@pytest.mark.usefixtures("nightly")
def test_what_the_request_says_of_its_user_counts_where_nothing_else_is_said(world: World) -> None:
    run(application="nightly", request={**REQUEST, "user": "agent-18"}, seconds=10)
    assert world.call().user == "agent-18"


@pytest.mark.usefixtures("nightly")
def test_a_failed_call_has_an_id_and_a_row(world: World) -> None:
    world.script(fails(401), fails(401), fails(401))
    with pytest.raises(Unanswered) as failed:
        call()
    assert failed.value.failure.kind is FailureKind.AUTH
    assert failed.value.attempts == 3
    row = world.call()
    assert (row.pk, row.success, row.failure_kind) == (failed.value.call_id, False, "auth")


@pytest.mark.usefixtures("nightly")
def test_a_model_that_declines_has_answered(world: World) -> None:
    said = {"message": {"role": "assistant", "content": None, "refusal": "No."}, "finish_reason": "content_filter"}
    world.script(whole(completion(choices=[{"index": 0, **said}])))
    answer = call()
    assert answer.refusal is not None
    assert answer.refusal.kind is FailureKind.REFUSED
    assert answer.document["choices"][0]["message"]["refusal"] == "No."


@pytest.mark.usefixtures("nightly")
def test_a_provider_that_declines_by_an_error_is_answered_as_on_the_wire(world: World) -> None:
    world.script(fails(400, code="content_filter", message="This is against the rules."))
    answer = call()
    on_the_wire = world.gateway.chat()
    assert answer.refusal is not None
    assert on_the_wire.status == 200
    choice = answer.document["choices"][0]
    assert choice == on_the_wire.json["choices"][0]
    assert choice["finish_reason"] == "content_filter"


@pytest.mark.usefixtures("nightly")
@pytest.mark.parametrize(
    ("request_document", "parameter"),
    [
        ({"model": "support-chat"}, "messages"),
        ({**REQUEST, "messages": "Hello"}, "messages"),
        ({**REQUEST, "stream": True}, "stream"),
        ({**REQUEST, "api_key": "x"}, "api_key"),
    ],
)
def test_what_is_no_request_is_refused_by_field(world: World, request_document: Any, parameter: str) -> None:
    with pytest.raises(CallFailed) as failed:
        run(application="nightly", request=request_document, seconds=10)
    assert failed.value.failure.kind is FailureKind.INVALID_REQUEST
    assert failed.value.failure.parameter == parameter
    assert world.asked == [0, 0, 0]


def test_an_application_has_to_be_allowed_to(world: World, nightly: Application) -> None:
    switch(nightly, on=False, author=SOMEBODY)
    world.gateway.refresh()
    for application in ("nightly", "helpdesk", "nonesuch"):
        with pytest.raises(CallFailed, match="may not call without a key") as failed:
            call(application)
        assert failed.value.failure.kind is FailureKind.FORBIDDEN
    assert world.asked == [0, 0, 0]


@pytest.mark.usefixtures("nightly")
def test_options_tighten(world: World) -> None:
    with pytest.raises(Unanswered) as failed:
        call(options=CallOptions(max_cost_nanos=1))
    assert failed.value.failure.kind is FailureKind.UNSUPPORTED
    assert call(options=CallOptions(on_device=True)).route == "prod-east/fast"  # all of them are self-hosted here
    with pytest.raises(Unanswered):
        run(application="nightly", request={**REQUEST, "model": "prod-east/fast"}, seconds=10)  # no model by its name


@pytest.mark.usefixtures("nightly")
def test_a_fault_of_our_own_is_a_failure_that_says_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("governance.gateway.middleware.decide.rule", _fail)
    with caplog.at_level(logging.ERROR), pytest.raises(Unanswered) as failed:
        call()
    assert failed.value.failure.kind is FailureKind.INTERNAL
    assert "zanzibar" not in failed.value.failure.message
    assert world.call().failure_kind == FailureKind.INTERNAL


def _fail(*_: Any, **__: Any) -> Any:
    raise LookupError("zanzibar")


@pytest.mark.usefixtures("nightly")
def test_inside_a_transaction_nothing_is_called(world: World) -> None:
    with transaction.atomic(), pytest.raises(CalledFromTheWrongPlace):
        call()
    assert world.asked == [0, 0, 0]


@pytest.mark.usefixtures("nightly")
def test_the_bytes_sent_are_those_of_the_request(world: World) -> None:
    call()
    sent = orjson.loads(world.upstreams[0].requests[0].body)
    assert sent == {**REQUEST, "model": "gpt-x-mini"}


# --- Other endpoints ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("nightly")
def test_vectors(world: World) -> None:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5, -2.0]}]
    answered = {"object": "list", "data": data, "model": "vector-x", "usage": {"prompt_tokens": 8}}
    world.script(whole(orjson.dumps(answered)))
    answer = run(
        application="nightly", request={"model": "support-chat", "input": "Ulm"}, wanted=Wanted.VECTORS, seconds=10
    )
    assert (answer.document, answer.text, answer.response_model) == (answered, "", "vector-x")
    assert (answer.usage, answer.cost) == (Usage(8, 0), Money(20_000, "USD"))
    assert world.call().operation == "embed"
    error = {"error": {"message": "no", "code": "content_filter"}}
    world.script(whole(orjson.dumps(error), 400))
    with pytest.raises(Unanswered):  # vectors cannot say that somebody declined
        run(application="nightly", request={"model": "support-chat", "input": "x"}, wanted=Wanted.VECTORS, seconds=10)


@pytest.mark.usefixtures("nightly")
def test_a_completion_by_a_chat(world: World) -> None:
    request = {"model": "support-chat", "prompt": "Where is my parcel?"}
    answer = run(application="nightly", request=request, wanted=Wanted.COMPLETION, seconds=10)
    assert (answer.document["object"], answer.text) == ("text_completion", ANSWER)
    assert answer.document["choices"][0]["text"] == ANSWER
