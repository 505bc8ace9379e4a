"""Requests on the wire of Anthropic's messages: those that arrived in it as they are, all others written from the
canonical call."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallRequest
from routing.core.conversation import (
    INSTRUCTING,
    CacheMark,
    Effort,
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
    ToolChoice,
    ToolMode,
)
from routing.core.features import Feature
from routing.providers.base import Carries
from routing.providers.dialects.carrying import not_carried, read_data_url, refuse_foreign_seals, refuse_uncarried
from routing.providers.dialects.splicing import with_members
from routing.providers.dialects.tools import description_of, flat_name, input_of, schema_of

INTO = "Anthropic's messages"

DEFAULT_MAX_OUTPUT = 8192
"""The most tokens of an answer where neither the caller nor the model's record says; this protocol demands a figure."""

CARRIES: Carries = MappingProxyType(
    {
        Feature.INSTRUCTIONS: "`system`, developer messages too",
        Feature.LATER_INSTRUCTIONS: "a message of the role `system`, developer messages too",
        Feature.IMAGE_DATA: "an `image` in base64",
        Feature.IMAGE_LINK: "an `image` by `url`",
        Feature.FILE_DATA: "a `document`: PDF in base64, or plain text",
        Feature.FILE_LINK: "a `document` by `url`",
        Feature.TOOLS: "`tools`",
        Feature.STRICT_TOOLS: "`strict`",
        Feature.CUSTOM_TOOLS: "a tool that takes an object with one text, turned back in the answer",
        Feature.GRAMMAR: "told in the tool's description",
        Feature.NAMESPACED_TOOLS: "one flat name, turned back in the answer",
        Feature.TOOL_RESULT_FAILED: "`is_error`",
        Feature.TOOL_RESULT_PARTS: "blocks inside the `tool_result`",
        Feature.CHOICE_NONE: "`tool_choice` of the type `none`",
        Feature.CHOICE_REQUIRED: "`tool_choice` of the type `any`",
        Feature.CHOICE_NAMED: "`tool_choice` of the type `tool`",
        Feature.PARALLEL_CALLS: "`disable_parallel_tool_use`",
        Feature.JSON_SCHEMA: "`output_config.format`, which is always strict; the schema's name is not sent",
        Feature.REASONING: "`thinking` of the type `adaptive`",
        Feature.REASONING_EFFORT: "`output_config.effort` and adaptive thinking; `minimal` becomes `low`",
        Feature.REASONING_BUDGET: "`thinking.budget_tokens`",
        Feature.REASONING_OFF: "`thinking` of the type `disabled`",
        Feature.REASONING_TEXTS: "not sent: nobody sealed it, so the vendor does not take it back",
        Feature.SEALED_REASONING: "`thinking` and `redacted_thinking` that this vendor sealed; any other is refused",
        Feature.MAX_OUTPUT: "`max_tokens`",
        Feature.TEMPERATURE: "`temperature`; above 1 it is refused",
        Feature.TOP_P: "`top_p`",
        Feature.TOP_K: "`top_k`",
        Feature.STOP: "`stop_sequences`",
        Feature.USER: "`metadata.user_id`",
        Feature.SERVICE_TIER: "`default` becomes `standard_only`; any other is refused",
        Feature.CACHE_MARKS: "`cache_control`",
        Feature.CACHE_KEY: "not sent: this vendor's cache needs no key",
        Feature.STREAM_USAGE: "always reported",
        Feature.PROMPT: "one message of the user",
    }
)

_EFFORTS = {Effort.MINIMAL: "low"}
_TIERS = {"default": "standard_only", "standard_only": "standard_only"}

Blocks = list[dict[str, Any]]


def request_body(request: CallRequest, *, model_id: str, max_output: int | None = None) -> bytes:
    """The bytes to send for a request.

    Args:
        request: the call.
        model_id: the id the provider knows the model by.
        max_output: the most tokens the model can generate, for requests that do not limit their answer.

    Raises ``NotCarried`` for what the protocol has no place for.
    """
    original = request.original
    if original is not None and original.protocol is Protocol.ANTHROPIC:
        refuse_foreign_seals(request, protocol=Protocol.ANTHROPIC, into=INTO)
        return with_members(original, {"model": model_id})
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.ANTHROPIC, into=INTO)
    return orjson.dumps(_document(request, model_id, max_output or DEFAULT_MAX_OUTPUT))


def _document(request: CallRequest, model_id: str, max_output: int) -> dict[str, Any]:
    begun = next(
        (at for at, each in enumerate(request.messages) if each.role not in INSTRUCTING), len(request.messages)
    )
    writer = _Writer(request)
    document: dict[str, Any] = {
        "model": model_id,
        "max_tokens": request.max_output or max_output,
        "messages": writer.turns(request.messages[begun:]),
    }
    system = writer.system(request.messages[:begun])
    if system:
        document["system"] = system
    if request.tools:
        document["tools"] = [_tool(each) for each in request.tools]
        choice = _choice(request.tool_choice, parallel=request.parallel_calls)
        if choice is not None:
            document["tool_choice"] = choice
    document |= _settings(request)
    if request.stream:
        document["stream"] = True
    return document


def _settings(request: CallRequest) -> dict[str, Any]:
    sampling = request.sampling
    if sampling.temperature is not None and not 0 <= sampling.temperature <= 1:
        raise not_carried(request, Feature.TEMPERATURE, into=INTO, because="it is at most 1 there")
    if request.service_tier and request.service_tier not in _TIERS:
        raise not_carried(request, Feature.SERVICE_TIER, into=INTO, because=f"{request.service_tier} is unknown there")
    values: dict[str, Any] = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "stop_sequences": list(request.stop) or None,
        "metadata": {"user_id": request.user} if request.user else None,
        "service_tier": _TIERS.get(request.service_tier),
        "thinking": _thinking(request),
        "output_config": _output_config(request) or None,
    }
    return {name: value for name, value in values.items() if value is not None}


def _thinking(request: CallRequest) -> dict[str, Any] | None:
    wish = request.reasoning
    if wish is None:
        return None
    if not wish.is_on:
        return {"type": "disabled"}
    if wish.budget is not None:
        return {"type": "enabled", "budget_tokens": wish.budget}
    return {"type": "adaptive"}


def _output_config(request: CallRequest) -> dict[str, Any]:
    config: dict[str, Any] = {}
    wish = request.reasoning
    if wish is not None and wish.is_on and wish.effort is not None and wish.budget is None:
        config["effort"] = _EFFORTS.get(wish.effort, wish.effort.value)
    shape: OutputFormat | None = request.structured_output
    if shape is not None:
        config["format"] = {"type": "json_schema", "schema": shape.schema}
    return config


def _tool(tool: Tool) -> dict[str, Any]:
    written: dict[str, Any] = {"name": flat_name(tool.name, tool.namespace), "input_schema": schema_of(tool)}
    if tool.description or tool.grammar is not None:
        written["description"] = description_of(tool)
    if tool.strict:
        written["strict"] = True
    return _marked(written, tool.mark)


def _choice(choice: ToolChoice | None, *, parallel: bool | None) -> dict[str, Any] | None:
    written: dict[str, Any] | None = None
    if choice is not None:
        match choice.mode:
            case ToolMode.AUTO:
                written = {"type": "auto"}
            case ToolMode.NONE:
                return {"type": "none"}
            case ToolMode.REQUIRED:
                written = {"type": "any"}
            case ToolMode.NAMED:
                written = {"type": "tool", "name": flat_name(choice.name, choice.namespace)}
    if parallel is False:
        written = {**(written or {"type": "auto"}), "disable_parallel_tool_use": True}
    return written


def _marked(block: dict[str, Any], mark: CacheMark | None) -> dict[str, Any]:
    if mark is CacheMark.SHORT:
        block["cache_control"] = {"type": "ephemeral"}
    elif mark is not None:
        block["cache_control"] = {"type": "ephemeral", "ttl": mark.value}
    return block


class _Writer:
    """Writes the messages of one request."""

    def __init__(self, request: CallRequest) -> None:
        self._request = request

    def system(self, messages: Iterable[Message]) -> Blocks:
        """The instructions before the conversation."""
        return [block for each in messages for block in self._blocks(each.parts)]

    def turns(self, messages: Iterable[Message]) -> Blocks:
        """The conversation, with what one side says in a row in one turn."""
        turns: Blocks = []
        for message in messages:
            role, blocks = self._turn(message)
            if not blocks:
                continue
            if turns and turns[-1]["role"] == role and role != "system":
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
        return turns

    def _turn(self, message: Message) -> tuple[str, Blocks]:
        if message.role in INSTRUCTING:
            return "system", self._blocks(message.parts)
        if message.role is Role.TOOL:
            return "user", [self._result(message)]
        if message.role is Role.USER:
            return "user", self._blocks(message.parts)
        return "assistant", [*self._blocks(message.parts), *self._calls(message)]

    def _calls(self, message: Message) -> Blocks:
        blocks = []
        for call in message.tool_calls:
            arguments = input_of(call)
            if arguments is None:
                raise not_carried(
                    self._request,
                    Feature.TOOLS,
                    into=INTO,
                    because=f"the arguments of call {call.call_id} are no object",
                )
            name = flat_name(call.name, call.namespace)
            block = {"type": "tool_use", "id": call.call_id, "name": name, "input": arguments}
            blocks.append(_marked(block, call.mark))
        return blocks

    def _result(self, message: Message) -> dict[str, Any]:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message.answers_call}
        content = self._blocks(message.parts)
        mark = next((part.mark for part in reversed(message.parts) if isinstance(part, TextPart)), None)
        if len(content) == 1 and content[0]["type"] == "text":
            result["content"] = content[0]["text"]
        elif content:
            result["content"] = content
            mark = None  # stands on the block
        if message.has_failed:
            result["is_error"] = True
        return _marked(result, mark)

    def _blocks(self, parts: Iterable[Part]) -> Blocks:
        return [block for part in parts if (block := self._block(part)) is not None]

    def _block(self, part: Part) -> dict[str, Any] | None:
        match part:
            case TextPart(text=text, mark=mark):
                return _marked({"type": "text", "text": text}, mark) if text else None  # an empty one is refused
            case ImagePart(mark=mark):
                return _marked({"type": "image", "source": self._image(part)}, mark)
            case FilePart(mark=mark):
                block = {"type": "document", "source": self._file(part)}
                if part.name:
                    block["title"] = part.name
                return _marked(block, mark)
            case ReasoningPart(signature=signature, text=text, issuer=issuer, is_hidden=is_hidden):
                if issuer is None:
                    return None
                if is_hidden:
                    return {"type": "redacted_thinking", "data": signature}
                return {"type": "thinking", "thinking": text, "signature": signature}
            case _:
                raise TypeError(f"{part} was to be refused")

    def _image(self, part: ImagePart) -> dict[str, Any]:
        if not part.url.startswith("data:"):
            return {"type": "url", "url": part.url}
        data = read_data_url(part.url)
        if data is None:
            raise not_carried(self._request, Feature.IMAGE_DATA, into=INTO, because="base64 is needed")
        return {"type": "base64", "media_type": data.media_type, "data": data.base64}

    def _file(self, part: FilePart) -> dict[str, Any]:
        if not part.url.startswith("data:"):
            return {"type": "url", "url": part.url}
        data = read_data_url(part.url)
        if data is not None and data.media_type == "application/pdf":
            return {"type": "base64", "media_type": data.media_type, "data": data.base64}
        text = data.text if data is not None and data.media_type.startswith("text/") else None
        if text is None:
            raise not_carried(self._request, Feature.FILE_DATA, into=INTO, because="a PDF or a plain text is needed")
        return {"type": "text", "media_type": "text/plain", "data": text}
