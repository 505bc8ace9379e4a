"""A provider whose model asks for one shell command and then repeats what the command said, in four vendors' words.

It answers streams only, since that is what coding programs ask for, and answers by what the request holds: without a
tool's result it calls the first shell tool it knows among those offered, with one it writes the result's text. A
request that offers no such tool (a title for the session) gets a word. The usage is the same in every protocol:
`UNCACHED` and `CACHED` tokens of prompt, `OUTPUT` tokens of answer.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

UNCACHED, CACHED, OUTPUT = 1000, 200, 40
ANSWER = "The note says: "
WORD = "Untitled"
CALL_ID = "call_77"

SHELLS: Mapping[str, Callable[[str], Any]] = {
    "Bash": lambda command: {"command": command, "description": "Read the note"},
    "exec_command": lambda command: {"cmd": command},
    "shell": lambda command: {"command": ["bash", "-c", command]},
}
"""The tools it knows, and their arguments for a command."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request comes down to: the names of the tools offered, and the text of the last result of one."""

    tools: tuple[str, ...]
    result: str | None


@dataclass(frozen=True, slots=True)
class Wire:
    """One vendor's words."""

    read: Callable[[Any], Asked]
    say: Callable[[str], list[bytes]]
    call: Callable[[str, Any], list[bytes]]


def sse(document: Any, *, event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(document)}\n\n".encode()


def text_of(content: Any) -> str:
    """All texts of a content, whatever its shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(text_of, content))
    if isinstance(content, dict):
        return "".join(text_of(content[name]) for name in ("text", "content", "output", "result") if name in content)
    return ""


# --- OpenAI chat ------------------------------------------------------------------------------------------------------


def _read_chat(document: Any) -> Asked:
    results = [text_of(each["content"]) for each in document["messages"] if each["role"] == "tool"]
    names = tuple(each["function"]["name"] for each in document.get("tools", ()))
    return Asked(names, results[-1] if results else None)


def _chat(delta: Any, finish: str) -> list[bytes]:
    head = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 1, "model": "model-x-2026"}
    usage = {
        "prompt_tokens": UNCACHED + CACHED,
        "completion_tokens": OUTPUT,
        "total_tokens": UNCACHED + CACHED + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED},
    }
    return [
        sse({**head, "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None}]}),
        sse({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}),
        sse({**head, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _call_by_chat(name: str, arguments: Any) -> list[bytes]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return _chat({"tool_calls": [{"index": 0, "id": CALL_ID, "type": "function", "function": function}]}, "tool_calls")


# --- Anthropic --------------------------------------------------------------------------------------------------------


def _read_messages(document: Any) -> Asked:
    blocks = [block for each in document["messages"] if isinstance(each["content"], list) for block in each["content"]]
    results = [text_of(block["content"]) for block in blocks if block["type"] == "tool_result"]
    return Asked(tuple(each["name"] for each in document.get("tools", ())), results[-1] if results else None)


def _messages(block: Any, delta: Any, reason: str) -> list[bytes]:
    usage = {"input_tokens": UNCACHED, "cache_read_input_tokens": CACHED, "cache_creation_input_tokens": 0}
    head = {"id": "msg_9", "type": "message", "role": "assistant", "model": "model-x-2026", "content": []}
    begun = {**head, "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    ended = {"stop_reason": reason, "stop_sequence": None}
    events: list[tuple[str, Any]] = [
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": ended, "usage": {"output_tokens": OUTPUT}}),
        ("message_stop", {}),
    ]
    return [sse({"type": kind, **members}, event=kind) for kind, members in events]


def _call_by_messages(name: str, arguments: Any) -> list[bytes]:
    block = {"type": "tool_use", "id": "toolu_77", "name": name, "input": {}}
    return _messages(block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use")


# --- OpenAI responses -------------------------------------------------------------------------------------------------


def _read_responses(document: Any) -> Asked:
    results = [text_of(each["output"]) for each in document["input"] if each.get("type") == "function_call_output"]
    return Asked(tuple(each.get("name", "") for each in document.get("tools", ())), results[-1] if results else None)


def _responses(item: Any, *middle: tuple[str, Any]) -> list[bytes]:
    head = {"id": "resp_9", "object": "response", "created_at": 1, "model": "model-x-2026", "error": None}
    usage = {
        "input_tokens": UNCACHED + CACHED,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": UNCACHED + CACHED + OUTPUT,
    }
    events: list[tuple[str, Any]] = [
        ("response.created", {"response": {**head, "status": "in_progress", "output": [], "usage": None}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        *middle,
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {**head, "status": "completed", "output": [item], "usage": usage}}),
    ]
    return [sse({"type": kind, "sequence_number": at, **rest}, event=kind) for at, (kind, rest) in enumerate(events)]


def _say_by_responses(text: str) -> list[bytes]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"id": "msg_9", "type": "message", "role": "assistant", "status": "completed", "content": content}
    delta = {"item_id": "msg_9", "output_index": 0, "content_index": 0, "delta": text}
    return _responses(item, ("response.output_text.delta", delta))


def _call_by_responses(name: str, arguments: Any) -> list[bytes]:
    written = json.dumps(arguments)
    item = {"id": "fc_9", "type": "function_call", "call_id": CALL_ID, "name": name, "arguments": written}
    delta = {"item_id": "fc_9", "output_index": 0, "delta": written}
    return _responses({**item, "status": "completed"}, ("response.function_call_arguments.delta", delta))


# --- Gemini -----------------------------------------------------------------------------------------------------------


def _read_gemini(document: Any) -> Asked:
    parts = [part for each in document["contents"] for part in each["parts"]]
    results = [text_of(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]
    declared = [each for tool in document.get("tools", ()) for each in tool.get("functionDeclarations", ())]
    return Asked(tuple(each["name"] for each in declared), results[-1] if results else None)


def _gemini(part: Any) -> list[bytes]:
    usage = {
        "promptTokenCount": UNCACHED + CACHED,
        "cachedContentTokenCount": CACHED,
        "candidatesTokenCount": OUTPUT,
        "totalTokenCount": UNCACHED + CACHED + OUTPUT,
    }
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    document = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "model-x-2026", "responseId": "r9"}
    return [sse(document)]


WIRES: Mapping[str, Wire] = {
    "/chat/completions": Wire(_read_chat, lambda text: _chat({"content": text}, "stop"), _call_by_chat),
    "/messages": Wire(
        _read_messages,
        lambda text: _messages({"type": "text", "text": ""}, {"type": "text_delta", "text": text}, "end_turn"),
        _call_by_messages,
    ),
    "/responses": Wire(_read_responses, _say_by_responses, _call_by_responses),
    ":streamGenerateContent": Wire(
        _read_gemini,
        lambda text: _gemini({"text": text}),
        lambda name, arguments: _gemini({"functionCall": {"name": name, "args": arguments}}),
    ),
}
"""The vendors, by how the paths of their requests end."""


@dataclass
class CodingModel:
    """The server. ``command`` is what its model wants to run, ``requests`` the bodies it was sent with their paths."""

    command: str
    url: str = ""
    requests: list[tuple[str, Any]] = field(default_factory=list)

    def answer(self, path: str, document: Any) -> list[bytes]:
        """The frames of an answer."""
        self.requests.append((path, document))
        wire = next(wire for end, wire in WIRES.items() if path.endswith(end))
        asked = wire.read(document)
        if asked.result is not None:
            return wire.say(ANSWER + asked.result)
        name = next((name for name in asked.tools if name in SHELLS), None)
        return wire.say(WORD) if name is None else wire.call(name, SHELLS[name](self.command))


@contextmanager
def running_coding_model(*, command: str) -> Iterator[CodingModel]:
    """The server on loopback, until the block ends."""
    model = CodingModel(command)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            frames = model.answer(self.path.partition("?")[0], json.loads(body))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for frame in (*frames, b""):
                self.wfile.write(f"{len(frame):x}\r\n".encode() + frame + b"\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: what was asked is in ``requests``."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="coding-model", daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
