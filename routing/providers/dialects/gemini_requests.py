"""Requests on the wire of Gemini's generateContent, written from the canonical call. Nobody's request arrives in it."""

import re
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import orjson

from routing.core.calls import CallRequest
from routing.core.conversation import (
    INSTRUCTING,
    Effort,
    FilePart,
    ImagePart,
    Message,
    Part,
    Protocol,
    ReasoningPart,
    Role,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolMode,
)
from routing.core.features import Feature
from routing.providers.base import Carries
from routing.providers.dialects.carrying import NotCarried, not_carried, read_data_url, refuse_uncarried
from routing.providers.dialects.tools import description_of, flat_name, input_of, schema_of

INTO = "Gemini"

CARRIES: Carries = MappingProxyType(
    {
        Feature.INSTRUCTIONS: "`systemInstruction`, developer messages too",
        Feature.LATER_INSTRUCTIONS: "moved up into `systemInstruction`, in their order",
        Feature.IMAGE_DATA: "`inlineData`",
        Feature.FILE_DATA: "`inlineData`; the file's name is not sent",
        Feature.TOOLS: "`functionDeclarations`",
        Feature.STRICT_TOOLS: "the calling mode `VALIDATED`, for all tools",
        Feature.CUSTOM_TOOLS: "a function that takes an object with one text, turned back in the answer",
        Feature.GRAMMAR: "told in the tool's description",
        Feature.NAMESPACED_TOOLS: "one flat name, turned back in the answer",
        Feature.TOOL_RESULT_FAILED: "`error` in place of `result` inside the `functionResponse`",
        Feature.TOOL_RESULT_PARTS: "texts in the `functionResponse`, images and files as parts beside it",
        Feature.CHOICE_NONE: "the calling mode `NONE`",
        Feature.CHOICE_REQUIRED: "the calling mode `ANY`",
        Feature.CHOICE_NAMED: "the calling mode `ANY` with `allowedFunctionNames`",
        Feature.JSON_OBJECT: "`responseMimeType`",
        Feature.JSON_SCHEMA: "`responseJsonSchema`; the schema's name is not sent",
        Feature.REASONING: "`thinkingConfig.includeThoughts`",
        Feature.REASONING_EFFORT: "`thinkingConfig.thinkingLevel`; `xhigh` and `max` become `high`",
        Feature.REASONING_BUDGET: "`thinkingConfig.thinkingBudget`",
        Feature.REASONING_OFF: "`thinkingConfig.thinkingBudget` of 0",
        Feature.REASONING_TEXTS: "not sent: nobody sealed it, so the vendor does not take it back",
        Feature.SEALED_REASONING: "`thoughtSignature` that this vendor gave; any other is refused",
        Feature.MAX_OUTPUT: "`maxOutputTokens`",
        Feature.TEMPERATURE: "`temperature`",
        Feature.TOP_P: "`topP`",
        Feature.TOP_K: "`topK`",
        Feature.PRESENCE_PENALTY: "`presencePenalty`",
        Feature.FREQUENCY_PENALTY: "`frequencyPenalty`",
        Feature.SEED: "`seed`",
        Feature.STOP: "`stopSequences`",
        Feature.USER: "not sent: this vendor takes no word of end users",
        Feature.CACHE_MARKS: "not sent: caches work by themselves there",
        Feature.CACHE_KEY: "not sent: this vendor's cache needs no key",
        Feature.STREAM_USAGE: "always reported",
        Feature.PROMPT: "one turn of the user",
    }
)

UNSIGNED = "skip_thought_signature_validator"
"""The vendor's word for a call that another model made, or whose signature the caller's protocol could not keep. Newer
models take no call back without a signature; older ones know none."""

_KNOWS_NO_SIGNATURES = re.compile(r"gemini-[12]\b")
_LEVELS = {Effort.XHIGH: "high", Effort.MAX: "high"}

Parts = list[dict[str, Any]]


def request_body(request: CallRequest, *, model_id: str) -> bytes:
    """The bytes to send for a request. Raises ``NotCarried`` for what the protocol has no place for."""
    refuse_uncarried(request, carries=CARRIES, protocol=Protocol.GEMINI, into=INTO)
    return orjson.dumps(_document(request, signs=_KNOWS_NO_SIGNATURES.search(model_id) is None))


def _document(request: CallRequest, *, signs: bool) -> dict[str, Any]:
    writer = _Writer(request, signs=signs)
    instructions = [
        {"text": part.text}
        for each in request.messages
        if each.role in INSTRUCTING
        for part in each.parts
        if isinstance(part, TextPart) and part.text
    ]
    document: dict[str, Any] = {"contents": writer.contents(request.messages)}
    if instructions:
        document["systemInstruction"] = {"parts": instructions}
    if request.tools:
        document["tools"] = [{"functionDeclarations": [_tool(each) for each in request.tools]}]
        calling = _calling(request.tool_choice, request.tools)
        if calling:
            document["toolConfig"] = {"functionCallingConfig": calling}
    settings = _settings(request)
    if settings:
        document["generationConfig"] = settings
    return document


def _settings(request: CallRequest) -> dict[str, Any]:
    sampling, shape = request.sampling, request.structured_output
    values: dict[str, Any] = {
        "maxOutputTokens": request.max_output,
        "temperature": sampling.temperature,
        "topP": sampling.top_p,
        "topK": sampling.top_k,
        "presencePenalty": sampling.presence_penalty,
        "frequencyPenalty": sampling.frequency_penalty,
        "seed": sampling.seed,
        "stopSequences": list(request.stop) or None,
        "responseMimeType": None if shape is None else "application/json",
        "responseJsonSchema": None if shape is None else shape.schema,
        "thinkingConfig": _thinking(request),
    }
    return {name: value for name, value in values.items() if value is not None}


def _thinking(request: CallRequest) -> dict[str, Any] | None:
    wish = request.reasoning
    if wish is None:
        return None
    if not wish.is_on:
        return {"thinkingBudget": 0}
    if wish.budget is not None:
        return {"includeThoughts": True, "thinkingBudget": wish.budget}
    level = {} if wish.effort is None else {"thinkingLevel": _LEVELS.get(wish.effort, wish.effort.value)}
    return {"includeThoughts": True, **level}


def _tool(tool: Tool) -> dict[str, Any]:
    declared: dict[str, Any] = {"name": flat_name(tool.name, tool.namespace)}
    if tool.description or tool.grammar is not None:
        declared["description"] = description_of(tool)
    schema = schema_of(tool)
    if schema.get("properties") or set(schema) - {"type", "properties"}:
        declared["parametersJsonSchema"] = schema  # an object without properties is refused
    return declared


def _calling(choice: ToolChoice | None, tools: Iterable[Tool]) -> dict[str, Any]:
    match choice:
        case ToolChoice(mode=ToolMode.NONE):
            return {"mode": "NONE"}
        case ToolChoice(mode=ToolMode.REQUIRED):
            return {"mode": "ANY"}
        case ToolChoice(mode=ToolMode.NAMED, name=name, namespace=namespace):
            return {"mode": "ANY", "allowedFunctionNames": [flat_name(name, namespace)]}
    return {"mode": "VALIDATED"} if any(each.strict for each in tools) else {}


class _Writer:
    """Writes the messages of one request."""

    def __init__(self, request: CallRequest, *, signs: bool) -> None:
        self._request = request
        self._signs = signs
        self._names = {
            call.call_id: flat_name(call.name, call.namespace) for each in request.messages for call in each.tool_calls
        }

    def contents(self, messages: Iterable[Message]) -> Parts:
        """The conversation, with what one side says in a row in one turn."""
        turns: Parts = []
        for message in messages:
            if message.role in INSTRUCTING:
                continue
            role = "model" if message.role is Role.ASSISTANT else "user"
            parts = self._result(message) if message.role is Role.TOOL else self._said(message)
            if not parts:
                continue
            if turns and turns[-1]["role"] == role:
                turns[-1]["parts"] += parts
            else:
                turns.append({"role": role, "parts": parts})
        return turns

    def _said(self, message: Message) -> Parts:
        """What a user or the model said. A signature belongs to the first call after it, or to the text."""
        signatures = [part.signature for part in message.parts if isinstance(part, ReasoningPart) and part.issuer]
        parts = self._parts(message.parts)
        calls = [self._call(each) for each in message.tool_calls]
        if calls and (signatures or self._signs):
            calls[0]["thoughtSignature"] = signatures[0] if signatures else UNSIGNED
        elif parts and signatures:
            parts[-1]["thoughtSignature"] = signatures[-1]
        return [*parts, *calls]

    def _call(self, call: ToolCall) -> dict[str, Any]:
        arguments = input_of(call)
        if arguments is None:
            raise self._refused(Feature.TOOLS, f"the arguments of call {call.call_id} are no object")
        return {"functionCall": {"id": call.call_id, "name": self._names[call.call_id], "args": arguments}}

    def _result(self, message: Message) -> Parts:
        name = self._names.get(message.answers_call)
        if name is None:
            raise self._refused(Feature.TOOLS, f"nothing called the tool that answers {message.answers_call}")
        texts = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
        response = {"error": texts} if message.has_failed else _object(texts)
        answered = {"functionResponse": {"id": message.answers_call, "name": name, "response": response}}
        return [answered, *self._parts(part for part in message.parts if not isinstance(part, TextPart))]

    def _parts(self, parts: Iterable[Part]) -> Parts:
        written: Parts = []
        for part in parts:
            match part:
                case TextPart(text=text) if text:
                    written.append({"text": text})
                case ImagePart(url=url):
                    written.append(self._inline(url, Feature.IMAGE_DATA))
                case FilePart(url=url):
                    written.append(self._inline(url, Feature.FILE_DATA))
        return written

    def _inline(self, url: str, feature: Feature) -> dict[str, Any]:
        data = read_data_url(url)
        if data is None:
            raise self._refused(feature, "base64 is needed")
        return {"inlineData": {"mimeType": data.media_type, "data": data.base64}}

    def _refused(self, feature: Feature, because: str) -> NotCarried:
        return not_carried(self._request, feature, into=INTO, because=because)


def _object(text: str) -> dict[str, Any]:
    """A tool's answer as the object that the protocol wants."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {"result": text}
    return value if isinstance(value, dict) else {"result": value}
