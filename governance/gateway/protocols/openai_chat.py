"""OpenAI's chat completions, as callers speak it: requests in.

A body is checked as far as this installation has to understand it; what it does not know is forwarded untouched to
providers of the same protocol, and named where another would have to be asked.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import orjson

from governance.gateway.protocols.checks import (
    STEERING,
    Settings,
    count,
    flag,
    invalid,
    objects,
    refuse_steering,
    target_of,
)
from governance.gateway.protocols.fields import (
    NATIVE,
    OURS,
    READ,
    REFUSED,
    Field,
    FieldBook,
    native_but,
    reads,
)
from governance.gateway.protocols.json_body import read_document
from governance.gateway.protocols.reasoning_details import read_detail
from routing.core.calls import CallRequest, Original
from routing.core.conversation import (
    CacheMark,
    Effort,
    FilePart,
    ImagePart,
    Message,
    OpaquePart,
    OutputFormat,
    Part,
    Protocol,
    ReasoningPart,
    ReasoningWish,
    Role,
    Sampling,
    TextPart,
    Tool,
    ToolCall,
    ToolChoice,
    ToolKind,
    ToolMode,
)
from routing.core.features import Feature as F

FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        **dict.fromkeys(STEERING, REFUSED),
        "model": OURS,
        "stream": OURS,
        "stream_options": READ,
        "stream_options.include_usage": reads(F.STREAM_USAGE),
        "stream_options.include_obfuscation": native_but(False),
        "messages": READ,
        "messages.role": reads(F.INSTRUCTIONS, F.LATER_INSTRUCTIONS),
        "messages.name": reads(F.PARTICIPANT_NAMES),
        "messages.content": READ,
        "messages.content.type": reads(F.OTHER_PARTS),
        "messages.content.text": READ,
        "messages.content.refusal": READ,
        "messages.content.image_url": READ,
        "messages.content.image_url.url": reads(F.IMAGE_DATA, F.IMAGE_LINK),
        "messages.content.image_url.detail": reads(F.IMAGE_DETAIL),
        "messages.content.input_audio": reads(F.OTHER_PARTS),
        "messages.content.file": READ,
        "messages.content.file.file_data": reads(F.FILE_DATA, F.FILE_LINK),
        "messages.content.file.filename": READ,
        "messages.content.file.file_id": NATIVE,
        "messages.content.cache_control": reads(F.CACHE_MARKS),
        "messages.content.prompt_cache_breakpoint": NATIVE,
        "messages.refusal": READ,
        "messages.reasoning_content": reads(F.REASONING_TEXTS),
        "messages.reasoning_details": reads(F.SEALED_REASONING),
        "messages.audio": NATIVE,
        "messages.function_call": NATIVE,
        "messages.tool_calls": READ,
        "messages.tool_calls.id": READ,
        "messages.tool_calls.type": READ,
        "messages.tool_calls.index": READ,
        "messages.tool_calls.function": READ,
        "messages.tool_calls.function.name": READ,
        "messages.tool_calls.function.arguments": READ,
        "messages.tool_calls.custom": READ,
        "messages.tool_calls.custom.name": READ,
        "messages.tool_calls.custom.input": reads(F.CUSTOM_TOOLS),
        "messages.tool_call_id": READ,
        "tools": READ,
        "tools.type": reads(F.HOSTED_TOOLS),
        "tools.function": reads(F.TOOLS),
        "tools.function.name": READ,
        "tools.function.description": READ,
        "tools.function.parameters": READ,
        "tools.function.strict": reads(F.STRICT_TOOLS),
        "tools.custom": reads(F.CUSTOM_TOOLS),
        "tools.custom.name": READ,
        "tools.custom.description": READ,
        "tools.custom.format": reads(F.GRAMMAR),
        "tools.cache_control": reads(F.CACHE_MARKS),
        "functions": NATIVE,
        "function_call": NATIVE,
        "tool_choice": reads(F.CHOICE_NONE, F.CHOICE_REQUIRED, F.CHOICE_NAMED),
        "parallel_tool_calls": reads(F.PARALLEL_CALLS),
        "response_format": READ,
        "response_format.type": reads(F.JSON_OBJECT),
        "response_format.json_schema": reads(F.JSON_SCHEMA),
        "reasoning_effort": reads(F.REASONING_EFFORT, F.REASONING_OFF),
        "max_completion_tokens": reads(F.MAX_OUTPUT),
        "max_tokens": reads(F.MAX_OUTPUT),
        "temperature": reads(F.TEMPERATURE),
        "top_p": reads(F.TOP_P),
        "presence_penalty": reads(F.PRESENCE_PENALTY),
        "frequency_penalty": reads(F.FREQUENCY_PENALTY),
        "seed": reads(F.SEED),
        "stop": reads(F.STOP),
        "n": reads(F.CHOICES),
        "verbosity": reads(F.VERBOSITY),
        "safety_identifier": reads(F.USER),
        "user": reads(F.USER),
        "metadata": reads(F.METADATA),
        "service_tier": reads(F.SERVICE_TIER),
        "prompt_cache_key": reads(F.CACHE_KEY),
        "prompt_cache_options": NATIVE,
        "prompt_cache_retention": native_but("in_memory"),
        "logit_bias": native_but({}),
        "logprobs": native_but(False),
        "top_logprobs": native_but(0),
        "store": native_but(False),
        "modalities": native_but(["text"]),
        "audio": NATIVE,
        "prediction": NATIVE,
        "moderation": NATIVE,
        "web_search_options": NATIVE,
    }
)
"""What becomes of each field. A test holds it to the fields that the vendor's client knows."""

BOOK = FieldBook(FIELDS)
EFFORTS = frozenset(Effort)
_MODES = {"auto": ToolMode.AUTO, "none": ToolMode.NONE, "required": ToolMode.REQUIRED}


def read_request(body: bytes) -> CallRequest:
    """The canonical call of a request body.

    Raises:
        RequestProblem: 400 naming the field and what it should be.
    """
    document, kept = read_document(body)
    return call_of(document, body=kept)


def call_of(document: Mapping[str, Any], *, body: bytes | None) -> CallRequest:
    """The canonical call of a document; see :func:`read_request`. The body is kept as ``Original`` keeps it."""
    refuse_steering(document)
    target = target_of(document)
    stream = flag(document, "stream")
    options = document.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise invalid("stream_options", "an object is needed")
    reader = _Reader(document)
    if options:
        reader.look(options, "stream_options", "stream_options")
    settings = Settings(document, reader.uncarried)
    messages = reader.messages()
    return CallRequest(
        target=target,
        messages=messages,
        tools=reader.tools(),
        stream=stream,
        wants_usage=options is not None and options.get("include_usage") is True,
        structured_output=reader.output_format(),
        reasoning=reader.reasoning(),
        prompt_caching=reader.is_marked,
        max_output=count(document, "max_completion_tokens", "max_tokens"),
        tool_choice=reader.tool_choice(),
        parallel_calls=settings.flag("parallel_tool_calls"),
        sampling=Sampling(
            temperature=settings.number("temperature"),
            top_p=settings.number("top_p"),
            presence_penalty=settings.number("presence_penalty"),
            frequency_penalty=settings.number("frequency_penalty"),
            seed=settings.whole("seed"),
        ),
        stop=settings.texts("stop"),
        choices=reader.choices(),
        verbosity=settings.text("verbosity"),
        user=settings.text("safety_identifier", "user"),
        metadata=settings.labels("metadata"),
        service_tier="" if document.get("service_tier") == "auto" else settings.text("service_tier"),
        cache_key=settings.text("prompt_cache_key"),
        uncarried=tuple(reader.uncarried),
        original=Original(Protocol.OPENAI_CHAT, body, document, BOOK.names),
    )


class _Reader:
    """Reads one document, and notes on the way what its canonical form does not hold."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.uncarried = list(BOOK.uncarried(document))
        self.is_marked = False

    def look(self, value: Mapping[str, Any], path: str, where: str) -> None:
        """Note the members of an object that nobody here knows."""
        self.uncarried += BOOK.uncarried(value, path, where)

    def mark(self, value: Mapping[str, Any], where: str) -> CacheMark | None:
        """An object's wish to be cached."""
        wish = value.get("cache_control")
        if wish is None:
            return None
        self.is_marked = True
        if isinstance(wish, dict) and wish.get("type") == "ephemeral" and not wish.keys() - {"type", "ttl"}:
            try:
                return CacheMark(wish.get("ttl") or CacheMark.SHORT)
            except ValueError:
                pass
        self.uncarried.append(f"{where}.cache_control")
        return None

    def messages(self) -> tuple[Message, ...]:
        messages = self._document.get("messages")
        if not isinstance(messages, list) or not messages:
            raise invalid("messages", "a list with at least one message is needed")
        return tuple(self._message(each, f"messages[{index}]") for index, each in enumerate(messages))

    def _message(self, content: object, where: str) -> Message:
        if not isinstance(content, dict):
            raise invalid(where, "an object is needed")
        said = str(content.get("role"))
        try:
            role = Role.TOOL if said == "function" else Role(said)  # "function" is the legacy spelling
        except ValueError:
            raise invalid(f"{where}.role", f"one of {', '.join(Role)} is needed") from None
        if said == "function":
            self.uncarried.append(f"{where}.role")
        self.look(content, "messages", where)
        calls = content.get("tool_calls") or []
        if not isinstance(calls, list):
            raise invalid(f"{where}.tool_calls", "a list is needed")
        answers, name = content.get("tool_call_id"), content.get("name")
        return Message(
            role=role,
            parts=(
                *self._reasoned(content, where),
                *self._parts(content.get("content"), f"{where}.content"),
                *self._spoken(content.get("refusal"), TextPart),
            ),
            tool_calls=tuple(self._tool_call(each, f"{where}.tool_calls[{index}]") for index, each in enumerate(calls)),
            answers_call=answers if isinstance(answers, str) else "",
            name=name if isinstance(name, str) else "",
        )

    def _reasoned(self, content: Mapping[str, Any], where: str) -> Iterator[Part]:
        """The model's reasoning: with its seals where they come along, else its text."""
        details = content.get("reasoning_details") or []
        if not details:
            yield from self._spoken(content.get("reasoning_content"), ReasoningPart)
        for each in objects(details, f"{where}.reasoning_details"):
            yield read_detail(each)

    def _spoken(self, text: object, kind: type[TextPart] | type[ReasoningPart]) -> tuple[Part, ...]:
        return (kind(text),) if isinstance(text, str) and text else ()

    def _parts(self, content: object, where: str) -> tuple[Part, ...]:
        if content is None:
            return ()
        if isinstance(content, str):
            return (TextPart(content),)
        if not isinstance(content, list):
            raise invalid(where, "a text or a list of parts is needed")
        return tuple(self._part(each, f"{where}[{index}]") for index, each in enumerate(content))

    def _part(self, content: object, where: str) -> Part:
        if not isinstance(content, dict):
            raise invalid(where, "an object is needed")
        self.look(content, "messages.content", where)
        mark = self.mark(content, where)
        kind = content.get("type")
        if kind in ("text", "refusal"):
            text = content.get(kind)
            if not isinstance(text, str):
                raise invalid(f"{where}.{kind}", "a text is needed")
            return TextPart(text, mark)
        if kind == "image_url":
            return self._image(content.get("image_url"), f"{where}.image_url", mark)
        if kind == "file" and isinstance(content.get("file"), dict):
            return self._file(content["file"], f"{where}.file", mark)
        if not isinstance(kind, str):
            raise invalid(f"{where}.type", "a part names its type")
        return OpaquePart(kind)

    def _image(self, image: object, where: str, mark: CacheMark | None) -> ImagePart:
        url = image.get("url") if isinstance(image, dict) else image
        if not isinstance(url, str):
            raise invalid(where, "an object with a url is needed")
        if not isinstance(image, dict):
            return ImagePart(url, mark=mark)
        self.look(image, "messages.content.image_url", where)
        detail = image.get("detail")
        return ImagePart(url, detail if isinstance(detail, str) and detail != "auto" else "", mark)

    def _file(self, file: Mapping[str, Any], where: str, mark: CacheMark | None) -> Part:
        self.look(file, "messages.content.file", where)
        data, name = file.get("file_data"), file.get("filename")
        if not isinstance(data, str):
            return OpaquePart("file")
        if not data.startswith(("data:", "https://", "http://")):
            data = f"data:application/pdf;base64,{data}"
        return FilePart(data, name if isinstance(name, str) else "", mark)

    def _tool_call(self, content: object, where: str) -> ToolCall:
        if not isinstance(content, dict):
            raise invalid(where, "an object is needed")
        kind = ToolKind.CUSTOM if content.get("type") == "custom" else ToolKind.FUNCTION
        called = content.get(kind)
        if not isinstance(called, dict):
            raise invalid(f"{where}.{kind}", "an object is needed")
        self.look(content, "messages.tool_calls", where)
        self.look(called, f"messages.tool_calls.{kind}", f"{where}.{kind}")
        arguments = called.get("arguments", called.get("input", ""))
        if not isinstance(arguments, str):
            raise invalid(f"{where}.{kind}.arguments", "a text is needed")
        return ToolCall(str(content.get("id", "")), str(called.get("name", "")), arguments, kind)

    def tools(self) -> tuple[Tool, ...]:
        """The tools offered. Those of the legacy field are counted, and carried by the same protocol alone."""
        offered = objects(self._document.get("tools") or self._document.get("functions") or [], "tools")
        return tuple(self._tool(each, f"tools[{index}]") for index, each in enumerate(offered))

    def _tool(self, content: Mapping[str, Any], where: str) -> Tool:
        size = len(orjson.dumps(content))
        kind = ToolKind.CUSTOM if content.get("type") == "custom" else ToolKind.FUNCTION
        body = content.get(kind, content if "type" not in content else None)
        if not isinstance(body, dict):
            return Tool(str(content.get("type", "")), size, kind=ToolKind.HOSTED)
        if body is not content:  # else it is one of the legacy field, which is noted as a whole
            self.look(content, "tools", where)
            self.look(body, f"tools.{kind}", f"{where}.{kind}")
        description, schema, strict = body.get("description"), body.get("parameters"), body.get("strict")
        grammar = body.get("format")
        return Tool(
            name=str(body.get("name", "")),
            schema_bytes=size,
            description=description if isinstance(description, str) else "",
            schema=schema if isinstance(schema, dict) else None,
            strict=strict if isinstance(strict, bool) else None,
            kind=kind,
            mark=self.mark(content, where),
            grammar=grammar if isinstance(grammar, dict) and grammar.get("type") == "grammar" else None,
        )

    def tool_choice(self) -> ToolChoice | None:
        choice = self._document.get("tool_choice")
        if choice is None:
            return None
        if isinstance(choice, str) and choice in _MODES:
            return ToolChoice(_MODES[choice])
        if isinstance(choice, dict):
            named = choice.get(str(choice.get("type")))
            if (
                isinstance(named, dict)
                and isinstance(named.get("name"), str)
                and choice["type"] in ("function", "custom")
            ):
                return ToolChoice(ToolMode.NAMED, named["name"])
        self.uncarried.append("tool_choice")
        return None

    def output_format(self) -> OutputFormat | None:
        wanted = self._document.get("response_format")
        if wanted is None:
            return None
        kind = wanted.get("type") if isinstance(wanted, dict) else None
        if kind == "text":
            return None
        if kind == "json_object":
            return OutputFormat()
        if kind != "json_schema":
            self.uncarried.append("response_format")
            return None
        shape = wanted.get("json_schema")
        if not isinstance(shape, dict) or not isinstance(shape.get("schema"), dict):
            self.uncarried.append("response_format.json_schema")
            return OutputFormat()
        name, description, strict = shape.get("name"), shape.get("description"), shape.get("strict")
        return OutputFormat(
            schema=shape["schema"],
            name=name if isinstance(name, str) else "",
            description=description if isinstance(description, str) else "",
            strict=strict if isinstance(strict, bool) else None,
        )

    def choices(self) -> int:
        """How many answers are asked for. What is no such number is the provider's to refuse."""
        number = self._document.get("n")
        if number is None:
            return 1
        if isinstance(number, int) and number >= 1:
            return number
        self.uncarried.append("n")
        return 1

    def reasoning(self) -> ReasoningWish | None:
        effort = self._document.get("reasoning_effort")
        if effort is None:
            return None
        if isinstance(effort, str) and effort in EFFORTS:
            return ReasoningWish(Effort(effort))
        self.uncarried.append("reasoning_effort")
        return ReasoningWish()
