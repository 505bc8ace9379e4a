"""OpenAI's responses, as callers speak it: requests in, without any state of ours.

What is kept at the vendor (earlier responses, conversations, prompts, tools it runs) exists only there: such requests
reach providers of the same protocol, untouched, and are refused by name where another would have to be asked.
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
    IGNORED,
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
from governance.gateway.protocols.seals import read_mark
from routing.core.calls import CallRequest, Original
from routing.core.conversation import (
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
        "stream_options": native_but({}, {"include_obfuscation": False}),
        "instructions": reads(F.INSTRUCTIONS),
        "input": READ,
        "input.type": reads(F.OTHER_PARTS),
        "input.role": reads(F.INSTRUCTIONS, F.LATER_INSTRUCTIONS),
        "input.id": IGNORED,
        "input.status": IGNORED,
        "input.phase": IGNORED,
        "input.content": READ,
        "input.content.type": reads(F.OTHER_PARTS),
        "input.content.text": READ,
        "input.content.refusal": READ,
        "input.content.annotations": IGNORED,
        "input.content.logprobs": IGNORED,
        "input.content.image_url": reads(F.IMAGE_DATA, F.IMAGE_LINK),
        "input.content.detail": reads(F.IMAGE_DETAIL),
        "input.content.file_data": reads(F.FILE_DATA),
        "input.content.file_url": reads(F.FILE_LINK),
        "input.content.filename": READ,
        "input.content.file_id": NATIVE,
        "input.content.prompt_cache_breakpoint": NATIVE,
        "input.call_id": READ,
        "input.name": READ,
        "input.namespace": reads(F.NAMESPACED_TOOLS),
        "input.arguments": READ,
        "input.input": reads(F.CUSTOM_TOOLS),
        "input.output": reads(F.TOOL_RESULT_PARTS),
        "input.caller": native_but({"type": "direct"}),
        "input.summary": reads(F.REASONING_TEXTS),
        "input.encrypted_content": reads(F.SEALED_REASONING),
        "input.tools": READ,
        "input.*": NATIVE,
        "tools": READ,
        "tools.type": reads(F.HOSTED_TOOLS),
        "tools.name": READ,
        "tools.description": READ,
        "tools.parameters": reads(F.TOOLS),
        "tools.strict": reads(F.STRICT_TOOLS),
        "tools.format": reads(F.GRAMMAR),
        "tools.tools": reads(F.NAMESPACED_TOOLS),
        "tools.defer_loading": native_but(False),
        "tools.allowed_callers": native_but(["direct"]),
        "tools.*": NATIVE,
        "tool_choice": reads(F.CHOICE_NONE, F.CHOICE_REQUIRED, F.CHOICE_NAMED),
        "parallel_tool_calls": reads(F.PARALLEL_CALLS),
        "text": READ,
        "text.format": reads(F.JSON_SCHEMA, F.JSON_OBJECT),
        "text.verbosity": reads(F.VERBOSITY),
        "reasoning": READ,
        "reasoning.effort": reads(F.REASONING_EFFORT, F.REASONING_OFF),
        "reasoning.summary": IGNORED,
        "reasoning.generate_summary": IGNORED,
        "reasoning.context": IGNORED,
        "reasoning.mode": native_but("standard"),
        "include": native_but([], ["reasoning.encrypted_content"]),
        "store": native_but(False),
        "background": native_but(False),
        "truncation": native_but("disabled"),
        "max_output_tokens": reads(F.MAX_OUTPUT),
        "temperature": reads(F.TEMPERATURE),
        "top_p": reads(F.TOP_P),
        "top_logprobs": native_but(0),
        "metadata": reads(F.METADATA),
        "client_metadata": IGNORED,
        "safety_identifier": reads(F.USER),
        "user": reads(F.USER),
        "service_tier": reads(F.SERVICE_TIER),
        "prompt_cache_key": reads(F.CACHE_KEY),
        "prompt_cache_retention": native_but("in_memory"),
        **dict.fromkeys(
            (
                "access_programs",
                "background_options",
                "context_management",
                "conversation",
                "image",
                "max_tool_calls",
                "moderation",
                "previous_response_id",
                "prompt",
                "prompt_cache_options",
            ),
            NATIVE,
        ),
    }
)
"""What becomes of each field. A test holds it to the fields that the vendor's client knows. Items and tools of other
types have members of their own, and are carried by the same protocol alone."""

BOOK = FieldBook(FIELDS)
_EFFORTS = frozenset(Effort)
_MODES = {"auto": ToolMode.AUTO, "none": ToolMode.NONE, "required": ToolMode.REQUIRED}
_SPOKEN = Protocol.OPENAI_RESPONSES
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}


def read_request(body: bytes) -> CallRequest:
    """The canonical call of a request body.

    Raises:
        RequestProblem: 400 naming the field and what it should be.
    """
    document, kept = read_document(body)
    refuse_steering(document)
    target = target_of(document)
    reader = _Reader(document)
    settings = Settings(document, reader.uncarried)
    messages = (*reader.instructions(), *reader.messages())
    return CallRequest(
        target=target,
        messages=messages,
        tools=reader.tools(),
        stream=flag(document, "stream"),
        wants_usage=True,
        structured_output=reader.output_format(),
        reasoning=reader.reasoning(),
        max_output=count(document, "max_output_tokens"),
        tool_choice=reader.tool_choice(),
        parallel_calls=settings.flag("parallel_tool_calls"),
        sampling=Sampling(temperature=settings.number("temperature"), top_p=settings.number("top_p")),
        verbosity=reader.verbosity(),
        user=settings.text("safety_identifier", "user"),
        metadata=settings.labels("metadata"),
        service_tier="" if document.get("service_tier") == "auto" else settings.text("service_tier"),
        cache_key=settings.text("prompt_cache_key"),
        uncarried=tuple(reader.uncarried),
        original=Original(_SPOKEN, kept, document, BOOK.names),
    )


class _Reader:
    """Reads one document, and notes on the way what its canonical form does not hold."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.uncarried = list(BOOK.uncarried(document))
        self._more_tools: list[tuple[Mapping[str, Any], str]] = []
        self._called: set[str] = set()

    def _look(self, value: Mapping[str, Any], path: str, where: str) -> None:
        self.uncarried += BOOK.uncarried(value, path, where)

    def instructions(self) -> Iterator[Message]:
        """The instructions beside the input."""
        text = self._document.get("instructions")
        if isinstance(text, str) and text:
            yield Message(Role.SYSTEM, (TextPart(text),))
        elif text not in (None, ""):
            self.uncarried.append("instructions")

    def messages(self) -> Iterator[Message]:
        """The conversation. What the model says in a row, in whatever items, is one turn: its calls come last."""
        given = self._document.get("input")
        if isinstance(given, str):
            yield Message(Role.USER, (TextPart(given),))
            return
        if given is None and not any(self._document.get(each) for each in ("prompt", "conversation")):
            raise invalid("input", "a text or a list of items is needed")
        parts: list[Part] = []
        calls: list[ToolCall] = []
        for index, item in enumerate(objects(given, "input")):
            where = f"input[{index}]"
            kind = item.get("type", "message")
            if kind == "message" and item.get("role") == "assistant":
                self._look(item, "input", where)
                parts += self._content(item.get("content"), f"{where}.content")
            elif kind == "reasoning":
                self._look(item, "input", where)
                parts.append(self._reasoning(item))
            elif kind in ("function_call", "custom_tool_call"):
                self._look(item, "input", where)
                calls.append(self._call(item, where))
            else:
                if parts or calls:
                    yield Message(Role.ASSISTANT, tuple(parts), tuple(calls))
                    parts, calls = [], []
                yield from self._other(str(kind), item, where)
        if parts or calls:
            yield Message(Role.ASSISTANT, tuple(parts), tuple(calls))

    def _other(self, kind: str, item: Mapping[str, Any], where: str) -> Iterator[Message]:
        """An item that is not the model's."""
        if kind == "message":
            self._look(item, "input", where)
            try:
                role = Role(str(item.get("role")))
            except ValueError:
                raise invalid(f"{where}.role", "one of user, assistant, system, developer is needed") from None
            yield Message(role, tuple(self._content(item.get("content"), f"{where}.content")))
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._look(item, "input", where)
            call_id = _text(item, "call_id", where)
            if call_id not in self._called:  # whoever called is kept at the vendor
                self.uncarried.append(f"{where}.call_id ({call_id} was never called)")
            parts = tuple(self._content(item.get("output"), f"{where}.output"))
            yield Message(Role.TOOL, parts, answers_call=call_id)
        elif kind == "additional_tools":
            self._look(item, "input", where)
            offered = objects(item.get("tools"), f"{where}.tools")
            self._more_tools += [(each, f"{where}.tools[{at}]") for at, each in enumerate(offered)]
        else:
            yield Message(Role.ASSISTANT, (OpaquePart(kind),))

    def _content(self, content: object, where: str) -> Iterator[Part]:
        if content is None:
            return
        if isinstance(content, str):
            yield TextPart(content)
            return
        for index, part in enumerate(objects(content, where)):
            yield self._part(part, f"{where}[{index}]")

    def _part(self, part: Mapping[str, Any], where: str) -> Part:
        kind = part.get("type")
        if not isinstance(kind, str):
            raise invalid(f"{where}.type", "a part names its type")
        self._look(part, "input.content", where)
        if kind in _TEXTS:
            return TextPart(_text(part, _TEXTS[kind], where))
        url = part.get("image_url")
        if kind == "input_image" and isinstance(url, str):
            detail = part.get("detail")
            return ImagePart(url, detail if isinstance(detail, str) and detail != "auto" else "")
        if kind == "input_file":
            name = part.get("filename")
            url = part.get("file_data") or part.get("file_url")
            if isinstance(url, str):
                return FilePart(url, name if isinstance(name, str) else "")
        return OpaquePart(kind)

    def _reasoning(self, item: Mapping[str, Any]) -> ReasoningPart:
        summary = item.get("summary")
        texts = [each.get("text") for each in summary if isinstance(each, dict)] if isinstance(summary, list) else []
        text = "\n\n".join(each for each in texts if isinstance(each, str))
        kept, item_id = item.get("encrypted_content"), item.get("id")
        if not isinstance(kept, str) or not kept:
            return ReasoningPart(text)
        seal = read_mark(kept, spoken=_SPOKEN)
        own = item_id if isinstance(item_id, str) and seal.issuer is _SPOKEN else seal.item
        return ReasoningPart(text, seal.signature, seal.issuer, own, seal.is_hidden)

    def _call(self, item: Mapping[str, Any], where: str) -> ToolCall:
        kind, field = (
            (ToolKind.CUSTOM, "input") if item.get("type") == "custom_tool_call" else (ToolKind.FUNCTION, "arguments")
        )
        call_id, namespace = _text(item, "call_id", where), item.get("namespace")
        self._called.add(call_id)
        return ToolCall(
            call_id=call_id,
            name=_text(item, "name", where),
            arguments=_text(item, field, where),
            kind=kind,
            namespace=namespace if isinstance(namespace, str) else "",
        )

    def tools(self) -> tuple[Tool, ...]:
        """The tools offered, those that the input adds included."""
        offered = objects(self._document.get("tools"), "tools")
        given = [*((each, f"tools[{at}]") for at, each in enumerate(offered)), *self._more_tools]
        return tuple(tool for each, where in given for tool in self._tool(each, where))

    def _tool(self, content: Mapping[str, Any], where: str, namespace: str = "") -> Iterator[Tool]:
        size, kind = len(orjson.dumps(content)), content.get("type")
        if kind == "namespace" and not namespace:
            self._look(content, "tools", where)
            name = _text(content, "name", where)
            for at, each in enumerate(objects(content.get("tools"), f"{where}.tools")):
                yield from self._tool(each, f"{where}.tools[{at}]", name)
            return
        if kind not in ("function", "custom"):
            yield Tool(str(kind), size, kind=ToolKind.HOSTED)
            return
        self._look(content, "tools", where)
        description, strict = content.get("description"), content.get("strict")
        schema, grammar = content.get("parameters"), content.get("format")
        is_custom = kind == "custom"
        yield Tool(
            name=_text(content, "name", where),
            schema_bytes=size,
            description=description if isinstance(description, str) else "",
            schema=schema if isinstance(schema, dict) else None,
            strict=strict if isinstance(strict, bool) else None if is_custom else True,  # unsaid means true here
            kind=ToolKind.CUSTOM if is_custom else ToolKind.FUNCTION,
            namespace=namespace,
            grammar=grammar if isinstance(grammar, dict) and grammar.get("type") == "grammar" else None,
        )

    def tool_choice(self) -> ToolChoice | None:
        choice = self._document.get("tool_choice")
        if choice is None:
            return None
        if isinstance(choice, str) and choice in _MODES:
            return ToolChoice(_MODES[choice])
        if isinstance(choice, dict) and choice.get("type") in ("function", "custom"):
            name, namespace = choice.get("name"), choice.get("namespace")
            if isinstance(name, str):
                return ToolChoice(ToolMode.NAMED, name, namespace if isinstance(namespace, str) else "")
        self.uncarried.append("tool_choice")
        return None

    def output_format(self) -> OutputFormat | None:
        text = self._document.get("text")
        if not isinstance(text, dict):
            return None
        self._look(text, "text", "text")
        shape = text.get("format")
        kind = shape.get("type") if isinstance(shape, dict) else None
        if shape is None or kind == "text":
            return None
        if kind == "json_object":
            return OutputFormat()
        if not isinstance(shape, dict) or kind != "json_schema" or not isinstance(shape.get("schema"), dict):
            self.uncarried.append("text.format")
            return OutputFormat()
        name, description, strict = shape.get("name"), shape.get("description"), shape.get("strict")
        return OutputFormat(
            schema=shape["schema"],
            name=name if isinstance(name, str) else "",
            description=description if isinstance(description, str) else "",
            strict=strict if isinstance(strict, bool) else None,
        )

    def verbosity(self) -> str:
        text = self._document.get("text")
        verbosity = text.get("verbosity") if isinstance(text, dict) else None
        return verbosity if isinstance(verbosity, str) else ""

    def reasoning(self) -> ReasoningWish | None:
        wish = self._document.get("reasoning")
        if not isinstance(wish, dict):
            return None
        self._look(wish, "reasoning", "reasoning")
        effort = wish.get("effort")
        if effort is None:
            return None
        if isinstance(effort, str) and effort in _EFFORTS:
            return ReasoningWish(Effort(effort))
        self.uncarried.append("reasoning.effort")
        return ReasoningWish()


def _text(holder: Mapping[str, Any], field: str, where: str) -> str:
    value = holder.get(field)
    if not isinstance(value, str):
        raise invalid(f"{where}.{field}", "a text is needed")
    return value
