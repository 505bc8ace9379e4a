"""OpenAI's chat completions, as callers speak it: requests in, answers, errors and frames out.

A body is checked as far as this installation has to understand it; what it does not know is forwarded untouched.
"""

from collections.abc import Mapping
from typing import Any

import orjson

from governance.gateway.errors import Problem, RequestProblem
from governance.gateway.protocols.json_body import read_document
from routing.core.calls import (
    CallRequest,
    Frame,
    ImagePart,
    Message,
    OpaquePart,
    Original,
    Part,
    Protocol,
    Role,
    TextPart,
    Tool,
    ToolCall,
    UsageReported,
)
from routing.core.money import Money

_STEERING = ("api_base", "api_key", "base_url", "extra_headers")
_ROLES = {"function": Role.TOOL}  # the legacy spelling
_LONGEST_NAME = 1000  # more than any record has; a longer one would cost seconds to compare
_SHAPED = ("json_object", "json_schema")


def read_request(body: bytes) -> CallRequest:
    """The canonical call of a request body.

    Raises:
        RequestProblem: 400 naming the field and what it should be.
    """
    document, canonical = read_document(body)
    for field in _STEERING:
        if field in document:
            raise _invalid(field, "cannot be set by a caller: calls go where the configuration says")
    target = document.get("model")
    if not isinstance(target, str) or not target.strip():
        raise _invalid("model", "name a configuration")
    if len(target) > _LONGEST_NAME:
        raise _invalid("model", f"a name has at most {_LONGEST_NAME} characters")
    stream = _flag(document, "stream")
    options = document.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise _invalid("stream_options", "an object is needed")
    response_format = document.get("response_format")
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _invalid("messages", "a list with at least one message is needed")
    marks: list[bool] = []
    return CallRequest(
        target=target,
        messages=tuple(_message(each, f"messages[{index}]", marks) for index, each in enumerate(messages)),
        tools=_tools(document),
        stream=stream,
        wants_usage=options is not None and options.get("include_usage") is True,
        structured_output=isinstance(response_format, dict) and response_format.get("type") in _SHAPED,
        reasoning=document.get("reasoning_effort") not in (None, "none"),
        prompt_caching=bool(marks),
        max_output=_limit(document),
        choices=_choices(document),
        original=Original(Protocol.OPENAI_CHAT, body, document, canonical),
    )


def user_of(request: CallRequest) -> str:
    """The end user the caller names, for attribution; empty if none."""
    document: Mapping[str, Any] = {} if request.original is None else request.original.document
    for field in ("safety_identifier", "user"):
        value = document.get(field)
        if value and isinstance(value, str):
            return value
    return ""


def write_problem(problem: Problem) -> bytes:
    """The error envelope."""
    return orjson.dumps({"error": _error(problem)})


def write_problem_frame(problem: Problem) -> bytes:
    """An error inside a stream that has begun: a frame of its own, and no regular end after it."""
    return b"data: " + orjson.dumps({"error": _error(problem)}) + b"\n\n"


def write_frame(frame: Frame, *, call: str, cost: Money | None) -> bytes:
    """A frame for the caller: the provider's bytes. The usage frame says besides what the call cost."""
    if cost is None or not any(isinstance(event, UsageReported) for event in frame.events):
        return frame.raw
    prefix, _, data = frame.raw.partition(b"data:")
    try:
        chunk = orjson.loads(data.strip())
        chunk["signalbox"] = {"call": call, "cost": cost.amount, "currency": cost.currency}
        return prefix + b"data: " + orjson.dumps(chunk) + b"\n\n"
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return frame.raw  # several data lines, or numbers that are none: rare, and not worth taking apart


def write_refusal(message: str, *, call: str, model: str, created: int, stream: bool) -> bytes:
    """The answer of a model that declined by an error: the same refusal that others answer with.

    A whole completion, or all the frames of a stream.
    """
    head = {"id": f"chatcmpl-{call}", "created": created, "model": model}
    if not stream:
        said = {"role": "assistant", "content": None, "refusal": message}
        choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": "content_filter"}
        return orjson.dumps({**head, "object": "chat.completion", "choices": [choice]})
    deltas: list[tuple[dict[str, Any], str | None]] = [
        ({"role": "assistant", "content": None, "refusal": message}, None),
        ({}, "content_filter"),
    ]
    chunks = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason} for delta, reason in deltas]
    frames = [{**head, "object": "chat.completion.chunk", "choices": [chunk]} for chunk in chunks]
    return b"".join(b"data: " + each + b"\n\n" for each in (*map(orjson.dumps, frames), b"[DONE]"))


def write_models(names: Mapping[str, int]) -> bytes:
    """The list of names a caller may ask for, each with the second it was made in."""
    return orjson.dumps({"object": "list", "data": [_listed(name, created) for name, created in names.items()]})


def write_model(name: str, created: int) -> bytes:
    """One entry of that list."""
    return orjson.dumps(_listed(name, created))


def _listed(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "signalbox"}


def _error(problem: Problem) -> dict[str, Any]:
    return {
        "message": problem.message,
        "type": problem.kind,
        "param": problem.parameter or None,
        "code": problem.code or None,
    }


def _message(content: object, where: str, marks: list[bool]) -> Message:
    if not isinstance(content, dict):
        raise _invalid(where, "an object is needed")
    try:
        role = _ROLES.get(str(content.get("role"))) or Role(str(content.get("role")))
    except ValueError:
        raise _invalid(f"{where}.role", f"one of {', '.join(Role)} is needed") from None
    calls = content.get("tool_calls") or []
    if not isinstance(calls, list):
        raise _invalid(f"{where}.tool_calls", "a list is needed")
    answers = content.get("tool_call_id")
    return Message(
        role=role,
        parts=_parts(content.get("content"), f"{where}.content", marks),
        tool_calls=tuple(_tool_call(each, f"{where}.tool_calls[{index}]") for index, each in enumerate(calls)),
        answers_call=answers if isinstance(answers, str) else "",
    )


def _parts(content: object, where: str, marks: list[bool]) -> tuple[Part, ...]:
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    if not isinstance(content, list):
        raise _invalid(where, "a text or a list of parts is needed")
    return tuple(_part(each, f"{where}[{index}]", marks) for index, each in enumerate(content))


def _part(content: object, where: str, marks: list[bool]) -> Part:
    if not isinstance(content, dict):
        raise _invalid(where, "an object is needed")
    if content.get("cache_control") is not None:
        marks.append(True)
    kind = content.get("type")
    if kind in ("text", "refusal"):
        text = content.get(kind)
        if not isinstance(text, str):
            raise _invalid(f"{where}.{kind}", "a text is needed")
        return TextPart(text)
    if kind == "image_url":
        image = content.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        if not isinstance(url, str):
            raise _invalid(f"{where}.image_url", "an object with a url is needed")
        return ImagePart(url)
    if not isinstance(kind, str):
        raise _invalid(f"{where}.type", "a part names its type")
    return OpaquePart(kind)


def _tool_call(content: object, where: str) -> ToolCall:
    if not isinstance(content, dict):
        raise _invalid(where, "an object is needed")
    kind = "custom" if content.get("type") == "custom" else "function"
    function = content.get(kind)
    if not isinstance(function, dict):
        raise _invalid(f"{where}.{kind}", "an object is needed")
    arguments = function.get("arguments", function.get("input", ""))
    if not isinstance(arguments, str):
        raise _invalid(f"{where}.{kind}.arguments", "a text is needed")
    return ToolCall(call_id=str(content.get("id", "")), name=str(function.get("name", "")), arguments=arguments)


def _tools(document: Mapping[str, Any]) -> tuple[Tool, ...]:
    offered = document.get("tools") or document.get("functions") or []
    if not isinstance(offered, list):
        raise _invalid("tools", "a list is needed")
    tools = []
    for index, each in enumerate(offered):
        if not isinstance(each, dict):
            raise _invalid(f"tools[{index}]", "an object is needed")
        function = each.get("function", each)
        name = function.get("name", "") if isinstance(function, dict) else ""
        tools.append(Tool(name=str(name), schema_bytes=len(orjson.dumps(each))))
    return tuple(tools)


def _limit(document: Mapping[str, Any]) -> int | None:
    for field in ("max_completion_tokens", "max_tokens"):
        value = document.get(field)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise _invalid(field, "a whole number from 1 is needed")
        return value
    return None


def _choices(document: Mapping[str, Any]) -> int:
    """How many answers are asked for. What is no such number is the provider's to refuse."""
    number = document.get("n")
    return number if isinstance(number, int) and number >= 1 else 1


def _flag(document: Mapping[str, Any], field: str) -> bool:
    value = document.get(field)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _invalid(field, "true or false is needed")
    return value


def _invalid(field: str, message: str) -> RequestProblem:
    return RequestProblem(400, f"{field}: {message}", code="invalid_value", parameter=field)
