"""Requests on the wire of Ollama's own API, written from the canonical call. Nobody's request arrives in it.

The host cuts a prompt that is too long for the context it was started with, unless it is told not to; it is told.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallRequest
from routing.core.conversation import (
    INSTRUCTING,
    Effort,
    ImagePart,
    Message,
    Part,
    Protocol,
    ReasoningPart,
    Role,
    TextPart,
    Tool,
    ToolCall,
    ToolMode,
)
from routing.core.features import Feature
from routing.providers.base import Carries
from routing.providers.dialects.carrying import NotCarried, not_carried, read_data_url, refuse_uncarried
from routing.providers.dialects.efforts import effort_of
from routing.providers.dialects.tools import description_of, flat_name, input_of, schema_of

INTO = "Ollama"

CARRIES: Carries = MappingProxyType(
    {
        Feature.INSTRUCTIONS: "messages of the role `system`, developer messages too",
        Feature.LATER_INSTRUCTIONS: "messages of the role `system`, developer messages too",
        Feature.IMAGE_DATA: "`images`",
        Feature.TOOLS: "`tools`",
        Feature.CUSTOM_TOOLS: "a function that takes an object with one text, turned back in the answer",
        Feature.GRAMMAR: "told in the tool's description",
        Feature.NAMESPACED_TOOLS: "one flat name, turned back in the answer",
        Feature.TOOL_RESULT_FAILED: "the result is told behind the words “The tool failed:”",
        Feature.TOOL_RESULT_PARTS: "texts in the tool's message, images in a user's message after it",
        Feature.CHOICE_NONE: "the tools are not offered",
        Feature.JSON_OBJECT: "`format` of `json`",
        Feature.JSON_SCHEMA: "`format`, which is always strict; the schema's name is not sent",
        Feature.REASONING: "`think`",
        Feature.REASONING_EFFORT: "`think`; `minimal` becomes `low`, `xhigh` and `max` become `high`",
        Feature.REASONING_BUDGET: "`think`: `low` up to 4096 tokens, `medium` up to 16384, else `high`",
        Feature.REASONING_OFF: "`think` of `false`",
        Feature.REASONING_TEXTS: "`thinking`",
        Feature.MAX_OUTPUT: "`options.num_predict`",
        Feature.TEMPERATURE: "`options.temperature`",
        Feature.TOP_P: "`options.top_p`",
        Feature.TOP_K: "`options.top_k`",
        Feature.PRESENCE_PENALTY: "`options.presence_penalty`",
        Feature.FREQUENCY_PENALTY: "`options.frequency_penalty`",
        Feature.SEED: "`options.seed`",
        Feature.STOP: "`options.stop`",
        Feature.USER: "not sent: this host takes no word of end users",
        Feature.CACHE_MARKS: "not sent: caches work by themselves there",
        Feature.CACHE_KEY: "not sent: caches work by themselves there",
        Feature.STREAM_USAGE: "always reported",
        Feature.PROMPT: "one message of the user",
    }
)

_LEVELS = {Effort.MINIMAL: "low", Effort.XHIGH: "high", Effort.MAX: "high"}
_FAILED = "The tool failed:\n"


def request_body(request: CallRequest, *, model_id: str) -> bytes:
    """The bytes to send for a request. Raises ``NotCarried`` for what the protocol has no place for."""
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.OLLAMA, into=INTO)
    writer = _Writer(request)
    choice = request.tool_choice
    offers = choice is None or choice.mode is not ToolMode.NONE
    values: dict[str, Any] = {
        "model": model_id,
        "messages": [written for each in request.messages for written in writer.message(each)],
        "tools": [_tool(each) for each in request.tools] if request.tools and offers else None,
        "format": _format(request),
        "think": _think(request),
        "options": _options(request) or None,
    }
    written = {name: value for name, value in values.items() if value is not None}
    return orjson.dumps({**written, "stream": request.stream, "truncate": False})


def _format(request: CallRequest) -> str | Mapping[str, Any] | None:
    shape = request.structured_output
    if shape is None:
        return None
    return "json" if shape.schema is None else shape.schema


def _think(request: CallRequest) -> bool | str | None:
    wish = request.reasoning
    if wish is None:
        return None
    if not wish.is_on:
        return False
    effort = effort_of(wish)
    return True if effort is None else _LEVELS.get(effort, effort.value)


def _options(request: CallRequest) -> dict[str, Any]:
    sampling = request.sampling
    values: dict[str, Any] = {
        "num_predict": request.max_output,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "seed": sampling.seed,
        "stop": list(request.stop) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _tool(tool: Tool) -> dict[str, Any]:
    function = {
        "name": flat_name(tool.name, tool.namespace),
        "description": description_of(tool),
        "parameters": schema_of(tool),
    }
    return {"type": "function", "function": function}


class _Writer:
    """Writes the messages of one request."""

    def __init__(self, request: CallRequest) -> None:
        self._request = request
        self._names = {
            call.call_id: flat_name(call.name, call.namespace) for each in request.messages for call in each.tool_calls
        }

    def message(self, message: Message) -> list[dict[str, Any]]:
        """A message, and for what a tool's message cannot hold, another one after it."""
        if message.role is Role.TOOL:
            return self._result(message)
        role = "system" if message.role in INSTRUCTING else message.role.value
        written: dict[str, Any] = {"role": role, "content": _texts(message.parts)}
        thinking = "".join(part.text for part in message.parts if isinstance(part, ReasoningPart))
        images = self._images(message.parts)
        if thinking:
            written["thinking"] = thinking
        if images:
            written["images"] = images
        if message.tool_calls:
            written["tool_calls"] = [self._call(each) for each in message.tool_calls]
        return [written]

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = input_of(call)
        if arguments is None:
            raise self._refused(Feature.TOOLS, f"the arguments of call {call.call_id} are no object")
        return {"id": call.call_id, "function": {"name": self._names[call.call_id], "arguments": arguments}}

    def _result(self, message: Message) -> list[dict[str, Any]]:
        name = self._names.get(message.answers_call)
        if name is None:
            raise self._refused(Feature.TOOLS, f"nothing called the tool that answers {message.answers_call}")
        said = _texts(message.parts)
        result: dict[str, Any] = {
            "role": "tool",
            "content": f"{_FAILED}{said}" if message.has_failed else said,
            "tool_name": name,
            "tool_call_id": message.answers_call,
        }
        images = self._images(message.parts)
        return [result, {"role": "user", "content": "", "images": images}] if images else [result]

    def _images(self, parts: Iterable[Part]) -> list[str]:
        images: list[str] = []
        for part in parts:
            if isinstance(part, ImagePart):
                data = read_data_url(part.url)
                if data is None:
                    raise self._refused(Feature.IMAGE_DATA, "only images in base64 are understood there")
                images.append(data.base64)
        return images

    def _refused(self, feature: Feature, because: str) -> NotCarried:
        return not_carried(self._request, feature, into=INTO, because=because)


def _texts(parts: Iterable[Part]) -> str:
    """All texts of a message as the one that there is room for."""
    return "\n".join(part.text for part in parts if isinstance(part, TextPart))
