"""Embeddings, in no vendor's words: what is asked for, and the vectors that come back in the spelling asked for.

A vector is a list of numbers, or base64 of 32-bit floats, little-endian: what is asked for is what is handed on, and
whoever answers in the other spelling is turned into it.
"""

import sys
from array import array
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FLOAT_BYTES = 4

Input = str | tuple[int, ...]
"""One thing to embed, or to write on from: a text, or the tokens of one."""

Vector = Sequence[float] | str
"""Numbers, or base64 of them."""


class Encoding(StrEnum):
    """How vectors are spelled."""

    FLOAT = "float"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True)
class EmbeddingWish:
    """What is to be embedded, and how.

    Attributes:
        inputs: texts or tokens, each of which becomes a vector. Empty where the request holds something else, which
            only its own protocol can carry.
        encoding: how the vectors are wanted; ``None`` for a spelling nobody here knows, which is passed on as it is.
        dimensions: how long they should be; ``None`` leaves it to the model.
    """

    inputs: tuple[Input, ...]
    encoding: Encoding | None = Encoding.FLOAT
    dimensions: int | None = None

    @property
    def texts(self) -> list[str]:
        """The inputs that are texts."""
        return [each for each in self.inputs if isinstance(each, str)]

    @property
    def has_tokens(self) -> bool:
        """Whether an input is given as tokens, which mean something to one model only."""
        return any(not isinstance(each, str) for each in self.inputs)


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vector of the input at ``index``."""

    index: int
    vector: Vector


def spelled(vector: Vector, encoding: Encoding | None) -> Vector:
    """A vector in a spelling; as it is where it has it, or where the spelling is none of ours.

    Raises ``ValueError`` for what is no vector.
    """
    if encoding is Encoding.BASE64 and not isinstance(vector, str):
        return to_base64(vector)
    if encoding is Encoding.FLOAT and isinstance(vector, str):
        return to_floats(vector)
    return vector


def to_base64(numbers: Sequence[float]) -> str:
    """Numbers as base64 of 32-bit floats, little-endian. Raises ``ValueError`` for what are no such numbers."""
    try:
        floats = array("f", numbers)
    except (TypeError, OverflowError) as error:
        raise ValueError("a vector holds something that is no 32-bit float") from error
    return b64encode(_little_endian(floats).tobytes()).decode()


def to_floats(text: str) -> list[float]:
    """The numbers that base64 of 32-bit floats, little-endian, holds. Raises ``ValueError`` for anything else."""
    data = b64decode(text, validate=True)
    if len(data) % FLOAT_BYTES:
        raise ValueError("a vector is cut off inside a number")
    return _little_endian(array("f", data)).tolist()


def _little_endian(floats: "array[float]") -> "array[float]":
    """The same numbers with their bytes turned where this machine's order is the other one."""
    if sys.byteorder == "big":
        floats.byteswap()
    return floats
