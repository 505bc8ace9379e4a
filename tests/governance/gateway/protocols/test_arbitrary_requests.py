"""Whatever a caller sends is a call or a problem told to the caller, and never an error of ours."""

import contextlib
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governance.gateway.errors import RequestProblem
from governance.gateway.protocols import anthropic, openai_chat, openai_completions, openai_embeddings, openai_responses
from routing.core.calls import CallRequest
from routing.core.failures import CallFailed
from routing.core.features import features_of
from routing.core.requirements import measure, requirements_of
from routing.providers.dialects import (
    anthropic_requests,
    gemini_embeddings,
    gemini_requests,
    ollama_embeddings,
    ollama_requests,
    openai_chat_requests,
    openai_responses_requests,
)
from routing.providers.dialects import openai_embeddings as openai_embeddings_dialect
from tests.routing.providers.dialects.test_arbitrary_answers import ANYTHING, broken, places

CHAT = {
    "model": "fast",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "name": "ann",
            "content": [
                {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,eA==", "detail": "low"}},
                {"type": "file", "file": {"file_data": "eA==", "filename": "a"}},
            ],
        },
        {
            "role": "assistant",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "1"}]},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": True}},
        {"type": "custom", "custom": {"name": "g", "format": {"type": "grammar", "grammar": {"syntax": "lark"}}}},
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}},
    "reasoning_effort": "low",
    "stop": ["a"],
    "temperature": 1,
    "metadata": {"a": "b"},
    "stream_options": {"include_usage": True},
}
MESSAGES = {
    "model": "fast",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}},
                {"type": "document", "source": {"type": "text", "data": "x"}, "title": "t"},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "s"},
                {"type": "tool_use", "id": "c", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "1"}]}],
        },
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}, "strict": True}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
    "metadata": {"user_id": "ann"},
    "stop_sequences": ["a"],
}
RESPONSES = {
    "model": "fast",
    "input": [
        {"type": "additional_tools", "tools": [{"type": "custom", "name": "h"}]},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "low"}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "a"}], "encrypted_content": "e"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "d", "name": "g", "input": "x"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "x"}]},
    ],
    "tools": [
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": {}}]},
        {"type": "custom", "name": "g", "format": {"type": "grammar", "syntax": "lark"}},
    ],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {"a": "b"},
}
COMPLETIONS = {
    "model": "fast",
    "prompt": ["Once", "Twice"],
    "max_tokens": 5,
    "n": 2,
    "stop": ["a"],
    "temperature": 1,
    "stream_options": {"include_usage": True},
}
EMBEDDINGS = {
    "model": "similar",
    "input": ["Ulm", "Bern"],
    "encoding_format": "base64",
    "dimensions": 3,
    "user": "ann",
}
CASES: list[tuple[Callable[[bytes], CallRequest], Any]] = [
    (openai_chat.read_request, CHAT),
    (anthropic.read_request, MESSAGES),
    (openai_responses.read_request, RESPONSES),
    (openai_completions.read_request, COMPLETIONS),
    (openai_embeddings.read_request, EMBEDDINGS),
]


@pytest.mark.parametrize(
    ("read", "document"), CASES, ids=["chat", "messages", "responses", "completions", "embeddings"]
)
@given(data=st.data())
def test_every_body_is_a_call_or_a_problem(
    read: Callable[[bytes], CallRequest], document: Any, data: st.DataObject
) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        document = broken(document, data.draw(st.sampled_from(places(document))), data.draw(ANYTHING))
    try:
        request = read(orjson.dumps(document))
    except RequestProblem:
        return
    requirements_of(request, measure(request))
    features_of(request)
    writers: list[Callable[[], bytes]] = [
        lambda: openai_chat_requests.request_body(request, model_id="m", stream=request.stream),
        lambda: anthropic_requests.request_body(request, model_id="m"),
        lambda: openai_responses_requests.request_body(request, model_id="m"),
        lambda: gemini_requests.request_body(request, model_id="m"),
        lambda: ollama_requests.request_body(request, model_id="m"),
    ]
    if request.embedding is not None:
        writers = [
            lambda: openai_embeddings_dialect.request_body(request, model_id="m"),
            lambda: gemini_embeddings.request_body(request, model="m"),
            lambda: ollama_embeddings.request_body(request, model_id="m"),
        ]
    for write in writers:
        with contextlib.suppress(CallFailed):
            orjson.loads(write())
