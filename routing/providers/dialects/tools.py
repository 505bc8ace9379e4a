"""Tools on wires that know less of them than we do: names without namespaces, and free text inside a JSON object.

A namespaced tool gets one flat name, the same in every request; a tool that takes free text becomes one that takes an
object with one text, ``input``. What the model then calls is turned back before anybody sees it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from routing.core.calls import Event, ToolArguments, ToolCallStarted
from routing.core.conversation import Tool, ToolCall, ToolKind

LONGEST_NAME = 64
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}
FREE_TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Called:
    """The tool behind a name on the wire."""

    name: str
    namespace: str = ""
    kind: ToolKind = ToolKind.FUNCTION


def flat_name(name: str, namespace: str) -> str:
    """The name on the wire of a tool, whatever else is offered."""
    if not namespace:
        return name
    joined = f"{namespace}__{name}"
    if len(joined) <= LONGEST_NAME:
        return joined
    return f"{joined[: LONGEST_NAME - 17]}_{sha256(joined.encode()).hexdigest()[:16]}"


class ToolNames:
    """The tools of one request by their names on the wire."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._called = {
            flat_name(tool.name, tool.namespace): Called(tool.name, tool.namespace, tool.kind)
            for tool in tools
            if tool.namespace or tool.kind is not ToolKind.FUNCTION
        }

    def of(self, name: str) -> Called:
        """What the model means by a name."""
        return self._called.get(name) or Called(name)


NO_NAMES = ToolNames()
"""For requests whose tools kept their names."""


def description_of(tool: Tool) -> str:
    """What a tool is said to do, with the grammar of the text it takes for wires that have no place for one."""
    if tool.grammar is None:
        return tool.description
    rules = tool.grammar.get("grammar", tool.grammar)  # chat completions write it one level deeper
    rules = rules if isinstance(rules, dict) else {}
    told = f"The input has to follow this {rules.get('syntax', '')} grammar:\n{rules.get('definition', '')}"
    return f"{tool.description}\n\n{told}" if tool.description else told


def schema_of(tool: Tool) -> dict[str, Any]:
    """The schema of what a tool takes, as an object's."""
    if tool.kind is ToolKind.CUSTOM:
        return FREE_TEXT
    if not tool.schema:
        return NO_ARGUMENTS
    schema = dict(tool.schema)
    if schema.get("type") == "object":
        schema.setdefault("properties", {})
    return schema


def arguments_of(call: ToolCall) -> str:
    """The arguments of an earlier call as the JSON text of an object."""
    if call.kind is ToolKind.CUSTOM:
        return orjson.dumps({"input": call.arguments}).decode()
    return call.arguments or "{}"


def input_of(call: ToolCall) -> dict[str, Any] | None:
    """The arguments of an earlier call as an object; ``None`` if the model wrote something else."""
    if call.kind is ToolKind.CUSTOM:
        return {"input": call.arguments}
    if not call.arguments.strip():
        return {}
    try:
        value = orjson.loads(call.arguments)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


class CallReader:
    """Turns the tool calls of one answer back: flat names into their tools, objects into free text.

    The arguments of a free-text tool are kept until they are complete.
    """

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._kept: dict[int, list[str]] = {}

    def start(self, index: int, call_id: str, name: str) -> ToolCallStarted:
        """A call begins."""
        called = self._names.of(name)
        if called.kind is ToolKind.CUSTOM:
            self._kept[index] = []
        return ToolCallStarted(index, call_id, called.name, called.kind, called.namespace)

    def more(self, index: int, fragment: str) -> list[Event]:
        """A piece of its arguments."""
        kept = self._kept.get(index)
        if kept is None:
            return [ToolArguments(index, fragment)]
        kept.append(fragment)
        return []

    def end(self, index: int) -> list[Event]:
        """The call is complete."""
        kept = self._kept.pop(index, None)
        return [] if kept is None else [ToolArguments(index, _free_text("".join(kept)))]

    def end_all(self) -> list[Event]:
        """The answer is complete."""
        return [event for index in tuple(self._kept) for event in self.end(index)]


def _free_text(arguments: str) -> str:
    """The text inside an object of one; whatever else the model wrote stays as it is."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = value.get("input") if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments
