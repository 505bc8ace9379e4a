"""What writing a call in another protocol costs: an agent's request of 60 KB, and each piece of a streamed answer.

Run it from the project's folder; see README.md beside it.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from governance.gateway.protocols import anthropic, openai_chat, openai_responses
from governance.gateway.protocols.anthropic_replies import AnthropicWriter
from governance.gateway.protocols.base import Head
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
from governance.gateway.protocols.openai_responses_replies import OpenAIResponsesWriter
from routing.core.calls import CallRequest
from routing.providers.base import Endpoint
from routing.providers.dialects import (
    anthropic_replies,
    anthropic_requests,
    gemini_requests,
    openai_chat_replies,
    openai_chat_requests,
    openai_responses_requests,
)
from routing.providers.dialects.tools import NO_NAMES
from routing.providers.sse import EventReader

REPEATS = 200
SCHEMA = {
    "type": "object",
    "properties": {f"argument_{at}": {"type": "string", "description": "What it is for. " * 4} for at in range(6)},
    "required": ["argument_0"],
}
TURNS = 20
TOOLS = 24


def chat_request() -> bytes:
    """As an agent that speaks chat completions sends it after some rounds."""
    messages: list[Any] = [{"role": "system", "content": "You are a careful assistant. " * 100}]
    for turn in range(TURNS):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "tool_1", "arguments": '{"argument_0":"x"}'}}
        messages += [
            {"role": "assistant", "content": "I look at it.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "line of output\n" * 90},
        ]
    tools = [
        {"type": "function", "function": {"name": f"tool_{at}", "description": "Does it. " * 8, "parameters": SCHEMA}}
        for at in range(TOOLS)
    ]
    return orjson.dumps(
        {"model": "fast", "messages": [*messages, {"role": "user", "content": "Go on"}], "tools": tools}
    )


def messages_request() -> bytes:
    """The same as Anthropic's messages."""
    messages: list[Any] = [{"role": "user", "content": "Begin"}]
    for turn in range(TURNS):
        use = {"type": "tool_use", "id": f"c{turn}", "name": "tool_1", "input": {"argument_0": "x"}}
        result = {"type": "tool_result", "tool_use_id": f"c{turn}", "content": "line of output\n" * 90}
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": "I look at it."}, use]},
            {"role": "user", "content": [result]},
        ]
    tools = [{"name": f"tool_{at}", "description": "Does it. " * 8, "input_schema": SCHEMA} for at in range(TOOLS)]
    system = "You are a careful assistant. " * 100
    return orjson.dumps({"model": "fast", "max_tokens": 99, "system": system, "messages": messages, "tools": tools})


def responses_request() -> bytes:
    """The same as OpenAI's responses."""
    items: list[Any] = [{"role": "user", "content": "Begin"}]
    for turn in range(TURNS):
        arguments = '{"argument_0":"x"}'
        items += [
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look at it."}]},
            {"type": "function_call", "call_id": f"c{turn}", "name": "tool_1", "arguments": arguments},
            {"type": "function_call_output", "call_id": f"c{turn}", "output": "line of output\n" * 90},
        ]
    tools = [
        {
            "type": "function",
            "name": f"tool_{at}",
            "description": "Does it. " * 8,
            "parameters": SCHEMA,
            "strict": False,
        }
        for at in range(TOOLS)
    ]
    instructions = "You are a careful assistant. " * 100
    return orjson.dumps({"model": "fast", "instructions": instructions, "input": items, "tools": tools})


def best(action: Callable[[], object], *, count: int = 1) -> float:
    """Milliseconds of processor time, the best of many."""
    least = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        for _ in range(count):
            action()
        least = min(least, (time.process_time() - started) / count)
    return least * 1000


def measure_requests() -> None:
    reads: dict[str, tuple[Callable[[bytes], CallRequest], bytes]] = {
        "chat": (openai_chat.read_request, chat_request()),
        "messages": (anthropic.read_request, messages_request()),
        "responses": (openai_responses.read_request, responses_request()),
    }
    writes: dict[str, Callable[[CallRequest], bytes]] = {
        "chat": lambda request: openai_chat_requests.request_body(request, model_id="m", stream=False),
        "messages": lambda request: anthropic_requests.request_body(request, model_id="m"),
        "responses": lambda request: openai_responses_requests.request_body(request, model_id="m"),
        "Gemini": lambda request: gemini_requests.request_body(request, model_id="m"),
    }
    print(f"{'in':10} {'bytes':>7} {'reading':>8} " + " ".join(f"{'to ' + name:>12}" for name in writes) + "   (ms)")
    for name, (read, body) in reads.items():
        request = read(body)
        spent = [best(partial(write, request)) for write in writes.values()]
        reading = best(partial(read, body))
        print(f"{name:10} {len(body):7} {reading:8.3f} " + " ".join(f"{each:12.3f}" for each in spent))


def measure_streams() -> None:
    pieces = 500
    chunk = {"id": "r", "model": "m", "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
    endpoint = Endpoint(provider="p", adapter_type="custom", base_url="https://api.example.com/v1")
    head = Head(call="c", model="fast", created=1)

    def pass_on(frame: bytes, codec: Any, writer: Any) -> None:
        reader = EventReader()
        for _ in range(pieces):
            for event in reader.feed(frame):
                writer.write(codec.read(event).events)

    def translate(frame: bytes, codec: Callable[[], Any], writer: Any) -> None:
        pass_on(frame, codec(), writer.stream(head))

    streams: list[tuple[str, Any, Callable[[], Any], Any]] = [
        (
            "messages to chat",
            delta,
            lambda: anthropic_replies.EventReader(endpoint=endpoint, tools=NO_NAMES),
            OpenAIChatWriter(),
        ),
        (
            "chat to messages",
            chunk,
            lambda: openai_chat_replies.ChunkReader(endpoint=endpoint, hides_usage=False),
            AnthropicWriter(),
        ),
        (
            "chat to responses",
            chunk,
            lambda: openai_chat_replies.ChunkReader(endpoint=endpoint, hides_usage=False),
            OpenAIResponsesWriter(),
        ),
    ]
    for name, document, codec, writer in streams:
        frame = b"data: " + orjson.dumps(document) + b"\n\n"
        spent = best(partial(translate, frame, codec, writer))
        print(f"{name:18} {spent / pieces * 1000:6.1f} microseconds a piece")


if __name__ == "__main__":
    measure_requests()
    measure_streams()
