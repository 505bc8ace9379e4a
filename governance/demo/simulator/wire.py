"""Answers as OpenAI's JSON: whole bodies and stream frames, for chat, legacy completions, embeddings, models.

A stream is a list of frames, each one complete server-sent event: failures are placed between them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from governance.demo.simulator.answers import (
    Answer,
    ToolCall,
    Usage,
    as_base64,
    as_floats,
    split_words,
)

FINGERPRINT = "signalbox-simulator"
DONE = b"data: [DONE]\n\n"

_CREATED = 1_700_000_000
_ARGUMENT_PIECE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What identifies an answer: its id, the time in epoch seconds, and the model asked for."""

    id: str
    created: int
    model: str


def chat_body(answer: Answer, *, stamp: Stamp, with_usage: bool) -> bytes:
    """A whole ``chat.completion``."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.tool_call is not None:
        message["content"] = None
        message["tool_calls"] = [_tool_call(answer.tool_call)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish_reason}
    return _whole("chat.completion", choice, answer=answer, stamp=stamp, with_usage=with_usage)


def completion_body(answer: Answer, *, stamp: Stamp, with_usage: bool) -> bytes:
    """A whole ``text_completion``."""
    choice = {"index": 0, "text": answer.text, "logprobs": None, "finish_reason": answer.finish_reason}
    return _whole("text_completion", choice, answer=answer, stamp=stamp, with_usage=with_usage)


def chat_frames(answer: Answer, *, stamp: Stamp, with_usage: bool, chunk_tokens: int) -> list[bytes]:
    """A ``chat.completion.chunk`` stream: role, content or tool call, finish, usage if wanted, end mark."""
    deltas: list[dict[str, Any]]
    if answer.tool_call is None:
        deltas = [{"role": "assistant", "content": "", "refusal": None}]
        deltas += [{"content": piece} for piece in split_words(answer.text, words=chunk_tokens)]
    else:
        deltas = [{"role": "assistant", "content": None}, *_tool_deltas(answer.tool_call)]
    choices: list[dict[str, Any]] = [
        *({"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas),
        {"index": 0, "delta": {}, "logprobs": None, "finish_reason": answer.finish_reason},
    ]
    return _frames("chat.completion.chunk", choices, answer=answer, stamp=stamp, with_usage=with_usage)


def completion_frames(answer: Answer, *, stamp: Stamp, with_usage: bool, chunk_tokens: int) -> list[bytes]:
    """A ``text_completion`` stream."""
    pieces = split_words(answer.text, words=chunk_tokens)
    choices = [
        *({"index": 0, "text": piece, "logprobs": None, "finish_reason": None} for piece in pieces),
        {"index": 0, "text": "", "logprobs": None, "finish_reason": answer.finish_reason},
    ]
    return _frames("text_completion", choices, answer=answer, stamp=stamp, with_usage=with_usage)


def embeddings_body(vectors: Sequence[bytes], *, usage: Usage, model: str, encoded: bool, with_usage: bool) -> bytes:
    """A list of embeddings, as numbers or in base64."""
    body: dict[str, Any] = {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": index,
                "embedding": as_base64(vector) if encoded else as_floats(vector),
            }
            for index, vector in enumerate(vectors)
        ],
        "model": model,
        "system_fingerprint": FINGERPRINT,
    }
    if with_usage:
        body["usage"] = {"prompt_tokens": usage.prompt, "total_tokens": usage.prompt}
    return orjson.dumps(body)


def models_body(models: Iterable[str], *, provider: str) -> bytes:
    """The list of a provider's models."""
    return orjson.dumps({"object": "list", "data": [_model(model, provider) for model in models]})


def model_body(model: str, *, provider: str) -> bytes:
    """One model."""
    return orjson.dumps(_model(model, provider))


def sse(data: bytes) -> bytes:
    """One server-sent event of one ``data`` line."""
    return b"data: " + data + b"\n\n"


def _whole(kind: str, choice: dict[str, Any], *, answer: Answer, stamp: Stamp, with_usage: bool) -> bytes:
    body = {**_head(kind, stamp), "choices": [choice]}
    if with_usage:
        body["usage"] = _usage(answer.usage)
    return orjson.dumps(body)


def _frames(
    kind: str, choices: Sequence[dict[str, Any]], *, answer: Answer, stamp: Stamp, with_usage: bool
) -> list[bytes]:
    """One frame per choice; with usage wanted, all carry a null, and a frame without choices the counts."""
    head = _head(kind, stamp)
    if with_usage:
        head["usage"] = None
    frames = [sse(orjson.dumps({**head, "choices": [choice]})) for choice in choices]
    if with_usage:
        frames.append(sse(orjson.dumps({**head, "choices": [], "usage": _usage(answer.usage)})))
    frames.append(DONE)
    return frames


def _head(kind: str, stamp: Stamp) -> dict[str, Any]:
    return {
        "id": stamp.id,
        "object": kind,
        "created": stamp.created,
        "model": stamp.model,
        "system_fingerprint": FINGERPRINT,
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning, "audio_tokens": 0},
    }


def _tool_call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool_deltas(call: ToolCall) -> Iterable[dict[str, Any]]:
    """The call's name first, its arguments in pieces after it."""
    function = {"name": call.name, "arguments": ""}
    yield {"tool_calls": [{"index": 0, "id": call.id, "type": "function", "function": function}]}
    for start in range(0, len(call.arguments), _ARGUMENT_PIECE):
        piece = call.arguments[start : start + _ARGUMENT_PIECE]
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _model(model: str, provider: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "created": _CREATED, "owned_by": f"{provider} ({FINGERPRINT})"}
