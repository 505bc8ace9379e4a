"""Requests on the wire of OpenAI's responses: those that arrived in it as they are, all others written from the
canonical call. Nothing is kept at the vendor for callers who could not ask for it."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallRequest
from routing.core.conversation import (
    FilePart,
    ImagePart,
    Message,
    OutputFormat,
    Part,
    Protocol,
    ReasoningPart,
    Role,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolMode,
)
from routing.core.features import Feature
from routing.providers.base import Carries
from routing.providers.dialects.carrying import refuse_foreign_seals, refuse_uncarried
from routing.providers.dialects.efforts import effort_of
from routing.providers.dialects.splicing import with_members
from routing.providers.dialects.tools import flat_name, schema_of

INTO = "OpenAI's responses"

CARRIES: Carries = MappingProxyType(
    {
        Feature.INSTRUCTIONS: "messages of their role",
        Feature.LATER_INSTRUCTIONS: "messages of their role",
        Feature.IMAGE_DATA: "`input_image`",
        Feature.IMAGE_LINK: "`input_image`",
        Feature.IMAGE_DETAIL: "`input_image.detail`",
        Feature.FILE_DATA: "`input_file.file_data`",
        Feature.FILE_LINK: "`input_file.file_url`",
        Feature.TOOLS: "`tools` of the type `function`",
        Feature.STRICT_TOOLS: "`strict`",
        Feature.CUSTOM_TOOLS: "`tools` of the type `custom`",
        Feature.GRAMMAR: "`format` of the tool",
        Feature.NAMESPACED_TOOLS: "one flat name, turned back in the answer",
        Feature.TOOL_RESULT_FAILED: "the result is told behind the words “The tool failed:”",
        Feature.TOOL_RESULT_PARTS: "a list of parts as the `output`",
        Feature.CHOICE_NONE: "`tool_choice`",
        Feature.CHOICE_REQUIRED: "`tool_choice`",
        Feature.CHOICE_NAMED: "`tool_choice`",
        Feature.PARALLEL_CALLS: "`parallel_tool_calls`",
        Feature.JSON_OBJECT: "`text.format` of the type `json_object`",
        Feature.JSON_SCHEMA: "`text.format` of the type `json_schema`",
        Feature.REASONING: "not sent: how much the model reasons is left to it",
        Feature.REASONING_EFFORT: "`reasoning.effort`",
        Feature.REASONING_BUDGET: "`reasoning.effort`: `low` up to 4096 tokens, `medium` up to 16384, else `high`",
        Feature.REASONING_OFF: "`reasoning.effort` of `none`",
        Feature.REASONING_TEXTS: "not sent: nobody sealed it, so the vendor does not take it back",
        Feature.SEALED_REASONING: "`reasoning` items that this vendor sealed; any other is refused",
        Feature.MAX_OUTPUT: "`max_output_tokens`",
        Feature.TEMPERATURE: "`temperature`",
        Feature.TOP_P: "`top_p`",
        Feature.VERBOSITY: "`text.verbosity`",
        Feature.USER: "`safety_identifier`; as a digest where it is longer than 128 characters",
        Feature.METADATA: "`metadata`",
        Feature.SERVICE_TIER: "`service_tier`; `standard_only` becomes `default`",
        Feature.CACHE_MARKS: "not sent: caches work by themselves there",
        Feature.CACHE_KEY: "`prompt_cache_key`",
        Feature.STREAM_USAGE: "always reported",
        Feature.PROMPT: "one message of the user",
    }
)

_TIERS = {"standard_only": "default"}
_FAILED = "The tool failed:\n"

LONGEST_IDENTIFIER = 128

Items = list[dict[str, Any]]


def request_body(request: CallRequest, *, model_id: str) -> bytes:
    """The bytes to send for a request. Raises ``NotCarried`` for what the protocol has no place for."""
    original = request.original
    if original is not None and original.protocol is Protocol.OPENAI_RESPONSES:
        refuse_foreign_seals(request, protocol=Protocol.OPENAI_RESPONSES, into=INTO)
        return with_members(original, {"model": model_id})
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.OPENAI_RESPONSES, into=INTO)
    return orjson.dumps(_document(request, model_id))


def _document(request: CallRequest, model_id: str) -> dict[str, Any]:
    customs = {call.call_id for each in request.messages for call in each.tool_calls if call.kind is ToolKind.CUSTOM}
    effort = None if request.reasoning is None else effort_of(request.reasoning)
    values: dict[str, Any] = {
        "model": model_id,
        "input": [item for each in request.messages for item in _items(each, customs)],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [_tool(each) for each in request.tools] or None,
        "tool_choice": _choice(request.tool_choice, request.tools) if request.tools else None,
        "parallel_tool_calls": request.parallel_calls if request.tools else None,
        "text": _text(request) or None,
        "reasoning": None if effort is None else {"effort": effort.value},
        "max_output_tokens": request.max_output,
        "temperature": request.sampling.temperature,
        "top_p": request.sampling.top_p,
        "safety_identifier": _identifier(request.user) or None,
        "metadata": dict(request.metadata) or None,
        "service_tier": _TIERS.get(request.service_tier, request.service_tier) or None,
        "prompt_cache_key": request.cache_key or None,
        "stream": request.stream or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _identifier(user: str) -> str:
    """The end user, within the vendor's limit."""
    return user if len(user) <= LONGEST_IDENTIFIER else sha256(user.encode("utf-8", "surrogatepass")).hexdigest()


def _text(request: CallRequest) -> dict[str, Any]:
    text: dict[str, Any] = {}
    if request.structured_output is not None:
        text["format"] = _shape(request.structured_output)
    if request.verbosity:
        text["verbosity"] = request.verbosity
    return text


def _shape(shape: OutputFormat) -> dict[str, Any]:
    if shape.schema is None:
        return {"type": "json_object"}
    written: dict[str, Any] = {"type": "json_schema", "name": shape.name or "answer", "schema": shape.schema}
    if shape.description:
        written["description"] = shape.description
    if shape.strict is not None:
        written["strict"] = shape.strict
    return written


def _items(message: Message, customs: set[str]) -> Items:
    if message.role is Role.TOOL:
        return [_result(message, is_custom=message.answers_call in customs)]
    sealed = [_reasoning(part) for part in message.parts if isinstance(part, ReasoningPart) and part.issuer is not None]
    said = _content(message.parts, text="output_text" if message.role is Role.ASSISTANT else "input_text")
    spoken: Items = [{"type": "message", "role": message.role.value, "content": said}] if said else []
    return [*sealed, *spoken, *map(_call, message.tool_calls)]


def _reasoning(part: ReasoningPart) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": part.text}] if part.text else []
    item: dict[str, Any] = {"type": "reasoning", "summary": summary, "encrypted_content": part.signature}
    if part.item:
        item["id"] = part.item
    return item


def _call(call: ToolCall) -> dict[str, Any]:
    name = flat_name(call.name, call.namespace)
    if call.kind is ToolKind.CUSTOM:
        return {"type": "custom_tool_call", "call_id": call.call_id, "name": name, "input": call.arguments}
    return {"type": "function_call", "call_id": call.call_id, "name": name, "arguments": call.arguments or "{}"}


def _result(message: Message, *, is_custom: bool) -> dict[str, Any]:
    parts = message.parts
    if message.has_failed:
        parts = (TextPart(_FAILED), *parts)
    output: Any = _content(parts, text="input_text")
    if all(isinstance(part, TextPart) for part in parts):
        output = (
            "".join(each["text"] for each in output)
            if message.has_failed
            else "\n".join(each["text"] for each in output)
        )
    kind = "custom_tool_call_output" if is_custom else "function_call_output"
    return {"type": kind, "call_id": message.answers_call, "output": output}


def _content(parts: Iterable[Part], *, text: str) -> Items:
    written: Items = []
    for part in parts:
        match part:
            case TextPart(text=words) if words:
                written.append({"type": text, "text": words})
            case ImagePart(url=url, detail=detail):
                written.append({"type": "input_image", "image_url": url, "detail": detail or "auto"})
            case FilePart(url=url, name=name):
                place = "file_data" if url.startswith("data:") else "file_url"
                written.append({"type": "input_file", place: url, **({"filename": name} if name else {})})
    return written


def _tool(tool: Tool) -> dict[str, Any]:
    name = flat_name(tool.name, tool.namespace)
    described = {"description": tool.description} if tool.description else {}
    if tool.kind is ToolKind.CUSTOM:
        grammar = {} if tool.grammar is None else {"format": _grammar(tool.grammar)}
        return {"type": "custom", "name": name, **described, **grammar}
    strict = bool(tool.strict)  # unsaid would mean true there
    return {"type": "function", "name": name, **described, "parameters": schema_of(tool), "strict": strict}


def _grammar(grammar: Mapping[str, Any]) -> dict[str, Any]:
    rules = grammar.get("grammar")  # chat completions write it one level deeper
    return {"type": "grammar", **(rules if isinstance(rules, dict) else grammar)}


def _choice(choice: ToolChoice | None, tools: Iterable[Tool]) -> str | dict[str, Any] | None:
    if choice is None:
        return None
    if choice.mode is not ToolMode.NAMED:
        return choice.mode.value
    is_custom = any(each.kind is ToolKind.CUSTOM and each.name == choice.name for each in tools)
    return {"type": "custom" if is_custom else "function", "name": flat_name(choice.name, choice.namespace)}
