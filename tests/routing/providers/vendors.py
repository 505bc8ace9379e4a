"""Vendors as they answer on the wire: the shapes that every adapter has to read, one vendor after the other.

All of them say the same things: a text, two tool calls, an error. What differs is how, and how usage is counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from routing.core.calls import CallRequest, Usage
from routing.core.failures import FailureKind
from routing.providers.base import Endpoint
from routing.providers.dialects import (
    anthropic_replies,
    gemini_replies,
    ollama_replies,
    openai_chat_replies,
    openai_responses_replies,
)
from routing.providers.dialects.tools import ToolNames
from routing.providers.ndjson import LineReader
from routing.providers.sse import EventReader
from routing.providers.stream import Codec, Reader

TEXT = "Grüße aus Ulm 🌌."
PIECES = ("Grüße ", "aus Ulm ", "🌌.")
REPLY_ID, MODEL = "reply-77", "model-x-2026-05-01"
CALLS = (("call-1", "look_up", '{"city":"Ulm"}'), ("call-2", "weigh", "{}"))

MakeCodec = Callable[[Endpoint, CallRequest], Codec]


def sse(document: Any, *, event: str = "") -> bytes:
    """One server-sent event."""
    name = f"event: {event}\n".encode() if event else b""
    return name + b"data: " + orjson.dumps(document) + b"\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An error of a vendor: what it answers and what that is."""

    name: str
    status: int
    body: Any
    kind: FailureKind
    headers: Mapping[str, str] = field(default_factory=dict)
    retry_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """One vendor's wire.

    ``stream`` are the frames of the text, ``error_frame`` one that may come in place of any; ``has_end_mark`` says
    that the last frame is a mark of which a stream can do without.
    """

    adapter_type: str
    line: str
    stream_line: str
    key_header: tuple[str, str]
    whole: Any
    stream: tuple[bytes, ...]
    calls_whole: Any
    calls_stream: tuple[bytes, ...]
    usage: Usage
    error_frame: bytes
    error_kind: FailureKind
    errors: tuple[Refused, ...]
    models: Any
    model_ids: tuple[str, ...]
    codec: MakeCodec
    has_end_mark: bool = True
    api_version: str = ""
    name: str = ""
    reply_id: str = REPLY_ID
    lists_at: str = "GET /v1/"
    accepts: str = "text/event-stream"
    reader: Callable[[], Reader] = EventReader
    spellings: tuple[str, ...] = ("plain", "crlf", "cr", "no-blank", "comments", "no-end", "unterminated")

    def __str__(self) -> str:
        return self.name or self.adapter_type


# --- OpenAI chat ----------------------------------------------------------------------------------------------------

_CHAT_USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 340,
    "total_tokens": 1540,
    "prompt_tokens_details": {"cached_tokens": 200},
    "completion_tokens_details": {"reasoning_tokens": 40},
}


def _completion(message: Any, finish: str) -> Any:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    head = {"id": REPLY_ID, "object": "chat.completion", "model": MODEL}
    return {**head, "choices": [choice], "usage": _CHAT_USAGE, "service_tier": "default"}


def _chunk(delta: Any, finish: str | None = None, **members: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return sse({"id": REPLY_ID, "object": "chat.completion.chunk", "model": MODEL, "choices": [choice], **members})


def _call_delta(index: int, fragment: str, **members: Any) -> bytes:
    call_id, name = members.get("id"), members.get("name")
    function = {"arguments": fragment, **({"name": name} if name else {})}
    return _chunk({"tool_calls": [{"index": index, "function": function, **({"id": call_id} if call_id else {})}]})


def _chat_errors() -> tuple[Refused, ...]:
    def error(code: str, message: str = "no") -> Any:
        return {"error": {"message": message, "type": "an_error", "param": None, "code": code}}

    return (
        Refused(
            name="rate",
            status=429,
            body=error("rate_limit_exceeded"),
            headers={"retry-after": "7"},
            kind=FailureKind.RATE_LIMITED,
            retry_after=7,
        ),
        Refused(name="quota", status=429, body=error("insufficient_quota"), kind=FailureKind.QUOTA_EXHAUSTED),
        Refused(name="money", status=402, body=error("insufficient_credits"), kind=FailureKind.QUOTA_EXHAUSTED),
        Refused(name="key", status=401, body=error("invalid_api_key"), kind=FailureKind.AUTH),
        Refused(name="model", status=404, body=error("model_not_found"), kind=FailureKind.NOT_FOUND),
        Refused(name="request", status=400, body=error("invalid_value"), kind=FailureKind.INVALID_REQUEST),
        Refused(name="long", status=400, body=error("context_length_exceeded"), kind=FailureKind.CONTEXT_EXCEEDED),
        Refused(name="filter", status=400, body=error("content_filter"), kind=FailureKind.REFUSED),
        Refused(name="server", status=503, body=error("server_error"), kind=FailureKind.TRANSIENT),
    )


def _chat_codec(endpoint: Endpoint, request: CallRequest) -> Codec:
    return openai_chat_replies.ChunkReader(endpoint=endpoint, hides_usage=False, tools=ToolNames(request.tools))


OPENAI = Vendor(
    adapter_type="openai",
    line="POST /v1/chat/completions HTTP/1.1",
    stream_line="POST /v1/chat/completions HTTP/1.1",
    key_header=("authorization", "Bearer {key}"),
    whole=_completion({"content": TEXT}, "stop"),
    stream=(
        _chunk({"role": "assistant", "content": ""}),
        *(_chunk({"content": each}) for each in PIECES),
        _chunk({}, "stop"),
        sse({"id": REPLY_ID, "model": MODEL, "choices": [], "usage": _CHAT_USAGE, "service_tier": "default"}),
        b"data: [DONE]\n\n",
    ),
    calls_whole=_completion(
        {
            "content": None,
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
                for call_id, name, arguments in CALLS
            ],
        },
        "tool_calls",
    ),
    calls_stream=(
        _call_delta(0, '{"city"', id="call-1", name="look_up"),
        _call_delta(1, "{}", id="call-2", name="weigh"),
        _call_delta(0, ':"Ulm"}'),
        _chunk({}, "tool_calls", usage=_CHAT_USAGE),
        b"data: [DONE]\n\n",
    ),
    usage=Usage(1000, 340, cache_read=200, reasoning=40),
    error_frame=sse({"error": {"message": "no", "code": "insufficient_quota"}, "choices": []}),
    error_kind=FailureKind.QUOTA_EXHAUSTED,
    errors=_chat_errors(),
    models={"object": "list", "data": [{"id": "model-x"}, {"id": "model-y"}]},
    model_ids=("model-x", "model-y"),
    codec=_chat_codec,
)

# --- Anthropic ------------------------------------------------------------------------------------------------------

_MESSAGES_USAGE = {
    "input_tokens": 1000,
    "cache_creation_input_tokens": 30,
    "cache_read_input_tokens": 200,
    "output_tokens": 340,
    "output_tokens_details": {"thinking_tokens": 40},
    "service_tier": "standard",
}


def _message(content: Any, reason: str) -> Any:
    head = {"id": REPLY_ID, "type": "message", "role": "assistant", "model": MODEL}
    return {**head, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": _MESSAGES_USAGE}


def _event(kind: str, **members: Any) -> bytes:
    return sse({"type": kind, **members}, event=kind)


def _message_stream(*blocks: bytes, reason: str) -> tuple[bytes, ...]:
    head = {"id": REPLY_ID, "type": "message", "role": "assistant", "model": MODEL, "content": []}
    begun = {**_MESSAGES_USAGE, "output_tokens": 1, "output_tokens_details": None}
    ended = {"output_tokens": 340, "output_tokens_details": {"thinking_tokens": 40}}
    return (
        _event("message_start", message={**head, "stop_reason": None, "usage": begun}),
        _event("ping"),
        *blocks,
        _event("message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage=ended),
        _event("message_stop"),
    )


def _json_delta(index: int, fragment: str) -> bytes:
    return _event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": fragment})


def _tool_start(index: int, call_id: str, name: str) -> bytes:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return _event("content_block_start", index=index, content_block=block)


def _messages_errors() -> tuple[Refused, ...]:
    def error(kind: str, message: str = "no") -> Any:
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req-1"}

    return (
        Refused(
            name="rate",
            status=429,
            body=error("rate_limit_error"),
            headers={"retry-after": "7"},
            kind=FailureKind.RATE_LIMITED,
            retry_after=7,
        ),
        Refused(name="billing", status=402, body=error("billing_error"), kind=FailureKind.QUOTA_EXHAUSTED),
        Refused(name="key", status=401, body=error("authentication_error"), kind=FailureKind.AUTH),
        Refused(name="permission", status=403, body=error("permission_error"), kind=FailureKind.AUTH),
        Refused(name="model", status=404, body=error("not_found_error"), kind=FailureKind.NOT_FOUND),
        Refused(name="request", status=400, body=error("invalid_request_error"), kind=FailureKind.INVALID_REQUEST),
        Refused(
            name="long",
            status=400,
            body=error("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
            kind=FailureKind.CONTEXT_EXCEEDED,
        ),
        Refused(name="large", status=413, body=error("request_too_large"), kind=FailureKind.CONTEXT_EXCEEDED),
        Refused(name="overloaded", status=529, body=error("overloaded_error"), kind=FailureKind.TRANSIENT),
        Refused(name="server", status=500, body=error("api_error"), kind=FailureKind.TRANSIENT),
        Refused(name="timeout", status=504, body=error("timeout_error"), kind=FailureKind.TRANSIENT),
    )


def _messages_codec(endpoint: Endpoint, request: CallRequest) -> Codec:
    return anthropic_replies.EventReader(endpoint=endpoint, tools=ToolNames(request.tools))


ANTHROPIC = Vendor(
    adapter_type="anthropic",
    line="POST /v1/messages HTTP/1.1",
    stream_line="POST /v1/messages HTTP/1.1",
    key_header=("x-api-key", "{key}"),
    whole=_message([{"type": "text", "text": TEXT}], "end_turn"),
    stream=_message_stream(
        _event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(_event("content_block_delta", index=0, delta={"type": "text_delta", "text": each}) for each in PIECES),
        _event("content_block_stop", index=0),
        reason="end_turn",
    ),
    calls_whole=_message(
        [
            {"type": "tool_use", "id": call_id, "name": name, "input": orjson.loads(arguments)}
            for call_id, name, arguments in CALLS
        ],
        "tool_use",
    ),
    calls_stream=_message_stream(
        _tool_start(0, "call-1", "look_up"),
        _json_delta(0, ""),
        _json_delta(0, '{"city"'),
        _json_delta(0, ':"Ulm"}'),
        _event("content_block_stop", index=0),
        _tool_start(1, "call-2", "weigh"),
        _json_delta(1, ""),
        _event("content_block_stop", index=1),
        reason="tool_use",
    ),
    usage=Usage(1000, 340, cache_read=200, cache_write=30, reasoning=40),
    error_frame=_event("error", error={"type": "overloaded_error", "message": "Overloaded"}),
    error_kind=FailureKind.TRANSIENT,
    errors=_messages_errors(),
    models={"data": [{"type": "model", "id": "model-x"}, {"type": "model", "id": "model-y"}], "has_more": False},
    model_ids=("model-x", "model-y"),
    codec=_messages_codec,
)

# --- OpenAI responses -----------------------------------------------------------------------------------------------

_RESPONSES_USAGE = {
    "input_tokens": 1230,
    "input_tokens_details": {"cached_tokens": 200, "cache_write_tokens": 30},
    "output_tokens": 340,
    "output_tokens_details": {"reasoning_tokens": 40},
    "total_tokens": 1570,
}


def _response(*output: Any, status: str = "completed", **members: Any) -> Any:
    head = {"id": REPLY_ID, "object": "response", "created_at": 1, "status": status, "model": MODEL, "error": None}
    usage = {"usage": _RESPONSES_USAGE if status == "completed" else None}
    return {**head, "output": list(output), "service_tier": "default", **usage, **members}


def _said_item(text: str) -> Any:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg-1", "type": "message", "role": "assistant", "status": "completed", "content": content}


def _call_item(call_id: str, name: str, arguments: str) -> Any:
    return {"id": f"fc-{call_id}", "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def _response_stream(*middle: bytes, output: Any) -> tuple[bytes, ...]:
    return (
        _event("response.created", response=_response(status="in_progress")),
        _event("response.in_progress", response=_response(status="in_progress")),
        *middle,
        _event("response.completed", response=_response(*output)),
    )


def _responses_codec(endpoint: Endpoint, request: CallRequest) -> Codec:
    return openai_responses_replies.EventReader(endpoint=endpoint, tools=ToolNames(request.tools))


_CALL_ITEMS = [_call_item(*each) for each in CALLS]
_LOOK_UP, _WEIGH = _CALL_ITEMS
_ARGUMENTS = "response.function_call_arguments.delta"

RESPONSES = Vendor(
    adapter_type="openai_responses",
    line="POST /v1/responses HTTP/1.1",
    stream_line="POST /v1/responses HTTP/1.1",
    key_header=("authorization", "Bearer {key}"),
    whole=_response({"id": "rs-1", "type": "reasoning", "summary": []}, _said_item(TEXT)),
    stream=_response_stream(
        _event("response.output_item.added", output_index=0, item={**_said_item(""), "content": []}),
        _event("response.content_part.added", output_index=0, content_index=0, part={"type": "output_text"}),
        *(_event("response.output_text.delta", output_index=0, content_index=0, delta=each) for each in PIECES),
        _event("response.output_text.done", output_index=0, content_index=0, text=TEXT),
        _event("response.output_item.done", output_index=0, item=_said_item(TEXT)),
        output=[_said_item(TEXT)],
    ),
    calls_whole=_response(*_CALL_ITEMS),
    calls_stream=_response_stream(
        _event("response.output_item.added", output_index=0, item={**_LOOK_UP, "arguments": ""}),
        _event("response.output_item.added", output_index=1, item={**_WEIGH, "arguments": ""}),
        _event(_ARGUMENTS, output_index=0, delta='{"city"'),
        _event(_ARGUMENTS, output_index=1, delta="{}"),
        _event(_ARGUMENTS, output_index=0, delta=':"Ulm"}'),
        _event("response.output_item.done", output_index=0, item=_LOOK_UP),
        _event("response.output_item.done", output_index=1, item=_WEIGH),
        output=_CALL_ITEMS,
    ),
    usage=Usage(1000, 340, cache_read=200, cache_write=30, reasoning=40),
    error_frame=_event(
        "response.failed",
        response=_response(status="failed", error={"code": "insufficient_quota", "message": "no"}),
    ),
    error_kind=FailureKind.QUOTA_EXHAUSTED,
    errors=_chat_errors(),
    models=OPENAI.models,
    model_ids=OPENAI.model_ids,
    codec=_responses_codec,
    has_end_mark=False,
)

# --- Gemini ---------------------------------------------------------------------------------------------------------

_GEMINI_USAGE = {
    "promptTokenCount": 1200,
    "cachedContentTokenCount": 200,
    "candidatesTokenCount": 300,
    "thoughtsTokenCount": 40,
    "totalTokenCount": 1540,
}


def _generated(*parts: Any, finish: str | None = None, usage: Any = _GEMINI_USAGE) -> Any:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": REPLY_ID}


def _function_call(call_id: str, name: str, arguments: str) -> Any:
    return {"functionCall": {"id": call_id, "name": name, "args": orjson.loads(arguments)}}


def _gemini_errors() -> tuple[Refused, ...]:
    def error(code: int, status: str, message: str = "no", details: Any = ()) -> Any:
        return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}

    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    key = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
    return (
        Refused(
            name="rate",
            status=429,
            body=error(429, "RESOURCE_EXHAUSTED", details=[delay]),
            kind=FailureKind.RATE_LIMITED,
            retry_after=7,
        ),
        Refused(name="key", status=400, body=error(400, "INVALID_ARGUMENT", details=[key]), kind=FailureKind.AUTH),
        Refused(name="permission", status=403, body=error(403, "PERMISSION_DENIED"), kind=FailureKind.AUTH),
        Refused(name="model", status=404, body=error(404, "NOT_FOUND"), kind=FailureKind.NOT_FOUND),
        Refused(name="request", status=400, body=error(400, "INVALID_ARGUMENT"), kind=FailureKind.INVALID_REQUEST),
        Refused(
            name="long",
            status=400,
            body=error(400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed"),
            kind=FailureKind.CONTEXT_EXCEEDED,
        ),
        Refused(name="busy", status=503, body=error(503, "UNAVAILABLE"), kind=FailureKind.TRANSIENT),
        Refused(name="slow", status=504, body=error(504, "DEADLINE_EXCEEDED"), kind=FailureKind.TRANSIENT),
    )


def _gemini_codec(endpoint: Endpoint, request: CallRequest) -> Codec:
    return gemini_replies.EventReader(endpoint=endpoint, tools=ToolNames(request.tools))


_EARLY = {**_GEMINI_USAGE, "candidatesTokenCount": 2, "thoughtsTokenCount": 40}
_FIRST, _SECOND, _LAST = PIECES

GEMINI = Vendor(
    adapter_type="gemini",
    line="POST /v1/models/model-x:generateContent HTTP/1.1",
    stream_line="POST /v1/models/model-x:streamGenerateContent?alt=sse HTTP/1.1",
    key_header=("x-goog-api-key", "{key}"),
    whole=_generated({"text": TEXT}, finish="STOP"),
    stream=(
        sse(_generated({"text": _FIRST}, usage=_EARLY)),
        sse(_generated({"text": _SECOND}, usage=_EARLY)),
        sse(_generated({"text": _LAST}, finish="STOP")),
    ),
    calls_whole=_generated(*(_function_call(*each) for each in CALLS), finish="STOP"),
    calls_stream=(
        sse(_generated(_function_call(*CALLS[0]), usage=_EARLY)),
        sse(_generated(_function_call(*CALLS[1]), usage=_EARLY)),
        sse(_generated(finish="STOP")),
    ),
    usage=Usage(1000, 340, cache_read=200, reasoning=40),
    error_frame=sse({"error": {"code": 503, "message": "no", "status": "UNAVAILABLE"}}),
    error_kind=FailureKind.TRANSIENT,
    errors=_gemini_errors(),
    models={"models": [{"name": "models/model-x"}, {"name": "models/model-y"}]},
    model_ids=("model-x", "model-y"),
    codec=_gemini_codec,
    has_end_mark=False,
)

# --- Azure ----------------------------------------------------------------------------------------------------------

_FILTERED = sse({"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": []})
_BLOCKED = {"code": "content_filter", "innererror": {"code": "ResponsibleAIPolicyViolation"}, "message": "no"}

AZURE = replace(
    OPENAI,
    name="azure_openai",
    adapter_type="azure_openai",
    line="POST /v1/chat/completions HTTP/1.1",
    stream_line="POST /v1/chat/completions HTTP/1.1",
    key_header=("api-key", "{key}"),
    stream=(_FILTERED, *OPENAI.stream),
    errors=(
        Refused(
            name="rate",
            status=429,
            body={"error": {"code": "429", "message": "Requests have exceeded the token rate limit"}},
            headers={"retry-after-ms": "7000", "retry-after": "8"},
            kind=FailureKind.RATE_LIMITED,
            retry_after=7,
        ),
        Refused(name="key", status=401, body={"error": {"code": "401", "message": "no"}}, kind=FailureKind.AUTH),
        Refused(
            name="deployment",
            status=404,
            body={"error": {"code": "DeploymentNotFound", "message": "no"}},
            kind=FailureKind.NOT_FOUND,
        ),
        Refused(name="filter", status=400, body={"error": _BLOCKED}, kind=FailureKind.REFUSED),
    ),
)
_DEPLOYED = "POST /v1/openai/deployments/model-x/chat/completions?api-version=2025-04-01-preview HTTP/1.1"
AZURE_CLASSIC = replace(
    AZURE, name="azure_deployments", line=_DEPLOYED, stream_line=_DEPLOYED, api_version="2025-04-01-preview"
)

# --- Ollama ---------------------------------------------------------------------------------------------------------

_OLLAMA_HEAD = {"model": MODEL, "created_at": "2026-11-30T07:48:05.1Z"}
_OLLAMA_END = {
    "done": True,
    "done_reason": "stop",
    "total_duration": 4_883_583_458,
    "load_duration": 1_334_875,
    "prompt_eval_count": 1200,
    "prompt_eval_duration": 342_546_000,
    "eval_count": 340,
    "eval_duration": 4_535_599_000,
}


def _turn(content: str = "", *, done: bool = False, **message: Any) -> Any:
    end = _OLLAMA_END if done else {"done": False}
    return {**_OLLAMA_HEAD, "message": {"role": "assistant", "content": content, **message}, **end}


def _line(document: Any) -> bytes:
    return orjson.dumps(document) + b"\n"


def _ollama_call(index: int) -> Any:
    call_id, name, arguments = CALLS[index]
    return {"id": call_id, "function": {"index": index, "name": name, "arguments": orjson.loads(arguments)}}


def _ollama_codec(endpoint: Endpoint, request: CallRequest) -> Codec:
    return ollama_replies.LineCodec(endpoint=endpoint, tools=ToolNames(request.tools))


_OLLAMA_ERRORS = (
    Refused(
        name="busy",
        status=503,
        body={"error": "server busy, please try again.  maximum pending requests exceeded"},
        kind=FailureKind.TRANSIENT,
    ),
    Refused(
        name="model",
        status=404,
        body={"error": "model 'model-x' not found"},
        kind=FailureKind.NOT_FOUND,
    ),
    Refused(
        name="request",
        status=400,
        body={"error": "registry.ollama.ai/library/model-x:latest does not support tools"},
        kind=FailureKind.INVALID_REQUEST,
    ),
    Refused(
        name="long",
        status=400,
        body={"error": "the prompt exceeds the available context size: input length exceeds the context length"},
        kind=FailureKind.CONTEXT_EXCEEDED,
    ),
    Refused(
        name="runner",
        status=500,
        body={"error": "llama runner process has terminated: exit status 2"},
        kind=FailureKind.TRANSIENT,
    ),
    Refused(
        name="key",
        status=401,
        body={"error": "unauthorized", "signin_url": "https://ollama.example/connect"},
        kind=FailureKind.AUTH,
    ),
    Refused(
        name="rate",
        status=429,
        body={"error": "too many requests"},
        headers={"retry-after": "7"},
        kind=FailureKind.RATE_LIMITED,
        retry_after=7,
    ),
)

OLLAMA = Vendor(
    adapter_type="ollama",
    line="POST /api/chat HTTP/1.1",
    stream_line="POST /api/chat HTTP/1.1",
    key_header=("authorization", "Bearer {key}"),
    whole=_turn(TEXT, done=True),
    stream=(*(_line(_turn(each)) for each in PIECES), _line(_turn(done=True))),
    calls_whole=_turn(done=True, tool_calls=[_ollama_call(0), _ollama_call(1)]),
    calls_stream=(
        _line(_turn(tool_calls=[_ollama_call(0)])),
        _line(_turn(tool_calls=[_ollama_call(1)])),
        _line(_turn(done=True)),
    ),
    usage=Usage(1200, 340),
    error_frame=_line({"error": "an error was encountered while running the model: CUDA error"}),
    error_kind=FailureKind.TRANSIENT,
    errors=_OLLAMA_ERRORS,
    models={"models": [{"name": "model-x", "model": "model-x"}, {"name": "model-y:8b", "model": "model-y:8b"}]},
    model_ids=("model-x", "model-y:8b"),
    codec=_ollama_codec,
    has_end_mark=False,
    reply_id="",
    lists_at="GET /api/tags",
    accepts="application/x-ndjson",
    reader=LineReader,
    spellings=("plain", "crlf", "blank-lines", "unterminated"),
)

WIRES = (OPENAI, ANTHROPIC, RESPONSES, GEMINI, OLLAMA)
"""One vendor for each protocol."""

VENDORS = (*WIRES, AZURE, AZURE_CLASSIC)
