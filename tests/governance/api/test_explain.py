"""Questions that nobody has called with: an operator is told everything, a key what concerns it."""

import pytest

from governance.models import AccessKey
from telemetry.models import Call
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    CallFactory,
    ConfigurationFactory,
    FallbackLinkFactory,
    LanguageModelFactory,
)
from tests.governance.api.program import Program, complaints


@pytest.fixture
def catalogue(db: None) -> None:
    """Two configurations, of which one falls back to the other; three models."""
    for identifier in ("fast", "wise", "huge"):
        LanguageModelFactory.create(identifier=identifier, model_id=f"gpt-{identifier}", priced=True)
    last = LanguageModelFactory.create(identifier="last-resort", model_id="gpt-last")
    FallbackLinkFactory.create(
        configuration=ConfigurationFactory.create(policy_mode="balanced"),
        fallback=ConfigurationFactory.create(identifier="plain-chat", fixed=True, fixed_model=last),
    )


def holder(**allowed: object) -> Program:
    application = ApplicationFactory.create()
    return Program(AccessKeyFactory.create(application=application, **allowed).secret)


@pytest.mark.usefixtures("catalogue")
def test_an_operator_is_told_everything(operator: Program) -> None:
    answer = operator.post("explain", {"configuration": "support-chat", "operation": "chat"})
    assert answer.status_code == 200
    told = answer.json()
    assert len(told["explanation"]["candidates"]) == 4
    assert [each["route"].partition("/")[2] for each in told["plan"]] == ["fast", "huge", "last-resort"]
    assert [(each["reason"], each["name"].partition("/")[2]) for each in told["passed_over"]] == [
        ("alreadyPlanned", "last-resort")
    ]
    assert told["explanation"]["mode"] == "balanced"
    assert "key" in told["explanation"]["open_needs"]
    assert told["kept_for_seconds"] is None
    assert not Call.objects.exists()


@pytest.mark.usefixtures("catalogue")
def test_for_how_long_answers_are_kept(operator: Program) -> None:
    ConfigurationFactory.create(identifier="cached-chat", criteria=True, cache_seconds=600)
    told = [
        operator.post("explain", {"configuration": "cached-chat", "operation": operation}).json()["kept_for_seconds"]
        for operation in ("chat", "stream")
    ]
    assert told == [600, None]


@pytest.mark.usefixtures("catalogue")
def test_a_hypothetical_mode_changes_nothing_but_the_answer(operator: Program) -> None:
    sent = {"configuration": "support-chat", "operation": "chat", "mode": "economy", "history": True}
    assert operator.post("explain", sent).json()["explanation"]["mode"] == "economy"
    assert operator.post("explain", {"configuration": "support-chat"}).json()["explanation"]["mode"] == "balanced"


@pytest.mark.usefixtures("catalogue")
def test_a_key_asks_within_its_limits_and_is_told_of_nothing_else(key_holder: Program) -> None:
    for _ in range(6):  # what other applications' calls took and cost
        CallFactory.create(application="web-shop", served_model_id="gpt-wise")
    program = holder(allowed_configurations=["support-chat"], allowed_models=["wise"])
    answer = program.post("explain", {"configuration": "support-chat", "operation": "chat", "history": True})
    told = answer.json()
    assert [each["route"].partition("/")[2] for each in told["plan"]] == ["wise"]
    assert [each["route"].partition("/")[2] for each in told["explanation"]["candidates"]] == ["wise"]
    assert told["explanation"]["others"] == 3
    assert "key" not in told["explanation"]["open_needs"]
    for secret in (b"plain-chat", b"huge", b"fast", b"last-resort", b"gpt-last"):
        assert secret not in answer.content
    (candidate,) = told["explanation"]["candidates"]
    assert (candidate["score"], candidate["failures_in_a_row"]) == (None, None)
    figures = {each["name"]: (each["raw"], each["value"], each["counted"]) for each in candidate["signals"]}
    assert [figures[name] for name in ("health", "latency", "callCost")] == [(None, None, None)] * 3


@pytest.mark.usefixtures("catalogue")
def test_of_a_configuration_that_a_key_may_not_use_it_hears_what_it_hears_of_one_that_is_not_there() -> None:
    program = holder(allowed_configurations=["support-chat"])
    forbidden = program.post("explain", {"configuration": "plain-chat"})
    missing = program.post("explain", {"configuration": "other-chat"})
    assert forbidden.status_code == missing.status_code == 404
    assert forbidden.json()["detail"].replace("plain-chat", "") == missing.json()["detail"].replace("other-chat", "")


@pytest.mark.usefixtures("catalogue")
def test_a_key_that_may_use_no_model_is_refused_as_its_call_would_be() -> None:
    program = holder(allowed_models=[])
    told = program.post("explain", {"configuration": "support-chat", "operation": "chat"}).json()
    assert (told["plan"], told["explanation"]["candidates"], told["explanation"]["others"]) == ([], [], 4)
    assert told["explanation"]["refusal"] == "support-chat: the key does not allow any of its models"


def test_a_question_that_cannot_be_asked(operator: Program) -> None:
    for sent, field in (
        ({}, "configuration"),
        ({"configuration": "support-chat", "operation": "dance"}, "operation"),
        ({"configuration": "support-chat", "needs": ["wings"]}, "needs[0]"),
        ({"configuration": "support-chat", "prompt": "Hello"}, "prompt"),
    ):
        answer = operator.post("explain", sent)
        assert (answer.status_code, list(complaints(answer))) == (400, [field])
    assert AccessKey.objects.count() == 0
