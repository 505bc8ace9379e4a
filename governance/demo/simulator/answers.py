"""What the simulator says: text of a set length, tool calls, JSON, vectors, and the usage to report.

Everything follows from the request and the behaviour; the only draw is that of the answer's length. One word
counts as one token of visible text, four bytes as one token of JSON.
"""

import base64
import hashlib
import math
import random
import re
import struct
import zlib
from dataclasses import dataclass
from itertools import islice

import orjson

from governance.demo.simulator.behaviours import TokenUse
from governance.demo.simulator.instances import Schema, minimal_instance
from governance.demo.simulator.problems import RequestProblem
from governance.demo.simulator.requests import EmbeddingsRequest, TextRequest, Tool

_REPEATED_WORDS = 8
_BYTES_PER_TOKEN = 4
_WANTS_TOOL = re.compile(r"\btools?\b", re.IGNORECASE)
_WORD = re.compile(r"\S+")
_FILLER_TEXT = (
    "this text is filler made by a simulator and no model has read the question so nothing here should be "
    "taken for an answer of any kind it only has the length that was set for it"
)
_FILLER = _FILLER_TEXT.split(" ")


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts: ``cached`` is a part of ``prompt``, ``reasoning`` a part of ``completion``."""

    prompt: int
    completion: int = 0
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of one function; the arguments are JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A text or a tool call, why it ended, and what it used."""

    text: str
    tool_call: ToolCall | None
    finish_reason: str
    usage: Usage


def compose(request: TextRequest, *, tokens: TokenUse, rng: random.Random) -> Answer:
    """The answer to a chat or legacy completion; raises ``RequestProblem`` for a schema it cannot follow."""
    drawn = tokens.draw_completion(rng)
    completion = drawn if request.limit is None else min(drawn, request.limit)
    reasoning = min(tokens.reasoning, completion)
    usage = _usage(request.prompt_bytes, tokens=tokens, completion=completion, reasoning=reasoning)
    tool = request.forced
    if tool is None and request.may_call and _WANTS_TOOL.search(request.prompt):
        tool = request.tools[0]
    if tool is not None:
        return _call(tool, request=request, usage=usage)
    if request.as_object or request.schema is not None:
        text, cut = _cut(_compose_json(request), limit=request.limit)
        return Answer(text, None, "length" if cut else "stop", usage)
    text = _compose_text(request.prompt, words=completion - reasoning)
    return Answer(text, None, "length" if completion < drawn else "stop", usage)


def embed(request: EmbeddingsRequest, *, tokens: TokenUse, dimensions: int) -> tuple[list[bytes], Usage]:
    """One unit vector per input as little-endian float32, and the usage; the same input, the same vector."""
    length = request.dimensions or dimensions
    vectors = [_vector(f"{request.model}\n".encode() + item, dimensions=length) for item in request.inputs]
    total = sum(len(item) for item in request.inputs)
    return vectors, Usage(prompt=_prompt_tokens(total, tokens=tokens))


def as_floats(vector: bytes) -> list[float]:
    """The numbers of a packed vector."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def as_base64(vector: bytes) -> str:
    """A packed vector as the API sends it for ``encoding_format: base64``."""
    return base64.b64encode(vector).decode("ascii")


def split_words(text: str, *, words: int) -> list[str]:
    """The text in pieces of that many words, which joined give the text again."""
    parts = text.split(" ")
    pieces = [" ".join(parts[start : start + words]) for start in range(0, len(parts), words)]
    return [piece if index == 0 else f" {piece}" for index, piece in enumerate(pieces)] if text else []


def _usage(prompt_bytes: int, *, tokens: TokenUse, completion: int, reasoning: int) -> Usage:
    prompt = _prompt_tokens(prompt_bytes, tokens=tokens)
    return Usage(prompt, completion, min(tokens.cached, prompt), reasoning)


def _prompt_tokens(prompt_bytes: int, *, tokens: TokenUse) -> int:
    if tokens.prompt is not None:
        return tokens.prompt
    return max(1, -(-prompt_bytes // _BYTES_PER_TOKEN))


def _compose_text(prompt: str, *, words: int) -> str:
    """Exactly so many words, which begin with the announcement that they are simulated."""
    spoken = ["Simulated", "answer", "to:", *_first_words(prompt)][:words]
    missing = words - len(spoken)
    if missing > 0:
        start = zlib.crc32(prompt.encode("utf-8", "surrogatepass")) % len(_FILLER)
        rounds = 1 + (start + missing) // len(_FILLER)
        spoken += (_FILLER * rounds)[start : start + missing]
    return " ".join(spoken)


def _first_words(prompt: str) -> list[str]:
    return [match.group() for match in islice(_WORD.finditer(prompt), _REPEATED_WORDS)]


def _compose_json(request: TextRequest) -> str:
    if request.schema is None:
        answer = " ".join(["Simulated", "answer", "to:", *_first_words(request.prompt)])
        return orjson.dumps({"simulated": True, "answer": answer}).decode()
    return _instance(request.schema, param="response_format.json_schema.schema")


def _call(tool: Tool, *, request: TextRequest, usage: Usage) -> Answer:
    arguments, cut = _cut(_arguments(tool), limit=request.limit)
    digest = hashlib.sha256(f"{tool.name}\n{request.prompt}".encode("utf-8", "surrogatepass")).hexdigest()
    call = ToolCall(id=f"call_sim{digest[:20]}", name=tool.name, arguments=arguments)
    return Answer("", call, "length" if cut else "tool_calls", usage)


def _arguments(tool: Tool) -> str:
    if not tool.parameters:
        return "{}"
    return _instance({"type": "object", **tool.parameters}, param="tools")


def _instance(schema: Schema, *, param: str) -> str:
    try:
        return orjson.dumps(minimal_instance(schema)).decode()
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise RequestProblem(
            f"Invalid schema for '{param}': {error}.", param=param, code="invalid_json_schema"
        ) from error


def _cut(text: str, *, limit: int | None) -> tuple[str, bool]:
    """The text within a cap in tokens, and whether it had to be cut."""
    most = len(text) if limit is None else limit * _BYTES_PER_TOKEN
    return text[:most], len(text) > most


def _vector(seed: bytes, *, dimensions: int) -> bytes:
    raw = struct.unpack(f"<{dimensions}i", hashlib.shake_256(seed).digest(4 * dimensions))
    length = math.sqrt(sum(number * number for number in raw)) or 1.0
    return struct.pack(f"<{dimensions}f", *(number / length for number in raw))
