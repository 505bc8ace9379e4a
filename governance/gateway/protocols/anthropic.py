"""Anthropic's messages, as callers speak it: requests in.

As everywhere, what this installation does not know is forwarded untouched to providers of the same protocol, and named
where another would have to be asked.
"""

from base64 import b64encode
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
from governance.gateway.protocols.seals import read_mark
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

_EPHEMERAL = ({"type": "ephemeral"}, {"type": "ephemeral", "ttl": "5m"})
_KEEP_ALL = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}

_OF_HOSTED_TOOLS = (
    "allowed_domains",
    "blocked_domains",
    "citations",
    "configs",
    "max_characters",
    "max_content_tokens",
    "max_uses",
    "response_inclusion",
    "url_sources",
    "use_cache",
    "user_location",
)

FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        **dict.fromkeys(STEERING, REFUSED),
        "model": OURS,
        "stream": OURS,
        "max_tokens": reads(F.MAX_OUTPUT),
        "system": reads(F.INSTRUCTIONS),
        "system.type": READ,
        "system.text": READ,
        "system.cache_control": reads(F.CACHE_MARKS),
        "system.citations": NATIVE,
        "messages": READ,
        "messages.role": reads(F.LATER_INSTRUCTIONS),
        "messages.content": READ,
        "messages.content.type": reads(F.OTHER_PARTS),
        "messages.content.text": READ,
        "messages.content.cache_control": reads(F.CACHE_MARKS),
        "messages.content.citations": NATIVE,
        "messages.content.source": READ,
        "messages.content.source.type": READ,
        "messages.content.source.media_type": READ,
        "messages.content.source.data": reads(F.IMAGE_DATA, F.FILE_DATA),
        "messages.content.source.url": reads(F.IMAGE_LINK, F.FILE_LINK),
        "messages.content.source.file_id": NATIVE,
        "messages.content.source.content": NATIVE,
        "messages.content.title": READ,
        "messages.content.context": NATIVE,
        "messages.content.transformations": NATIVE,
        "messages.content.thinking": reads(F.REASONING_TEXTS),
        "messages.content.signature": reads(F.SEALED_REASONING),
        "messages.content.data": reads(F.SEALED_REASONING),
        "messages.content.file_id": NATIVE,
        "messages.content.id": READ,
        "messages.content.name": READ,
        "messages.content.input": READ,
        "messages.content.caller": native_but({"type": "direct"}),
        "messages.content.toolset_name": NATIVE,
        "messages.content.tool_name": READ,
        "messages.content.tool_use_id": READ,
        "messages.content.content": reads(F.TOOL_RESULT_PARTS),
        "messages.content.is_error": reads(F.TOOL_RESULT_FAILED),
        "tools": READ,
        "tools.name": READ,
        "tools.type": reads(F.HOSTED_TOOLS),
        "tools.description": READ,
        "tools.input_schema": reads(F.TOOLS),
        "tools.strict": reads(F.STRICT_TOOLS),
        "tools.cache_control": reads(F.CACHE_MARKS),
        "tools.defer_loading": READ,
        "tools.eager_input_streaming": native_but(False, True),
        "tools.allowed_callers": native_but(["direct"]),
        "tools.input_examples": NATIVE,
        **{f"tools.{name}": NATIVE for name in _OF_HOSTED_TOOLS},
        "tool_choice": READ,
        "tool_choice.type": reads(F.CHOICE_NONE, F.CHOICE_REQUIRED),
        "tool_choice.name": reads(F.CHOICE_NAMED),
        "tool_choice.disable_parallel_tool_use": reads(F.PARALLEL_CALLS),
        "output_config": READ,
        "output_config.effort": reads(F.REASONING_EFFORT),
        "output_config.format": reads(F.JSON_SCHEMA),
        "output_config.format.type": READ,
        "output_config.format.schema": READ,
        "output_config.task_budget": NATIVE,
        "thinking": READ,
        "thinking.type": reads(F.REASONING, F.REASONING_OFF),
        "thinking.budget_tokens": reads(F.REASONING_BUDGET),
        "thinking.display": READ,
        "temperature": reads(F.TEMPERATURE),
        "top_p": reads(F.TOP_P),
        "top_k": reads(F.TOP_K),
        "stop_sequences": reads(F.STOP),
        "metadata": READ,
        "metadata.user_id": reads(F.USER),
        "service_tier": reads(F.SERVICE_TIER),
        "cache_control": native_but(*_EPHEMERAL),
        "context_management": native_but(_KEEP_ALL),
        "container": NATIVE,
        "diagnostics": NATIVE,
        "inference_geo": NATIVE,
        "speed": native_but("standard"),
        "mcp_servers": native_but([]),
        "user_profile_id": NATIVE,
        "workspace_id": NATIVE,
    }
)
"""What becomes of each field. A test holds it to the fields that the vendor's client knows."""

BOOK = FieldBook(FIELDS)
_MODES = {"auto": ToolMode.AUTO, "none": ToolMode.NONE, "any": ToolMode.REQUIRED, "tool": ToolMode.NAMED}
_EFFORTS = frozenset(Effort) - {Effort.NONE}
_SPOKEN = Protocol.ANTHROPIC


def read_request(body: bytes, *, betas: str = "", counts_only: bool = False) -> CallRequest:
    """The canonical call of a request body.

    Args:
        body: the body.
        betas: the header ``anthropic-beta``, which turns fields on and goes where the request goes.
        counts_only: whether the request is to be counted and not answered, so that it needs no limit.

    Raises:
        RequestProblem: 400 naming the field and what it should be.
    """
    document, kept = read_document(body)
    refuse_steering(document)
    target = target_of(document)
    if not (betas.isascii() and betas.isprintable()):
        raise invalid("anthropic-beta", "names of features are needed")
    if document.get("max_tokens") is None and not counts_only:
        raise invalid("max_tokens", "a whole number is needed")
    limit = count(document, "max_tokens", least=0)
    reader = _Reader(document)
    settings = Settings(document, reader.uncarried)
    if limit == 0:  # fills the cache and answers nothing, which is this vendor's alone
        reader.uncarried.append("max_tokens")
    mode, parallel = reader.tool_choice()
    shape, wish = reader.output_config()
    return CallRequest(
        target=target,
        messages=(*reader.system(), *reader.messages()),
        tools=reader.tools(),
        stream=flag(document, "stream"),
        wants_usage=True,
        structured_output=shape,
        reasoning=wish,
        prompt_caching=reader.is_marked or document.get("cache_control") is not None,
        max_output=limit or None,
        tool_choice=mode,
        parallel_calls=parallel,
        sampling=Sampling(
            temperature=settings.number("temperature"), top_p=settings.number("top_p"), top_k=settings.whole("top_k")
        ),
        stop=settings.texts("stop_sequences"),
        user=reader.user(),
        service_tier="" if document.get("service_tier") == "auto" else settings.text("service_tier"),
        uncarried=tuple(reader.uncarried),
        original=Original(_SPOKEN, kept, document, BOOK.names, betas),
    )


class _Reader:
    """Reads one document, and notes on the way what its canonical form does not hold."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.uncarried = list(BOOK.uncarried(document))
        self.is_marked = False
        self._found: set[str] = set()

    def _look(self, value: Mapping[str, Any], path: str, where: str) -> None:
        self.uncarried += BOOK.uncarried(value, path, where)

    def _mark(self, value: Mapping[str, Any], where: str) -> CacheMark | None:
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

    def system(self) -> Iterator[Message]:
        """The instructions before the conversation."""
        system = self._document.get("system")
        if system is None:
            return
        if isinstance(system, str):
            yield Message(Role.SYSTEM, (TextPart(system),))
            return
        parts: list[Part] = []
        for index, block in enumerate(objects(system, "system")):
            where = f"system[{index}]"
            self._look(block, "system", where)
            parts.append(TextPart(_text(block, "text", where), self._mark(block, where)))
        yield Message(Role.SYSTEM, tuple(parts))

    def messages(self) -> Iterator[Message]:
        """The conversation. A turn that answers tools and goes on is several messages of ours."""
        messages = objects(self._document.get("messages"), "messages")
        if not messages:
            raise invalid("messages", "a list with at least one message is needed")
        for index, content in enumerate(messages):
            where = f"messages[{index}]"
            try:
                role = Role(str(content.get("role")))
            except ValueError:
                role = Role.TOOL
            if role in (Role.TOOL, Role.DEVELOPER):
                raise invalid(f"{where}.role", "one of user, assistant, system is needed")
            self._look(content, "messages", where)
            said = content.get("content")
            if isinstance(said, str):
                yield Message(role, (TextPart(said),))
            else:
                yield from self._turn(role, objects(said, f"{where}.content"), f"{where}.content")

    def _turn(self, role: Role, blocks: list[dict[str, Any]], where: str) -> Iterator[Message]:
        parts: list[Part] = []
        calls: list[ToolCall] = []
        for index, block in enumerate(blocks):
            place = f"{where}[{index}]"
            self._look(block, "messages.content", place)
            kind = block.get("type")
            if kind == "tool_use":
                calls.append(self._call(block, place))
                continue
            if (kind == "tool_result" or calls) and (parts or calls):
                yield Message(role, tuple(parts), tuple(calls))
                parts, calls = [], []
            if kind == "tool_result":
                yield self._result(block, place)
            else:
                parts.append(self._part(block, place))
        if parts or calls:
            yield Message(role, tuple(parts), tuple(calls))

    def _part(self, block: Mapping[str, Any], where: str) -> Part:
        kind, mark = block.get("type"), self._mark(block, where)
        match kind:
            case "text":
                return TextPart(_text(block, "text", where), mark)
            case "image":
                url = self._source(block, where)
                return OpaquePart("image") if url is None else ImagePart(url, mark=mark)
            case "document":
                url, title = self._source(block, where), block.get("title")
                name = title if isinstance(title, str) else ""
                return OpaquePart("document") if url is None else FilePart(url, name, mark)
            case "thinking":
                return self._thinking(_text(block, "thinking", where), block.get("signature"), is_hidden=False)
            case "redacted_thinking":
                return self._thinking("", block.get("data"), is_hidden=True)
            case "tool_reference":
                name = _text(block, "tool_name", where)
                self._found.add(name)
                return TextPart(f"The tool {name} can be called from here on.", mark)
            case str():
                return OpaquePart(kind)
        raise invalid(f"{where}.type", "a block names its type")

    def _thinking(self, text: str, signature: object, *, is_hidden: bool) -> ReasoningPart:
        if not isinstance(signature, str) or not signature:
            return ReasoningPart(text)
        seal = read_mark(signature, spoken=_SPOKEN)
        return ReasoningPart(text, seal.signature, seal.issuer, seal.item, is_hidden)

    def _source(self, block: Mapping[str, Any], where: str) -> str | None:
        """Where a block's content is: a link or a data URL; ``None`` where only this vendor knows."""
        source = block.get("source")
        if not isinstance(source, dict):
            raise invalid(f"{where}.source", "an object is needed")
        self._look(source, "messages.content.source", f"{where}.source")
        match source.get("type"):
            case "base64":
                data = _text(source, "data", f"{where}.source")
                return f"data:{source.get('media_type', 'application/octet-stream')};base64,{data}"
            case "url":
                return _text(source, "url", f"{where}.source")
            case "text":
                text = _text(source, "data", f"{where}.source")
                return f"data:text/plain;base64,{b64encode(text.encode('utf-8', 'surrogatepass')).decode()}"
        return None

    def _call(self, block: Mapping[str, Any], where: str) -> ToolCall:
        arguments = block.get("input")
        if not isinstance(arguments, dict):
            raise invalid(f"{where}.input", "an object is needed")
        return ToolCall(
            call_id=_text(block, "id", where),
            name=_text(block, "name", where),
            arguments=orjson.dumps(arguments).decode(),
            mark=self._mark(block, where),
        )

    def _result(self, block: Mapping[str, Any], where: str) -> Message:
        mark = self._mark(block, where)
        content = block.get("content")
        parts: list[Part]
        if isinstance(content, str):
            parts = [TextPart(content, mark)]
        else:
            parts = []
            for index, each in enumerate(objects(content, f"{where}.content")):
                place = f"{where}.content[{index}]"
                self._look(each, "messages.content", place)
                parts.append(self._part(each, place))
        return Message(
            Role.TOOL, tuple(parts), answers_call=_text(block, "tool_use_id", where), has_failed=flag(block, "is_error")
        )

    def tools(self) -> tuple[Tool, ...]:
        """The tools offered. One that is deferred is shown to the model once the conversation refers to it, so this is
        read after the messages."""
        offered = [(each, f"tools[{at}]") for at, each in enumerate(objects(self._document.get("tools"), "tools"))]
        deferred = {where for each, where in offered if flag(each, "defer_loading")}
        return tuple(
            self._tool(each, where)
            for each, where in offered
            if where not in deferred or _text(each, "name", where) in self._found
        )

    def _tool(self, content: Mapping[str, Any], where: str) -> Tool:
        size, kind = len(orjson.dumps(content)), content.get("type")
        if kind not in (None, "custom"):
            return Tool(str(kind), size, kind=ToolKind.HOSTED)
        self._look(content, "tools", where)
        description, schema, strict = content.get("description"), content.get("input_schema"), content.get("strict")
        return Tool(
            name=_text(content, "name", where),
            schema_bytes=size,
            description=description if isinstance(description, str) else "",
            schema=schema if isinstance(schema, dict) else None,
            strict=strict if isinstance(strict, bool) else None,
            mark=self._mark(content, where),
        )

    def tool_choice(self) -> tuple[ToolChoice | None, bool | None]:
        """How freely the model chooses, and whether it may call several tools at once."""
        choice = self._document.get("tool_choice")
        if choice is None:
            return None, None
        mode = _MODES.get(str(choice.get("type"))) if isinstance(choice, dict) else None
        if mode is None:
            self.uncarried.append("tool_choice")
            return None, None
        self._look(choice, "tool_choice", "tool_choice")
        name = choice.get("name")
        parallel = False if choice.get("disable_parallel_tool_use") is True else None
        return ToolChoice(mode, name if isinstance(name, str) else ""), parallel

    def output_config(self) -> tuple[OutputFormat | None, ReasoningWish | None]:
        """The shape demanded, and what is said about reasoning, which is said in two places."""
        config = self._document.get("output_config")
        config = config if isinstance(config, dict) else {}
        self._look(config, "output_config", "output_config")
        effort: Effort | None = None
        if config.get("effort") is not None:
            said = config["effort"]
            if isinstance(said, str) and said in _EFFORTS:
                effort = Effort(said)
            else:
                self.uncarried.append("output_config.effort")
        return self._shape(config.get("format")), self._wish(effort)

    def _shape(self, shape: object) -> OutputFormat | None:
        if shape is None:
            return None
        if isinstance(shape, dict) and shape.get("type") == "json_schema" and isinstance(shape.get("schema"), dict):
            self._look(shape, "output_config.format", "output_config.format")
            return OutputFormat(shape["schema"], strict=True)
        self.uncarried.append("output_config.format")
        return OutputFormat()

    def _wish(self, effort: Effort | None) -> ReasoningWish | None:
        thinking = self._document.get("thinking")
        if thinking is None:
            return None if effort is None else ReasoningWish(effort)
        kind = thinking.get("type") if isinstance(thinking, dict) else None
        if kind not in ("adaptive", "enabled", "disabled"):
            self.uncarried.append("thinking")
            return ReasoningWish(effort)
        self._look(thinking, "thinking", "thinking")
        display = thinking.get("display")
        if display not in (None, "summarized", "omitted"):
            self.uncarried.append("thinking.display")
        if kind == "disabled":
            return ReasoningWish(Effort.NONE)
        budget = thinking.get("budget_tokens") if kind == "enabled" else None
        return ReasoningWish(effort, budget if isinstance(budget, int) else None, is_told=display != "omitted")

    def user(self) -> str:
        """The end user the caller names."""
        metadata = self._document.get("metadata")
        if not isinstance(metadata, dict):
            return ""
        self._look(metadata, "metadata", "metadata")
        user = metadata.get("user_id")
        return user if isinstance(user, str) else ""


def _text(holder: Mapping[str, Any], field: str, where: str) -> str:
    value = holder.get(field)
    if not isinstance(value, str):
        raise invalid(f"{where}.{field}", "a text is needed")
    return value
