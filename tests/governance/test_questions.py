"""Questions that nobody calls with: answered as a call would be, and a hypothetical changes the policy alone."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.decisions import Standing, lay_out, rule
from governance.explanations import Explanation, HistoryUse, OpenNeed, SignalStatus
from governance.gateway.middleware.cache import is_deterministic
from governance.gateway.protocols import openai_chat, openai_completions, openai_embeddings
from governance.questions import Question, UnknownConfiguration, ask, open_needs, suppose
from routing.core.calls import CallRequest
from routing.core.plan import Skip
from routing.core.policy import PolicyMode, RoutingPolicy
from routing.core.requirements import Requirements, measure, requirements_of
from routing.core.vocabulary import Capability, Operation, SignalName, SkipReason
from tests.governance.test_decisions import CONFIGURATIONS, NOW, standing_of

NAMES = sorted({each.identifier for each in CONFIGURATIONS})
MODES = st.none() | st.sampled_from(PolicyMode)
SWITCH = st.none() | st.booleans()
OPERATIONS = st.none() | st.sampled_from(Operation)


def value_of(explanation: Explanation, model: str, name: SignalName) -> float | None:
    found = next(each for each in explanation.candidates if each.model.identifier == model)
    return next(each.value for each in found.signals if each.name is name)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(NAMES), OPERATIONS, st.sampled_from(PolicyMode), st.booleans())
def test_a_question_is_ruled_as_a_call_is(
    name: str, operation: Operation | None, mode: PolicyMode, history: bool
) -> None:
    standing = standing_of(policy=RoutingPolicy(mode=mode, call_history=history))
    answer = ask(standing, Question(name, operation), now=NOW)
    spec, requirements = standing.snapshot.configurations[name], Requirements(operation=operation)
    ruling = rule(standing, spec, requirements=requirements, now=NOW)
    assert answer.ruling == ruling
    assert answer.plan == lay_out(
        standing, spec, ruling, requirements=requirements, now=NOW, may_ask_for=lambda _: True
    )
    assert answer.policy == standing.settings.routing


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(NAMES), OPERATIONS, st.sampled_from(PolicyMode), st.booleans(), st.sampled_from(PolicyMode), SWITCH
)
def test_a_hypothetical_is_answered_as_if_it_were_in_force(
    name: str,
    operation: Operation | None,
    mode: PolicyMode,
    history: bool,
    other: PolicyMode,
    switched: bool | None,
) -> None:
    standing = standing_of(policy=RoutingPolicy(mode=mode, call_history=history))
    answer = ask(standing, Question(name, operation, mode=other, history=switched), now=NOW)
    really = without_own_modes(
        standing_of(policy=RoutingPolicy(mode=other, call_history=history if switched is None else switched))
    )
    expected = ask(really, Question(name, operation), now=NOW)
    assert answer.ruling == expected.ruling
    assert answer.plan == expected.plan
    assert answer.explanation == expected.explanation
    # Nothing that is in force has changed by asking.
    assert standing.settings.routing == RoutingPolicy(mode=mode, call_history=history)
    assert standing.remembered == {}


def without_own_modes(standing: Standing) -> Standing:
    specs = {name: replace(each, policy_mode=None) for name, each in standing.snapshot.configurations.items()}
    return replace(standing, snapshot=replace(standing.snapshot, configurations=specs))


def test_history_that_is_switched_off_is_found_by_a_hypothetical() -> None:
    standing = standing_of(policy=RoutingPolicy(mode=PolicyMode.PROVIDER_PRIORITY, call_history=False))
    asked = Question("ranked", Operation.CHAT)
    in_force = ask(standing, asked, now=NOW).explanation
    assert in_force.history is HistoryUse.MODE_MEASURES_NOTHING
    assert value_of(in_force, "fast", SignalName.LATENCY) is None
    supposed = ask(standing, replace(asked, mode=PolicyMode.BALANCED, history=True), now=NOW).explanation
    assert supposed.history is HistoryUse.READ
    # 900 ms and 200 ms: more than twice either side of their mean, so that both stand at the bounds.
    assert value_of(supposed, "fast", SignalName.LATENCY) == pytest.approx(1 / 3)
    assert value_of(supposed, "huge", SignalName.LATENCY) == pytest.approx(2 / 3)


def test_a_hypothetical_mode_goes_before_a_configurations_own() -> None:
    standing = standing_of()
    assert standing.snapshot.configurations["cheap"].policy_mode is PolicyMode.ECONOMY
    explanation = ask(
        standing, Question("cheap", Operation.CHAT, mode=PolicyMode.PROVIDER_PRIORITY), now=NOW
    ).explanation
    assert explanation.mode is PolicyMode.PROVIDER_PRIORITY
    statuses = {signal.status for each in explanation.candidates for signal in each.signals}
    assert statuses == {SignalStatus.NOT_COLLECTED}
    with_history = ask(standing, Question("cheap", Operation.CHAT, history=False), now=NOW).explanation
    assert (with_history.mode, with_history.history) == (PolicyMode.ECONOMY, HistoryUse.SWITCHED_OFF)


def test_the_plan_has_the_fallbacks_and_what_was_passed_over() -> None:
    answer = ask(standing_of(), Question("ranked", Operation.CHAT), now=NOW)
    assert Skip.of("off", SkipReason.CONFIGURATION_INACTIVE) in answer.plan.skips
    assert Skip.of("gone", SkipReason.CONFIGURATION_MISSING) in answer.plan.skips
    assert answer.plan.steps[0].model.identifier == answer.explanation.candidates[0].model.identifier


def test_needs_that_are_given_are_asked_for_and_no_longer_open() -> None:
    question = Question("ranked", Operation.CHAT, needs=frozenset({Capability.TOOLS, Capability.REASONING}))
    explanation = ask(standing_of(), question, now=NOW).explanation
    assert explanation.needs == ("chat", "reasoning", "tools")
    assert OpenNeed.REASONING not in explanation.open_needs
    assert OpenNeed.STRUCTURED_OUTPUT in explanation.open_needs
    refused = {each.model.identifier for each in explanation.candidates if each.rejection is not None}
    assert refused == {"fast", "huge"}  # the others declare nothing


@pytest.mark.parametrize("operation", [None, *Operation])
def test_what_is_open_depends_on_the_operation(operation: Operation | None) -> None:
    found = open_needs(Requirements(operation=operation))
    assert (OpenNeed.OPERATION in found) == (operation is None)
    assert {OpenNeed.CONTEXT_LENGTH, OpenNeed.KEY, OpenNeed.COST_CEILING} <= set(found)
    assert (OpenNeed.TOOLS in found) == (operation is None)
    images = operation in {None, Operation.TOOLS, Operation.STREAM, Operation.STREAM_TOOLS}
    assert (OpenNeed.VISION in found) == images


def test_a_configuration_that_is_switched_off_is_answered_and_a_missing_one_is_not() -> None:
    answer = ask(standing_of(), Question("off", Operation.CHAT), now=NOW)
    assert not answer.configuration.is_active
    assert answer.explanation.selected is not None
    with pytest.raises(UnknownConfiguration, match="nowhere"):
        ask(standing_of(), Question("nowhere"), now=NOW)


def test_supposing_nothing_is_what_is_in_force() -> None:
    standing = standing_of()
    assert suppose(standing) is standing
    assert not Question("ranked").is_hypothetical
    assert Question("ranked", history=False).is_hypothetical
    assert Question("ranked", mode=PolicyMode.QUALITY).is_hypothetical


# --- Answers that are kept ------------------------------------------------------------------------------------------

HELLO: dict[str, Any] = {"model": "ranked", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
OFFERED = {"tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]}
REQUESTS: dict[Operation, CallRequest] = {
    Operation.CHAT: openai_chat.read_request(orjson.dumps(HELLO)),
    Operation.VISION: openai_chat.read_request(
        orjson.dumps({**HELLO, "messages": [{"role": "user", "content": [PICTURE]}]})
    ),
    Operation.TOOLS: openai_chat.read_request(orjson.dumps({**HELLO, **OFFERED})),
    Operation.STREAM: openai_chat.read_request(orjson.dumps({**HELLO, "stream": True})),
    Operation.STREAM_TOOLS: openai_chat.read_request(orjson.dumps({**HELLO, **OFFERED, "stream": True})),
    Operation.EMBED: openai_embeddings.read_request(orjson.dumps({"model": "ranked", "input": "Hello"})),
    Operation.COMPLETE: openai_completions.read_request(
        orjson.dumps({"model": "ranked", "prompt": "Hello", "temperature": 0})
    ),
}


def keeping(seconds: int | None) -> Standing:
    """What is in force, with a configuration that keeps answers."""
    standing = standing_of()
    configurations = standing.snapshot.configurations
    spec = replace(configurations["ranked"], cache_seconds=seconds)
    return replace(standing, snapshot=replace(standing.snapshot, configurations={**configurations, "ranked": spec}))


@pytest.mark.parametrize("operation", Operation)
def test_what_may_be_kept_is_what_the_cache_looks_for(operation: Operation) -> None:
    request = REQUESTS[operation]
    assert requirements_of(request, measure(request)).operation is operation
    kept_for = ask(keeping(600), Question("ranked", operation), now=NOW).kept_for
    assert kept_for == (timedelta(minutes=10) if is_deterministic(request) else None)


def test_nothing_is_kept_unless_the_configuration_says_so_and_no_longer_than_content() -> None:
    most = standing_of().settings.submissions.content_kept
    kept = [ask(keeping(seconds), Question("ranked", Operation.CHAT), now=NOW).kept_for for seconds in (None, 1, 10**9)]
    assert kept == [None, timedelta(seconds=1), most]
    tools = Question("ranked", Operation.CHAT, needs=frozenset({Capability.TOOLS}))
    assert ask(keeping(600), tools, now=NOW).kept_for is None
    assert ask(keeping(600), Question("ranked"), now=NOW).kept_for == timedelta(minutes=10)  # of no operation: perhaps
