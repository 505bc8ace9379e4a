"""Answers on the wire of OpenAI's chat completions, spoken by many hosts: whole replies, stream chunks.

Callers of this protocol get them as they are; the events read from them are for pricing, telemetry and callers of
other protocols.

With several choices (``n``) the events of all of them come in the order of arrival: all of them are paid for.
"""

from collections.abc import Iterable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from routing.core.calls import (
    CallReply,
    Cited,
    Coverage,
    Event,
    Frame,
    Reasoning,
    Refusal,
    Started,
    Stopped,
    StopReason,
    Text,
    Usage,
    UsageReported,
)
from routing.core.conversation import Protocol
from routing.core.failures import CallFailed
from routing.core.money import NANOS, Money
from routing.providers.base import Endpoint
from routing.providers.dialects.documents import Counts, object_of, parse_json, text_of
from routing.providers.dialects.tools import NO_NAMES, CallReader, ToolNames
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


def read_reply(
    body: bytes,
    *,
    endpoint: Endpoint,
    tools: ToolNames = NO_NAMES,
    reports_cost: bool = False,
    protocol: Protocol = Protocol.OPENAI_CHAT,
) -> CallReply:
    """Read a whole reply of status 200.

    Args:
        body: the reply.
        endpoint: whose it is.
        tools: the tools offered, where their names had to be changed.
        reports_cost: whether the host is one whose ``usage.cost`` is what it charges.
        protocol: the vendor's legacy completions say a text where a chat says a message; all else is the same.

    Raises ``CallFailed`` for an error inside, or for anything else.
    """
    try:
        document = parse_json(body)
    except ValueError:
        raise unreadable("the answer is not JSON", endpoint=endpoint) from None
    if not isinstance(document, dict):
        raise unreadable("the answer is no JSON object", endpoint=endpoint)
    raise_for_error(document, endpoint)
    choices = document.get("choices")
    if not isinstance(choices, list) or not choices:
        raise unreadable("the answer has no choices", endpoint=endpoint)
    events: list[Event] = [_started(document)]
    for number, choice in enumerate(choices):
        if isinstance(choice, dict):
            _raise_for_choice(choice, endpoint)
        message = _said(choice, "message", protocol) if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            raise unreadable("a choice of the answer has no message", endpoint=endpoint)
        calls = _ToolCalls(tools)
        refused = _read_message(message, calls, events)
        events += calls.end()
        _stop(choice.get("finish_reason"), refused, number, events)
    events += read_sources(document, set())
    events += _metered(document, reports_cost=reports_cost)
    return CallReply(protocol, body, tuple(events))


class ChunkReader:
    """The codec of a streamed answer: one event in, one frame out. Keeps the state of one stream.

    The terminator ``[DONE]`` becomes a frame without events, so that forwarding is complete. Frames that carry
    nothing but usage are hidden if the caller did not ask for usage; all others pass untouched.
    """

    __slots__ = (
        "_calls",
        "_choices",
        "_cited",
        "_endpoint",
        "_hides_usage",
        "_is_started",
        "_protocol",
        "_refused",
        "_reports_cost",
        "_stopped",
        "_tools",
        "has_content",
        "is_done",
    )

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        hides_usage: bool,
        choices: int = 1,
        tools: ToolNames = NO_NAMES,
        reports_cost: bool = False,
        protocol: Protocol = Protocol.OPENAI_CHAT,
    ) -> None:
        self._protocol = protocol
        self._cited: set[str] = set()
        self._choices = choices
        self._endpoint = endpoint
        self._hides_usage = hides_usage
        self._reports_cost = reports_cost
        self._tools = tools
        self._is_started = False
        self._refused: set[int] = set()
        self._stopped: set[int] = set()
        self._calls: dict[int, _ToolCalls] = {}
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
            raise_for_error(chunk, self._endpoint)
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
        metered = _metered(chunk, reports_cost=self._reports_cost) if chunk.get("usage") is not None else []
        if choices is None and not metered and chunk.get("type") in ("keepalive", "keep_alive", "ping"):
            return None
        if not self._is_started and (chunk.get("id") or choices):
            self._is_started = True
            events.append(_started(chunk))
        if choices:
            self._read_choices(choices, events)
        events += read_sources(chunk, self._cited)
        events += metered
        return Frame(raw, tuple(events), hidden=self._hides_usage and not choices and bool(metered))

    def _read_choices(self, choices: object, events: list[Event]) -> None:
        if not isinstance(choices, list):
            raise unreadable("the choices of an event are no list", endpoint=self._endpoint)
        for choice in choices:
            if not isinstance(choice, dict):
                raise unreadable("a choice of an event is no JSON object", endpoint=self._endpoint)
            _raise_for_choice(choice, self._endpoint)
            delta = _said(choice, "delta", self._protocol)
            before = len(events)
            index = choice.get("index")
            number = index if type(index) is int else 0
            calls = self._calls.get(number)
            if isinstance(delta, dict) and delta:
                if calls is None:
                    calls = self._calls[number] = _ToolCalls(self._tools)
                if _read_message(delta, calls, events):
                    self._refused.add(number)
            self.has_content |= len(events) > before
            reason = choice.get("finish_reason")
            if reason is not None:
                self._stopped.add(number)
                if calls is not None:
                    events += calls.end()
                _stop(reason, number in self._refused, number, events)


def read_sources(document: Mapping[str, Any], cited: set[str]) -> list[Event]:
    """The pages that a host which searches by itself names beside its answer, in every piece of it: each once.

    Some name pages with titles, some by addresses alone, some both ways.
    """
    sources: list[Event] = []
    for member in ("search_results", "citations"):
        entries = document.get(member)
        for entry in entries if isinstance(entries, list) else []:
            url = entry if isinstance(entry, str) else text_of(object_of(entry).get("url"))
            if url and url not in cited:
                cited.add(url)
                sources.append(Cited(url, text_of(object_of(entry).get("title"))))
    return sources


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
    counts = Counts()
    total_prompt = counts.required(prompt)
    output = counts.required(completion)
    details = object_of(block.get("prompt_tokens_details"))
    read = counts.optional(details.get("cached_tokens", block.get("prompt_cache_hit_tokens")))
    write = counts.optional(details.get("cache_write_tokens"))
    reasoning = counts.optional(object_of(block.get("completion_tokens_details")).get("reasoning_tokens"))
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


def read_cost(block: object) -> Money | None:
    """What an aggregator says it charges, in US dollars; ``None`` if it does not say.

    Its ``cost`` holds what it pays upstream already, except where the caller's own upstream key was used: there it is
    the fee alone, and what upstream charges comes on top.
    """
    block = object_of(block)
    nanos = _nanos(block.get("cost"))
    if nanos is None:
        return None
    upstream = _nanos(object_of(block.get("cost_details")).get("upstream_inference_cost"))
    if block.get("is_byok") is True and upstream is not None and nanos < upstream:
        nanos += upstream
    return Money(nanos, "USD")


def _nanos(value: object) -> int | None:
    """An amount in dollars, written as a JSON number, in whole nano-units."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    amount = Decimal(str(value))
    if not amount.is_finite() or not 0 <= amount < NANOS:
        return None
    return int((amount * NANOS).to_integral_value(ROUND_HALF_UP))


def _metered(document: Mapping[str, Any], *, reports_cost: bool) -> list[Event]:
    block = document.get("usage")
    usage = read_usage(block)
    if usage is None:
        return []
    cost = read_cost(block) if reports_cost else None
    return [UsageReported(usage, cost, text_of(document.get("service_tier")))]


class _ToolCalls:
    """Tells the tool calls of one choice apart, and numbers them.

    By index as a rule. Hosts that give every call the index 0, or none, are told apart by the call's id; a fragment
    without either belongs to the call before it.
    """

    __slots__ = ("_by_id", "_by_index", "_calls", "_ids", "_last", "_unannounced")

    def __init__(self, names: ToolNames) -> None:
        self._calls = CallReader(names)
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._ids: dict[int, str] = {}
        self._last: int | None = None
        self._unannounced: set[int] = set()

    def read(self, entry: Mapping[str, Any], events: list[Event]) -> None:
        function = entry.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name, arguments = (
            text_of(each) for each in (entry.get("id"), function.get("name"), function.get("arguments"))
        )
        number = self._number(entry.get("index"), call_id)
        if number in self._unannounced and (name or arguments):
            self._unannounced.discard(number)
            events.append(self._calls.start(number, self._ids[number], name))
        if arguments:
            events += self._calls.more(number, arguments)

    def end(self) -> list[Event]:
        """The choice is complete."""
        return self._calls.end_all()

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


def _said(choice: Mapping[str, Any], member: str, protocol: Protocol) -> object:
    """What a choice says: a message or a piece of one, which a legacy completion is the text of."""
    if protocol is not Protocol.OPENAI_COMPLETIONS:
        return choice.get(member)
    text = choice.get("text")
    return {"content": text} if isinstance(text, str) else None


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
    annotations = message.get("annotations")
    if isinstance(annotations, list):
        events += cited_in(object_of(object_of(each).get("url_citation")) for each in annotations)
    refusal = message.get("refusal")
    if refusal and isinstance(refusal, str):
        events.append(Refusal(refusal))
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        for entry in calls:
            if isinstance(entry, dict):
                tools.read(entry, events)
    call = message.get("function_call")
    if isinstance(call, dict):
        tools.read({"index": 0, "function": call}, events)
    return bool(refusal)


def cited_in(citations: Iterable[Mapping[str, Any]]) -> list[Event]:
    """The pages that citations name by their address; those of files have none."""
    return [Cited(url, text_of(each.get("title"))) for each in citations if (url := text_of(each.get("url")))]


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
        events.append(Stopped(StopReason.REFUSAL, choice=choice))
    elif isinstance(reason, str):
        events.append(Stopped(STOP_REASONS.get(reason, StopReason.OTHER), choice=choice))


def _started(document: Mapping[str, Any]) -> Started:
    return Started(text_of(document.get("id")), text_of(document.get("model")))


def raise_for_error(document: Mapping[str, Any], endpoint: Endpoint) -> None:
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
