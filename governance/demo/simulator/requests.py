"""From the JSON of a request to what the simulator needs of it; faults become 400s that name the field."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from governance.demo.simulator.problems import RequestProblem

JsonObject = dict[str, Any]

_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_TOOL_CHOICES = frozenset({"none", "auto", "required"})
_FORMATS = frozenset({"text", "json_object", "json_schema"})
_TYPE_NAMES: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the caller offers."""

    name: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRequest:
    """A chat or legacy completion, read.

    ``prompt`` is the text that the answer repeats the first words of; ``prompt_bytes`` counts the UTF-8 bytes
    of all text; ``limit`` is the cap in tokens; ``forced`` the tool that has to be called; ``schema`` the
    schema to satisfy; ``as_object`` says that any JSON object will do.
    """

    model: str
    prompt: str
    prompt_bytes: int
    stream: bool = False
    include_usage: bool = False
    limit: int | None = None
    tools: tuple[Tool, ...] = ()
    forced: Tool | None = None
    may_call: bool = False
    schema: JsonObject | None = None
    as_object: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsRequest:
    """An embeddings call, read; each input as the bytes its vector is derived from."""

    model: str
    inputs: tuple[bytes, ...]
    dimensions: int | None
    as_base64: bool


def read_document(body: bytes) -> JsonObject:
    """The request body as a JSON object; raises ``RequestProblem``."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestProblem(f"We could not parse the JSON body of your request: {error}.") from error
    if not isinstance(document, dict):
        raise RequestProblem("The body of your request must be a JSON object.")
    return document


def read_model(document: Mapping[str, Any]) -> str:
    """The ``model`` field; raises ``RequestProblem``."""
    model: str = _required(document, "model", str)
    if not model:
        raise RequestProblem("You must provide a model parameter.", param="model")
    return model


def read_chat(document: Mapping[str, Any]) -> TextRequest:
    """A body of ``chat/completions``; raises ``RequestProblem``."""
    messages = _required(document, "messages", list)
    if not messages:
        raise _out_of_range("messages", "expected an array with at least 1 item", "empty_array")
    prompt_bytes, last_user, last_role = 0, "", ""
    for index, message in enumerate(messages):
        role, text = _read_message(message, where=f"messages[{index}]")
        prompt_bytes += len(text.encode("utf-8", "surrogatepass"))
        last_role = role
        if role == "user":
            last_user = text
    tools = _read_tools(document.get("tools"))
    choice, forced = _read_choice(document.get("tool_choice"), tools=tools)
    as_object, schema = _read_format(document.get("response_format"))
    stream = _optional(document, "stream", bool) or False
    limit = _read_limit(document, "max_completion_tokens")
    _check_sampling(document)
    return TextRequest(
        model=read_model(document),
        prompt=last_user,
        prompt_bytes=prompt_bytes,
        stream=stream,
        include_usage=_read_include_usage(document, stream=stream),
        limit=_read_limit(document, "max_tokens") if limit is None else limit,
        tools=tools,
        forced=forced,
        may_call=bool(tools) and choice != "none" and last_role == "user",
        schema=schema,
        as_object=as_object,
    )


def read_completion(document: Mapping[str, Any]) -> TextRequest:
    """A body of the legacy ``completions``, of one prompt; raises ``RequestProblem``."""
    prompt = document.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str):
        prompt = prompt[0]
    if not isinstance(prompt, str):
        if prompt is None:
            raise _missing("prompt")
        raise _wrong_type("prompt", "a string or an array of one string", prompt)
    stream = _optional(document, "stream", bool) or False
    _check_sampling(document)
    return TextRequest(
        model=read_model(document),
        prompt=prompt,
        prompt_bytes=len(prompt.encode("utf-8", "surrogatepass")),
        stream=stream,
        include_usage=_read_include_usage(document, stream=stream),
        limit=_read_limit(document, "max_tokens"),
    )


def read_embeddings(document: Mapping[str, Any]) -> EmbeddingsRequest:
    """A body of ``embeddings``: a text, texts, tokens, or arrays of tokens; raises ``RequestProblem``."""
    if document.get("input") is None:
        raise _missing("input")
    given = document["input"]
    if not isinstance(given, str | list):
        raise _wrong_type("input", "a string or an array", given)
    if not given:
        raise _out_of_range("input", "must not be empty", "invalid_value")
    encoding = _optional(document, "encoding_format", str) or "float"
    if encoding not in ("float", "base64"):
        raise _out_of_range("encoding_format", "expected 'float' or 'base64'", "invalid_value")
    dimensions = _optional(document, "dimensions", int)
    if dimensions is not None and not 1 <= dimensions <= 4096:
        raise _out_of_range("dimensions", "expected a value between 1 and 4096", "invalid_value")
    single = isinstance(given, str) or all(_is_token(item) for item in given)
    items = [given] if single else given
    return EmbeddingsRequest(
        model=read_model(document),
        inputs=tuple(_read_input(item, where=f"input[{index}]") for index, item in enumerate(items)),
        dimensions=dimensions,
        as_base64=encoding == "base64",
    )


def _read_message(message: object, *, where: str) -> tuple[str, str]:
    """Role and text of one message."""
    if not isinstance(message, dict):
        raise _wrong_type(where, "an object", message)
    role = message.get("role")
    if role is None:
        raise _missing(f"{where}.role")
    if role not in _ROLES:
        raise _out_of_range(f"{where}.role", f"expected one of {', '.join(sorted(_ROLES))}", "invalid_value")
    content = message.get("content")
    if isinstance(content, str):
        return role, content
    if content is None and role == "assistant":
        return role, ""
    if not isinstance(content, list):
        raise _wrong_type(f"{where}.content", "a string or an array of parts", content)
    return role, _read_parts(content, where=f"{where}.content")


def _read_parts(parts: Sequence[object], *, where: str) -> str:
    """The text of a message that is given in parts; other parts are let through unread."""
    texts = []
    for index, part in enumerate(parts):
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise _wrong_type(f"{where}[{index}]", "an object with a type", part)
        if part["type"] == "text":
            if not isinstance(part.get("text"), str):
                raise _wrong_type(f"{where}[{index}].text", "a string", part.get("text"))
            texts.append(part["text"])
    return "\n".join(texts)


def _read_tools(tools: object) -> tuple[Tool, ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise _wrong_type("tools", "an array", tools)
    return tuple(_read_tool(tool, where=f"tools[{index}]") for index, tool in enumerate(tools))


def _read_tool(tool: object, *, where: str) -> Tool:
    if not isinstance(tool, dict):
        raise _wrong_type(where, "an object", tool)
    if tool.get("type") != "function":
        raise _out_of_range(f"{where}.type", "expected 'function'", "invalid_value")
    function = tool.get("function")
    if not isinstance(function, dict):
        raise _missing(f"{where}.function")
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise _missing(f"{where}.function.name")
    parameters = function.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise _wrong_type(f"{where}.function.parameters", "an object", parameters)
    return Tool(name=function["name"], parameters=parameters)


def _read_choice(choice: object, *, tools: tuple[Tool, ...]) -> tuple[str, Tool | None]:
    """The mode of ``tool_choice`` and the tool that it forces."""
    if choice is None:
        return "auto", None
    if not tools:
        raise RequestProblem(
            "Invalid value for 'tool_choice': only allowed when 'tools' are specified.", param="tool_choice"
        )
    if isinstance(choice, str):
        if choice not in _TOOL_CHOICES:
            raise _out_of_range("tool_choice", "expected 'none', 'auto' or 'required'", "invalid_value")
        return choice, tools[0] if choice == "required" else None
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict):
        raise _wrong_type("tool_choice", "a string or an object with a function", choice)
    for tool in tools:
        if tool.name == function.get("name"):
            return "required", tool
    raise _out_of_range("tool_choice.function.name", "not among 'tools'", "invalid_value")


def _read_format(wanted: object) -> tuple[bool, JsonObject | None]:
    """Whether any JSON object is asked for, and the schema if one is given."""
    if wanted is None:
        return False, None
    if not isinstance(wanted, dict):
        raise _wrong_type("response_format", "an object", wanted)
    kind = wanted.get("type")
    if kind not in _FORMATS:
        raise _out_of_range("response_format.type", "expected 'text', 'json_object' or 'json_schema'", "invalid_value")
    if kind != "json_schema":
        return kind == "json_object", None
    described = wanted.get("json_schema")
    if not isinstance(described, dict):
        raise _missing("response_format.json_schema")
    if not isinstance(described.get("name"), str):
        raise _missing("response_format.json_schema.name")
    schema = described.get("schema")
    if not isinstance(schema, dict):
        raise _missing("response_format.json_schema.schema")
    return False, schema


def _read_include_usage(document: Mapping[str, Any], *, stream: bool) -> bool:
    options = _optional(document, "stream_options", dict)
    if options is None:
        return False
    if not stream:
        raise RequestProblem(
            "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
            param="stream_options",
        )
    value = options.get("include_usage", False)
    if not isinstance(value, bool):
        raise _wrong_type("stream_options.include_usage", "a boolean", value)
    return value


def _read_limit(document: Mapping[str, Any], name: str) -> int | None:
    limit: int | None = _optional(document, name, int)
    if limit is not None and limit < 1:
        raise _out_of_range(name, "expected a value >= 1", "integer_below_min_value")
    return limit


def _check_sampling(document: Mapping[str, Any]) -> None:
    """One answer only, and the two sampling parameters within their bounds."""
    if _optional(document, "n", int) not in (None, 1):
        raise RequestProblem("Invalid 'n': the simulator answers once.", param="n", code="unsupported_parameter")
    for name, most in (("temperature", 2), ("top_p", 1)):
        value = document.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong_type(name, "a decimal", value)
        if not 0 <= value <= most:
            raise _out_of_range(name, f"expected a value between 0 and {most}", "decimal_out_of_range")


def _read_input(item: object, *, where: str) -> bytes:
    if isinstance(item, str):
        if not item:
            raise _out_of_range(where, "must not be empty", "invalid_value")
        return item.encode("utf-8", "surrogatepass")
    if isinstance(item, list) and item and all(_is_token(token) for token in item):
        return orjson.dumps(item)
    raise _wrong_type(where, "a string or an array of tokens", item)


def _is_token(item: object) -> bool:
    return isinstance(item, int) and not isinstance(item, bool)


def _required(document: Mapping[str, Any], name: str, kind: type) -> Any:
    value = _optional(document, name, kind)
    if value is None:
        raise _missing(name)
    return value


def _optional(document: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of that type, or ``None`` where it is absent or null."""
    value = document.get(name)
    if value is None or type(value) is kind:
        return value
    raise _wrong_type(name, _TYPE_NAMES[kind], value)


def _missing(param: str) -> RequestProblem:
    return RequestProblem(f"Missing required parameter: '{param}'.", param=param, code="missing_required_parameter")


def _wrong_type(param: str, expected: str, value: object) -> RequestProblem:
    given = _TYPE_NAMES.get(type(value), "something else")
    return RequestProblem(
        f"Invalid type for '{param}': expected {expected}, but got {given} instead.",
        param=param,
        code="invalid_type",
    )


def _out_of_range(param: str, reason: str, code: str) -> RequestProblem:
    return RequestProblem(f"Invalid '{param}': {reason}.", param=param, code=code)
