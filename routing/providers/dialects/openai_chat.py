"""The wire of OpenAI's chat completions, spoken by many hosts: request bytes, whole replies, stream chunks.

Requests that arrived in this protocol are forwarded as they are; only what has to differ is replaced, inside the
original bytes, so that providers' prompt caches keep hitting. Replies are forwarded as they are as well: the events
read from them are for pricing, telemetry and other protocols.

With several choices (``n``) the events of all of them come in the order of arrival: all of them are paid for.
"""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from routing.core.calls import (
    CallReply,
    CallRequest,
    Coverage,
    Event,
    Frame,
    Protocol,
    Reasoning,
    Started,
    Stopped,
    StopReason,
    Text,
    ToolArguments,
    ToolCallStarted,
    Usage,
    UsageReported,
)
from routing.core.failures import CallFailed, Failure, FailureKind
from routing.providers.base import Endpoint
from routing.providers.dialects.splicing import members_of, splice
from routing.providers.errors import ProviderFailed, classify_error_object, cut_off, unreadable
from routing.providers.sse import ServerEvent

DONE = b"[DONE]"
STOP_REASONS: Mapping[str, StopReason] = {
    "stop": StopReason.END,
    "eos": StopReason.END,
    "length": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.REFUSAL,
    "refusal": StopReason.REFUSAL,
}

_ASKED = b'{"include_usage":true}'


# --- Requests -------------------------------------------------------------------------------------------------------


def request_body(request: CallRequest, *, model_id: str, stream: bool, ask_for_usage: bool = True) -> bytes:
    """The bytes to send for a request.

    Args:
        request: the call; it must have arrived in this protocol.
        model_id: the id the provider knows the model by.
        stream: whether the answer is streamed; must be what the request says.
        ask_for_usage: whether the host is asked for usage in a stream when the caller did not ask.

    Raises ``CallFailed`` (unsupported) for a request of another protocol.
    """
    original = request.original
    if original is None or original.protocol is not Protocol.OPENAI_CHAT:
        raise CallFailed(_cannot_carry(request))
    if stream is not request.stream:
        raise ValueError("the request says otherwise about streaming")
    asks = stream and ask_for_usage and not request.wants_usage
    if original.canonical:
        document = {**original.document, "model": model_id}
        if asks:
            options = document.get("stream_options")
            document["stream_options"] = (
                {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}
            )
        return orjson.dumps(document)
    members = {"model": orjson.dumps(model_id)}
    if asks:
        members["stream_options"] = _options_with_usage(original.body)
    return splice(original.body, members)


def _options_with_usage(body: bytes) -> bytes:
    spans = [(begin, end) for key, begin, end in members_of(body) if key == "stream_options"]
    if not spans:
        return _ASKED
    begin, end = spans[-1]
    options = body[begin:end]
    return splice(options, {"include_usage": b"true"}) if options.startswith(b"{") else _ASKED


def _cannot_carry(request: CallRequest) -> Failure:
    came_in = "no protocol" if request.original is None else request.original.protocol.value
    fields = ["messages"]
    fields += ["tools"] if request.tools else []
    fields += ["response_format"] if request.structured_output else []
    fields += ["reasoning"] if request.reasoning else []
    return Failure(
        FailureKind.UNSUPPORTED,
        f"A request that came in by {came_in} cannot be written as OpenAI chat completions; "
        f"not carried: {', '.join(fields)}",
        code="unsupported_conversion",
        parameter=fields[0],
    )


# --- Replies --------------------------------------------------------------------------------------------------------


def read_reply(body: bytes, *, endpoint: Endpoint) -> CallReply:
    """Read a whole reply of status 200. Raises ``CallFailed`` for an error inside, or for anything else."""
    try:
        document = parse_json(body)
    except ValueError:
        raise unreadable("the answer is not JSON", endpoint=endpoint) from None
    if not isinstance(document, dict):
        raise unreadable("the answer is no JSON object", endpoint=endpoint)
    _raise_for_error(document, endpoint)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices:
        raise unreadable("the answer has no choices", endpoint=endpoint)
    events: list[Event] = [_started(document)]
    for number, choice in enumerate(choices):
        if isinstance(choice, dict):
            _raise_for_choice(choice, endpoint)
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise unreadable("a choice of the answer has no message", endpoint=endpoint)
        tools = _ToolCalls()
        refused = _read_message(message, tools, events)
        _stop(choice.get("finish_reason"), refused, number, events)
    usage = read_usage(document.get("usage"))
    if usage is not None:
        events.append(UsageReported(usage))
    return CallReply(Protocol.OPENAI_CHAT, body, tuple(events))


class ChunkReader:
    """The codec of a streamed answer: one event in, one frame out. Keeps the state of one stream.

    The terminator ``[DONE]`` becomes a frame without events, so that forwarding is complete. Frames that carry
    nothing but usage are hidden if the caller did not ask for usage; all others pass untouched.
    """

    __slots__ = (
        "_choices",
        "_endpoint",
        "_hides_usage",
        "_is_started",
        "_refused",
        "_stopped",
        "_tools",
        "has_content",
        "is_done",
    )

    def __init__(self, *, endpoint: Endpoint, hides_usage: bool, choices: int = 1) -> None:
        self._choices = choices
        self._endpoint = endpoint
        self._hides_usage = hides_usage
        self._is_started = False
        self._refused: set[int] = set()
        self._stopped: set[int] = set()
        self._tools: dict[int, _ToolCalls] = {}
        self.has_content = False
        self.is_done = False

    def read(self, event: ServerEvent) -> Frame | None:
        """The frame an event is; ``None`` for keep-alives. Raises ``CallFailed``."""
        try:
            chunk = parse_json(event.data)
        except ValueError:
            return self._no_json(event)
        if not isinstance(chunk, dict):
            raise unreadable("an event of the answer is no JSON object", endpoint=self._endpoint)
        if "error" in chunk or event.name == "error" or chunk.get("object") == "error":
            _raise_for_error(chunk, self._endpoint)
            if event.name == "error":
                raise _failed(chunk, self._endpoint)
        return self._frame(chunk, event.raw)

    def fault_at_end(self) -> CallFailed | None:
        """A stream may end without ``[DONE]`` if the model said of every choice why it stopped."""
        if len(self._stopped) >= self._choices:
            return None
        return cut_off("the answer ended before the model stopped", endpoint=self._endpoint)

    def _no_json(self, event: ServerEvent) -> Frame | None:
        """What an event is that holds no JSON: the terminator, a keep-alive, or a fault."""
        data = event.data.strip()
        if data == DONE:
            if not (self.has_content or self._stopped):
                raise unreadable("the answer ended without any content", endpoint=self._endpoint)
            self.is_done = True
            return Frame(event.raw)
        if not data or data.startswith(b":"):
            return None
        if not event.is_terminated:
            raise cut_off("the connection was closed within an event", endpoint=self._endpoint)
        raise unreadable("an event of the answer is not JSON", endpoint=self._endpoint)

    def _frame(self, chunk: dict[str, Any], raw: bytes) -> Frame | None:
        events: list[Event] = []
        choices = chunk.get("choices")
        block = chunk.get("usage")
        usage = None if block is None else read_usage(block)
        if choices is None and usage is None and chunk.get("type") in ("keepalive", "keep_alive", "ping"):
            return None
        if not self._is_started and ("id" in chunk or choices):
            self._is_started = True
            events.append(_started(chunk))
        if choices:
            self._read_choices(choices, events)
        if usage is not None:
            events.append(UsageReported(usage))
        return Frame(raw, tuple(events), hidden=self._hides_usage and not choices and usage is not None)

    def _read_choices(self, choices: object, events: list[Event]) -> None:
        if not isinstance(choices, list):
            raise unreadable("the choices of an event are no list", endpoint=self._endpoint)
        for choice in choices:
            if not isinstance(choice, dict):
                raise unreadable("a choice of an event is no JSON object", endpoint=self._endpoint)
            _raise_for_choice(choice, self._endpoint)
            delta = choice.get("delta")
            before = len(events)
            index = choice.get("index")
            number = index if type(index) is int else 0
            if isinstance(delta, dict) and delta:
                tools = self._tools.get(number)
                if tools is None:
                    tools = self._tools[number] = _ToolCalls()
                if _read_message(delta, tools, events):
                    self._refused.add(number)
            self.has_content |= len(events) > before
            reason = choice.get("finish_reason")
            if reason is not None:
                self._stopped.add(number)
                _stop(reason, number in self._refused, number, events)


def read_usage(block: object) -> Usage | None:
    """The normalised usage of a ``usage`` member; ``None`` if it reports nothing.

    The prompt's count includes what was read from and written to caches. Reasoning is part of the completion,
    except at hosts whose total shows that they count it outside. What is no count becomes 0, and the coverage partial;
    whether counts can be true is looked at where the usage is used.
    """
    if not isinstance(block, dict):
        return None
    prompt, completion = block.get("prompt_tokens"), block.get("completion_tokens")
    if prompt is None and completion is None and block.get("total_tokens") is None:
        return None
    counts = _Counts()
    total_prompt = counts.required(prompt)
    output = counts.required(completion)
    details = block.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    read = counts.optional(details.get("cached_tokens", block.get("prompt_cache_hit_tokens")))
    write = counts.optional(details.get("cache_write_tokens"))
    details = block.get("completion_tokens_details")
    reasoning = counts.optional(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    if reasoning and block.get("total_tokens") == total_prompt + output + reasoning:
        output += reasoning
    if read + write > total_prompt or reasoning > output:
        counts.are_whole = False
        read = min(read, total_prompt)
        write = min(write, total_prompt - read)
        reasoning = min(reasoning, output)
    return Usage(
        input=total_prompt - read - write,
        output=output,
        cache_read=read,
        cache_write=write,
        reasoning=reasoning,
        coverage=Coverage.EXACT if counts.are_whole else Coverage.PARTIAL,
    )


def parse_json(data: bytes) -> Any:
    """Parse JSON as hosts write it. Raises ``ValueError``.

    What the fast parser refuses is tried with the tolerant one: hosts send NaN in log probabilities, and halves of
    surrogate pairs where a token ends inside a character (which become U+FFFD).
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return _without_surrogates(json.loads(data))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return value


class _Counts:
    """Reads token counts and remembers whether all of them were credible."""

    __slots__ = ("are_whole",)

    def __init__(self) -> None:
        self.are_whole = True

    def required(self, value: object) -> int:
        if type(value) is int and value >= 0:
            return value
        if isinstance(value, float) and value.is_integer() and value >= 0:
            return int(value)
        self.are_whole = False
        return 0

    def optional(self, value: object) -> int:
        return 0 if value is None else self.required(value)


class _ToolCalls:
    """Tells the tool calls of one choice apart, and numbers them.

    By index as a rule. Hosts that give every call the index 0, or none, are told apart by the call's id; a fragment
    without either belongs to the call before it.
    """

    __slots__ = ("_by_id", "_by_index", "_ids", "_last", "_unannounced")

    def __init__(self) -> None:
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._last: int | None = None
        self._unannounced: set[int] = set()

    def read(self, entry: Mapping[str, Any], events: list[Event]) -> None:
        function = entry.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name, arguments = (
            _text(each) for each in (entry.get("id"), function.get("name"), function.get("arguments"))
        )
        number = self._number(entry.get("index"), call_id)
        if number in self._unannounced and (name or arguments):
            self._unannounced.discard(number)
            events.append(ToolCallStarted(number, self._ids[number], name))
        if arguments:
            events.append(ToolArguments(number, arguments))

    def _number(self, index: object, call_id: str) -> int:
        number = self._by_index.get(index) if type(index) is int else self._last
        if call_id:
            number = self._by_id.get(call_id, number if number is not None and not self._ids[number] else None)
        if number is None:
            number = index if type(index) is int and index not in self._ids else len(self._ids)
            while number in self._ids:
                number += 1
            self._ids[number] = ""
            self._unannounced.add(number)
        if call_id and not self._ids[number]:
            self._ids[number] = call_id
            self._by_id[call_id] = number
        if type(index) is int:
            self._by_index[index] = number
        self._last = number
        return number


def _read_message(message: Mapping[str, Any], tools: _ToolCalls, events: list[Event]) -> bool:
    """Append the events of a message or a delta; true if the model declines in it."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning and isinstance(reasoning, str):
        events.append(Reasoning(reasoning))
    content = message.get("content")
    if content:
        if isinstance(content, str):
            events.append(Text(content))
        elif isinstance(content, list):
            _read_parts(content, events)
    refusal = message.get("refusal")
    if refusal and isinstance(refusal, str):
        events.append(Text(refusal))
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        for entry in calls:
            if isinstance(entry, dict):
                tools.read(entry, events)
    call = message.get("function_call")
    if isinstance(call, dict):
        tools.read({"index": 0, "function": call}, events)
    return bool(refusal)


def _read_parts(parts: list[Any], events: list[Event]) -> None:
    """Content as a list of typed parts, as some hosts write it: text, and thinking that holds texts."""
    for part in parts:
        if not isinstance(part, dict):
            continue
        if part.get("type") == "thinking" and isinstance(part.get("thinking"), list):
            events += [
                Reasoning(each["text"])
                for each in part["thinking"]
                if isinstance(each, dict) and isinstance(each.get("text"), str)
            ]
        elif isinstance(part.get("text"), str):
            events.append(Text(part["text"]))


def _stop(reason: object, refused: bool, choice: int, events: list[Event]) -> None:
    if refused:
        events.append(Stopped(StopReason.REFUSAL, choice))
    elif isinstance(reason, str):
        events.append(Stopped(STOP_REASONS.get(reason, StopReason.OTHER), choice))


def _started(document: Mapping[str, Any]) -> Started:
    return Started(_text(document.get("id")), _text(document.get("model")))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _raise_for_error(document: Mapping[str, Any], endpoint: Endpoint) -> None:
    """Raise for an error inside an answer of status 200: at the top, or as the whole document."""
    error = document.get("error")
    if error:
        raise _failed(error, endpoint)
    if document.get("object") == "error":
        raise _failed(document, endpoint)


def _raise_for_choice(choice: Mapping[str, Any], endpoint: Endpoint) -> None:
    """Raise for an error inside one choice."""
    if choice.get("error"):
        raise _failed(choice["error"], endpoint)
    if choice.get("finish_reason") == "error":
        raise _failed(None, endpoint)


def _failed(error: object, endpoint: Endpoint) -> ProviderFailed:
    return ProviderFailed(classify_error_object(error, endpoint=endpoint), provider=endpoint.provider)
