"""Requests on the wire of OpenAI's chat completions: those that arrived in it as they are, all others written from the
canonical call.

Many hosts speak this dialect and each has its own idea of the rest, which is what :class:`Differences` says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallRequest, Original
from routing.core.conversation import (
    INSTRUCTING,
    FilePart,
    ImagePart,
    Message,
    OutputFormat,
    Part,
    Protocol,
    Role,
    TextPart,
    Tool,
    ToolChoice,
    ToolMode,
)
from routing.core.features import Feature, features_of
from routing.providers.base import Carries
from routing.providers.dialects.carrying import not_carried, refusal, refuse_foreign_seals, refuse_uncarried
from routing.providers.dialects.efforts import effort_of
from routing.providers.dialects.splicing import members_of, renamed_members, splice, with_members
from routing.providers.dialects.tools import arguments_of, description_of, flat_name, schema_of

INTO = "OpenAI's chat completions"

CARRIES: Carries = MappingProxyType(
    {
        Feature.INSTRUCTIONS: "messages of the role `system`, developer messages too",
        Feature.LATER_INSTRUCTIONS: "messages of the role `system`, developer messages too",
        Feature.PARTICIPANT_NAMES: "`name`",
        Feature.IMAGE_DATA: "`image_url`",
        Feature.IMAGE_LINK: "`image_url`",
        Feature.IMAGE_DETAIL: "`image_url.detail`",
        Feature.FILE_DATA: "`file.file_data`",
        Feature.TOOLS: "`tools`",
        Feature.STRICT_TOOLS: "`function.strict`",
        Feature.CUSTOM_TOOLS: "a function that takes an object with one text, turned back in the answer",
        Feature.GRAMMAR: "told in the tool's description",
        Feature.NAMESPACED_TOOLS: "one flat name, turned back in the answer",
        Feature.TOOL_RESULT_FAILED: "the result is told behind the words “The tool failed:”",
        Feature.TOOL_RESULT_PARTS: "texts in the tool's message, images and files in a user's message after it",
        Feature.CHOICE_NONE: "`tool_choice`",
        Feature.CHOICE_REQUIRED: "`tool_choice`",
        Feature.CHOICE_NAMED: "`tool_choice`",
        Feature.PARALLEL_CALLS: "`parallel_tool_calls`",
        Feature.JSON_OBJECT: "`response_format` of the type `json_object`",
        Feature.JSON_SCHEMA: "`response_format` of the type `json_schema`",
        Feature.REASONING: "not sent: how much the model reasons is left to it",
        Feature.REASONING_EFFORT: "`reasoning_effort`",
        Feature.REASONING_BUDGET: "`reasoning_effort`: `low` up to 4096 tokens, `medium` up to 16384, else `high`",
        Feature.REASONING_OFF: "`reasoning_effort` of `none`",
        Feature.REASONING_TEXTS: "not sent: hosts of this protocol take no reasoning back",
        Feature.MAX_OUTPUT: "`max_completion_tokens`, or `max_tokens` where the host knows no other",
        Feature.TEMPERATURE: "`temperature`",
        Feature.TOP_P: "`top_p`",
        Feature.PRESENCE_PENALTY: "`presence_penalty`",
        Feature.FREQUENCY_PENALTY: "`frequency_penalty`",
        Feature.SEED: "`seed`",
        Feature.STOP: "`stop`",
        Feature.CHOICES: "`n`",
        Feature.VERBOSITY: "`verbosity`",
        Feature.USER: "`user`",
        Feature.METADATA: "`metadata`",
        Feature.SERVICE_TIER: "`service_tier`; `standard_only` becomes `default`",
        Feature.CACHE_MARKS: "not sent: caches work by themselves there",
        Feature.CACHE_KEY: "`prompt_cache_key`",
        Feature.STREAM_USAGE: "always asked for",
        Feature.PROMPT: "one message of the user",
    }
)

_ASKED = b'{"include_usage":true}'
_TIERS = {"standard_only": "default"}
_FAILED = "The tool failed:\n"


@dataclass(frozen=True, slots=True)
class Differences:
    """How a host differs from OpenAI itself.

    Attributes:
        asks_for_usage: whether usage has to be asked for in streams; false for hosts that refuse ``stream_options``
            and report usage anyway.
        limit: the field that limits the answer.
        renamed: fields that have another name there, forwarded requests included.
        lacks: features the host refuses, or worse, ignores.
        refuses: the same of fields that only this protocol has, unless they ask for nothing.
    """

    asks_for_usage: bool = True
    limit: str = "max_completion_tokens"
    renamed: Mapping[str, str] = field(default_factory=dict)
    lacks: frozenset[Feature] = frozenset()
    refuses: frozenset[str] = frozenset()


OPENAI_ITSELF = Differences()


def request_body(
    request: CallRequest, *, model_id: str, stream: bool, differences: Differences = OPENAI_ITSELF
) -> bytes:
    """The bytes to send for a request.

    Args:
        request: the call.
        model_id: the id the provider knows the model by.
        stream: whether the answer is streamed; must be what the request says.
        differences: the host's own ways.

    Raises ``NotCarried`` for what the protocol has no place for.
    """
    if stream is not request.stream:
        raise ValueError("the request says otherwise about streaming")
    if differences.lacks:
        missing = features_of(request) & differences.lacks
        if missing:
            raise not_carried(request, min(missing), into="this host")
    original = request.original
    if original is not None and original.protocol is Protocol.OPENAI_CHAT:
        refused = [name for name in differences.refuses if original.document.get(name)]
        if refused:
            raise refusal(min(refused), into="this host")
        refuse_foreign_seals(request, protocol=Protocol.OPENAI_CHAT, into=INTO)
        asks = stream and differences.asks_for_usage and not request.wants_usage
        return forwarded(original, model_id, asks=asks, renamed=differences.renamed)
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.OPENAI_CHAT, into=INTO)
    document = _document(request, model_id, differences)
    return orjson.dumps(renamed_members(document, differences.renamed))


# --- As it arrived --------------------------------------------------------------------------------------------------


def forwarded(original: Original, model_id: str, *, asks: bool, renamed: Mapping[str, str]) -> bytes:
    """A request as it arrived, but for the model, for usage where ``asks`` says so, and for the host's own names."""
    if any(name in original.document for name in renamed):
        document = renamed_members({**original.document, "model": model_id}, renamed)
        return orjson.dumps({**document, "stream_options": _with_usage(document)} if asks else document)
    if original.body is None:
        options = {"stream_options": _with_usage(original.document)} if asks else {}
        return with_members(original, {"model": model_id, **options})
    members = {"model": orjson.dumps(model_id)}
    if asks:
        members["stream_options"] = _options_with_usage(original.body)
    return splice(original.body, members)


def _with_usage(document: Mapping[str, Any]) -> dict[str, Any]:
    options = document.get("stream_options")
    return {**options, "include_usage": True} if isinstance(options, dict) else {"include_usage": True}


def _options_with_usage(body: bytes) -> bytes:
    spans = [(begin, end) for key, begin, end in members_of(body) if key == "stream_options"]
    if not spans:
        return _ASKED
    begin, end = spans[-1]
    options = body[begin:end]
    return splice(options, {"include_usage": b"true"}) if options.startswith(b"{") else _ASKED


# --- Written anew ---------------------------------------------------------------------------------------------------


def _document(request: CallRequest, model_id: str, differences: Differences) -> dict[str, Any]:
    sampling = request.sampling
    wants_usage = request.stream and (differences.asks_for_usage or request.wants_usage)
    values: dict[str, Any] = {
        "model": model_id,
        "messages": [written for each in request.messages for written in _message(each)],
        "tools": [_tool(each) for each in request.tools] or None,
        "tool_choice": _choice(request.tool_choice) if request.tools else None,
        "parallel_tool_calls": request.parallel_calls if request.tools else None,
        "response_format": _shape(request.structured_output),
        "reasoning_effort": None if request.reasoning is None else effort_of(request.reasoning),
        differences.limit: request.max_output,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "seed": sampling.seed,
        "stop": list(request.stop) or None,
        "n": request.choices if request.choices > 1 else None,
        "verbosity": request.verbosity or None,
        "user": request.user or None,
        "metadata": dict(request.metadata) or None,
        "service_tier": _TIERS.get(request.service_tier, request.service_tier) or None,
        "prompt_cache_key": request.cache_key or None,
        "stream": request.stream or None,
        "stream_options": {"include_usage": True} if wants_usage else None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _message(message: Message) -> list[dict[str, Any]]:
    """A message, and for what a tool's message cannot hold, another one after it."""
    if message.role is Role.TOOL:
        return _result(message)
    role = "system" if message.role in INSTRUCTING else message.role.value
    written: dict[str, Any] = {"role": role, "content": _content(message.parts)}
    if message.name:
        written["name"] = message.name
    if message.tool_calls:
        written["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": flat_name(call.name, call.namespace), "arguments": arguments_of(call)},
            }
            for call in message.tool_calls
        ]
    if written["content"] is None and not message.tool_calls:
        return []  # nothing but reasoning, which is not sent
    return [written]


def _result(message: Message) -> list[dict[str, Any]]:
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    said = "\n".join(texts)
    written = [
        {
            "role": "tool",
            "tool_call_id": message.answers_call,
            "content": f"{_FAILED}{said}" if message.has_failed else said,
        }
    ]
    others = [part for part in message.parts if not isinstance(part, TextPart)]
    return [*written, {"role": "user", "content": _content(others)}] if others else written


def _content(parts: Iterable[Part]) -> str | list[dict[str, Any]] | None:
    written = [block for part in parts if (block := _part(part)) is not None]
    if len(written) == 1 and written[0]["type"] == "text":
        text: str = written[0]["text"]
        return text
    return written or None


def _part(part: Part) -> dict[str, Any] | None:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart(url=url, detail=detail):
            return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
        case FilePart(url=url, name=name):
            return {"type": "file", "file": {"file_data": url, "filename": name or "document"}}
        case _:
            return None


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": flat_name(tool.name, tool.namespace), "parameters": schema_of(tool)}
    if tool.description or tool.grammar is not None:
        function["description"] = description_of(tool)
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice | None) -> str | dict[str, Any] | None:
    if choice is None:
        return None
    if choice.mode is ToolMode.NAMED:
        return {"type": "function", "function": {"name": flat_name(choice.name, choice.namespace)}}
    return choice.mode.value


def _shape(shape: OutputFormat | None) -> dict[str, Any] | None:
    if shape is None:
        return None
    if shape.schema is None:
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": shape.name or "answer", "schema": shape.schema}
    if shape.description:
        schema["description"] = shape.description
    if shape.strict is not None:
        schema["strict"] = shape.strict
    return {"type": "json_schema", "json_schema": schema}
