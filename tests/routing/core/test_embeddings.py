import sys
from array import array
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.core import embeddings
from routing.core.calls import CallRequest
from routing.core.embeddings import EmbeddingWish, Encoding, Input, spelled, to_base64, to_floats
from routing.core.requirements import Shape, measure, requirements_of
from routing.core.vocabulary import Operation

HALF_AND_TWO = "AAAAPwAAAMA="  # 0.5 and -2.0 as 32-bit floats, little-endian


def test_the_two_spellings() -> None:
    assert to_base64([0.5, -2.0]) == HALF_AND_TWO
    assert to_floats(HALF_AND_TWO) == [0.5, -2.0]


def test_a_machine_of_the_other_byte_order_writes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "sys", type("Sys", (), {"byteorder": "big" if sys.byteorder == "little" else "x"}))
    assert b64decode(to_base64([0.5])) == array("f", [0.5]).tobytes()[::-1]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_a_vector_survives_both_ways(numbers: list[float]) -> None:
    assert to_floats(to_base64(numbers)) == numbers


@pytest.mark.parametrize("text", ["AAAA", "not base64", "AAAAPw"], ids=["short", "words", "unpadded"])
def test_what_is_no_vector(text: str) -> None:
    with pytest.raises(ValueError, match=r"cut off|base64|padding"):
        to_floats(text)


@pytest.mark.parametrize("numbers", [["a"], [None], [[1.0]]])
def test_what_are_no_numbers(numbers: list[float]) -> None:
    with pytest.raises(ValueError, match="no 32-bit float"):
        to_base64(numbers)


def test_a_vector_in_the_wanted_spelling_is_left_alone() -> None:
    numbers = [0.1, 0.2]
    assert spelled(numbers, Encoding.FLOAT) is numbers
    assert spelled(HALF_AND_TWO, Encoding.BASE64) is HALF_AND_TWO
    assert spelled(HALF_AND_TWO, None) is HALF_AND_TWO
    assert spelled(numbers, None) is numbers
    assert spelled([0.5, -2.0], Encoding.BASE64) == HALF_AND_TWO
    assert spelled(HALF_AND_TWO, Encoding.FLOAT) == [0.5, -2.0]
    assert b64encode(array("f", [0.5, -2.0]).tobytes()).decode() == HALF_AND_TWO


def request(*inputs: Input) -> CallRequest:
    return CallRequest(target="similar", messages=(), embedding=EmbeddingWish(inputs))


def test_what_a_request_for_vectors_is() -> None:
    """All of it is paid for, and each input alone has to fit."""
    asked = request("abcdefgh", "ä" * 6, (1, 2, 3, 4, 5, 6, 7))
    facts = measure(asked)
    assert (facts.messages, facts.turns, facts.tools, facts.payload_bytes) == (3, 1, 0, 20)
    assert (facts.token_estimate, facts.shape) == (5 + 7, Shape.SINGLE_TURN)
    needs = requirements_of(asked, facts)
    assert (needs.operation, needs.capabilities) == (Operation.EMBED, frozenset())
    assert (needs.prompt_tokens, needs.fitting_tokens, needs.max_output) == (12, 7, 0)


def test_a_request_for_something_only_its_protocol_knows() -> None:
    needs = requirements_of(request(), measure(request()))
    assert (needs.prompt_tokens, needs.fitting_tokens) == (0, 0)
