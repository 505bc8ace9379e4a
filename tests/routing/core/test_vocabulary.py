from enum import StrEnum

import pytest

from routing.core import vocabulary
from routing.core.failures import FAILURES, FailureKind
from routing.core.policy import MODE_LABELS, PolicyMode
from routing.core.vocabulary import (
    LABELS,
    OPERATION_CAPABILITY,
    Capability,
    CostBasis,
    DataBoundary,
    DecisionState,
    Enforcement,
    Operation,
    Reach,
    RejectionReason,
    Selection,
    SignalName,
)

ENUMERATIONS = sorted(
    (
        each
        for each in vars(vocabulary).values()
        if isinstance(each, type) and issubclass(each, StrEnum) and each is not StrEnum
    ),
    key=lambda each: each.__name__,
)


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda each: each.__name__)
def test_every_member_has_a_label(enumeration: type[StrEnum]) -> None:
    for member in enumeration:
        assert member in LABELS
        assert LABELS[member].strip()


def test_every_mode_and_every_failure_has_a_label() -> None:
    assert set(MODE_LABELS) == set(PolicyMode)
    assert all(MODE_LABELS.values())
    assert all(FAILURES[kind].label for kind in FailureKind)


def test_labels_of_members_that_are_spelled_alike_stay_apart() -> None:
    assert Operation.CHAT.value == Capability.CHAT.value
    assert LABELS[Operation.CHAT] == "Chat, whole answer"
    assert LABELS[Capability.CHAT] == "Chat"
    assert LABELS[Selection.FIXED] == "One fixed model"
    assert LABELS[DecisionState.FIXED] == "The configuration names its model; nothing was ranked"
    assert LABELS[SignalName.CALL_COST] == LABELS[CostBasis.CALL_COST]


def test_labels_know_only_their_members() -> None:
    assert PolicyMode.BALANCED not in LABELS
    with pytest.raises(KeyError):
        LABELS[PolicyMode.BALANCED]


def test_rejection_reasons_stand_in_the_order_in_which_they_are_asked() -> None:
    assert [each.value for each in RejectionReason] == [
        "notPermitted",
        "budgetTargetOnly",
        "boundaryNotAllowed",
        "reachNotAllowed",
        "regionNotAllowed",
        "capabilityMissing",
        "adapterNotAllowed",
        "contextTooSmall",
        "costAboveLimit",
        "requestTooLarge",
        "aboveRequestCeiling",
        "operationCapabilityMissing",
    ]


def test_what_an_operation_demands() -> None:
    assert dict(OPERATION_CAPABILITY) == {
        Operation.CHAT: Capability.CHAT,
        Operation.VISION: Capability.VISION,
        Operation.TOOLS: Capability.TOOLS,
        Operation.STREAM_TOOLS: Capability.TOOLS,
        Operation.COMPLETE: None,
        Operation.EMBED: None,
        Operation.STREAM: None,
    }
    assert set(OPERATION_CAPABILITY) == set(Operation)


def test_reaches_and_boundaries_by_name() -> None:
    assert [each.value for each in Reach] == ["vendor_api", "cloud_partner", "private_endpoint", "self_hosted"]
    assert [each for each in Reach if each.is_on_device] == [Reach.SELF_HOSTED]
    assert {each.value for each in DataBoundary} == {"unknown", "internal", "external"}


@pytest.mark.parametrize("text", ["self_hosted", " SELF-HOSTED ", "Self_Hosted"])
def test_a_reach_is_read_in_any_spelling(text: str) -> None:
    assert Reach.parse(text) is Reach.SELF_HOSTED


@pytest.mark.parametrize("text", ["", "moon", "selfhosted", "self hosted"])
def test_what_is_no_reach(text: str) -> None:
    assert Reach.parse(text) is None


@pytest.mark.parametrize("value", ["observe", " Observe ", "OBSERVE"])
def test_only_one_word_observes(value: str) -> None:
    assert Enforcement.read(value) is Enforcement.OBSERVE


@pytest.mark.parametrize("value", ["enforce", "", "off", "observed", None, 0, False, ["observe"]])
def test_everything_else_enforces(value: object) -> None:
    assert Enforcement.read(value) is Enforcement.ENFORCE
