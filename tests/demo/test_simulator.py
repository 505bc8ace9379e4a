"""The provider simulator over real HTTP: the protocol, and that it never passes for a model."""

import json
import math
import struct
from base64 import b64decode
from typing import Any

import httpx
import openai
import pytest

from governance.demo.simulator.instances import minimal_instance
from tests.demo.questions import MODEL, chat, read_frames, route_stats
from tests.servers.simulator import SimulatorServer

WEATHER = {
    "type": "function",
    "function": {
        "name": "look_up_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1},
            },
            "required": ["city", "unit", "days"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "read_clock"}}


class TestHonesty:
    def test_every_answer_is_marked(self, http: httpx.Client) -> None:
        for response in (
            http.post("/chat/completions", json=chat()),
            http.post("/chat/completions", json=chat(stream=True)),
            http.post("/chat/completions", json={}),
            http.get("/models"),
            http.get("/nowhere"),
        ):
            assert response.headers["x-signalbox-simulator"] == "1"

    def test_the_text_says_so_and_carries_the_fingerprint(self, http: httpx.Client) -> None:
        answer = http.post("/chat/completions", json=chat("one two three four five six seven eight nine")).json()

        assert answer["system_fingerprint"] == "signalbox-simulator"
        text = answer["choices"][0]["message"]["content"]
        assert text.startswith("Simulated answer to: one two three four five six seven eight ")
        assert "nine" not in text

    def test_models_name_the_simulator_as_their_owner(self, sdk: openai.OpenAI) -> None:
        assert {model.owned_by for model in sdk.models.list()} == {"atlas (signalbox-simulator)"}


class TestChat:
    def test_a_whole_answer(self, sdk: openai.OpenAI) -> None:
        answer = sdk.chat.completions.create(**chat("x" * 41))

        assert answer.object == "chat.completion"
        assert answer.model == MODEL
        assert answer.choices[0].finish_reason == "stop"
        assert answer.choices[0].message.content is not None
        assert len(answer.choices[0].message.content.split()) == 32
        assert answer.usage is not None
        assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 32)
        assert answer.usage.total_tokens == 43

    def test_a_stream_carries_usage_only_if_asked(self, sdk: openai.OpenAI) -> None:
        whole = sdk.chat.completions.create(**chat())
        plain = list(sdk.chat.completions.create(**chat(stream=True)))
        counted = list(sdk.chat.completions.create(**chat(stream=True, stream_options={"include_usage": True})))

        assert all(chunk.usage is None for chunk in plain)
        assert counted[-1].choices == []
        assert counted[-1].usage == whole.usage
        for chunks in (plain, counted[:-1]):
            assert chunks[0].choices[0].delta.role == "assistant"
            assert chunks[-1].choices[0].finish_reason == "stop"
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
            assert text == whole.choices[0].message.content

    def test_a_stream_ends_with_its_mark(self, http: httpx.Client) -> None:
        frames = read_frames(http.post("/chat/completions", json=chat(stream=True)))

        assert frames[-1] == "[DONE]"
        assert all(json.loads(frame)["id"] == json.loads(frames[0])["id"] for frame in frames[:-1])

    def test_the_same_request_has_the_same_text(self, sdk: openai.OpenAI) -> None:
        first, second = (sdk.chat.completions.create(**chat()) for _ in range(2))

        assert first.choices == second.choices
        assert first.id != second.id

    @pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
    @pytest.mark.parametrize(("cap", "reason"), [(5, "length"), (32, "stop"), (500, "stop")])
    def test_a_cap_cuts_the_answer(self, sdk: openai.OpenAI, name: str, cap: int, reason: str) -> None:
        answer = sdk.chat.completions.create(**chat(**{name: cap}))

        assert answer.choices[0].finish_reason == reason
        assert answer.usage is not None
        assert answer.usage.completion_tokens == min(cap, 32)
        assert len((answer.choices[0].message.content or "").split()) == min(cap, 32)

    def test_token_use_as_set(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        simulator.set_behaviour(tokens={"prompt": 900, "completion": 50, "cached": 600, "reasoning": 20})

        answer = sdk.chat.completions.create(**chat())

        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 900
        assert answer.usage.completion_tokens == 50
        assert answer.usage.prompt_tokens_details is not None
        assert answer.usage.prompt_tokens_details.cached_tokens == 600
        assert answer.usage.completion_tokens_details is not None
        assert answer.usage.completion_tokens_details.reasoning_tokens == 20
        assert len((answer.choices[0].message.content or "").split()) == 30

    def test_prompt_tokens_count_bytes_of_all_text(self, http: httpx.Client) -> None:
        messages = [
            {"role": "system", "content": "é" * 8},
            {"role": "user", "content": [{"type": "text", "text": "abcdefgh"}, {"type": "image_url"}]},
        ]

        answer = http.post("/chat/completions", json={"model": MODEL, "messages": messages}).json()

        assert answer["usage"]["prompt_tokens"] == 6

    def test_a_prompt_may_be_empty_and_an_answer_too(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        simulator.set_behaviour(tokens={"completion": 0})

        answer = sdk.chat.completions.create(**chat(""))
        chunks = list(sdk.chat.completions.create(**chat("", stream=True)))

        assert answer.choices[0].message.content == ""
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 0
        assert len(chunks) == 2


class TestTools:
    def test_the_word_tool_gets_a_call(self, sdk: openai.OpenAI) -> None:
        answer = sdk.chat.completions.create(**chat("Use a tool, please.", tools=[WEATHER, CLOCK]))

        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content is None
        assert choice.message.tool_calls is not None
        call = choice.message.tool_calls[0]
        assert call.type == "function"
        assert call.function.name == "look_up_weather"
        assert json.loads(call.function.arguments) == {"city": "simulated", "unit": "celsius", "days": 1}

    @pytest.mark.parametrize(
        ("choice", "name"),
        [
            ("required", "look_up_weather"),
            ({"type": "function", "function": {"name": "read_clock"}}, "read_clock"),
        ],
        ids=["required", "named"],
    )
    def test_a_forced_choice_gets_a_call(self, sdk: openai.OpenAI, choice: Any, name: str) -> None:
        answer = sdk.chat.completions.create(**chat("Hello.", tools=[WEATHER, CLOCK], tool_choice=choice))

        assert answer.choices[0].message.tool_calls is not None
        called = answer.choices[0].message.tool_calls[0]
        assert called.type == "function"
        assert called.function.name == name

    @pytest.mark.parametrize(
        "fields",
        [{"tools": [WEATHER], "tool_choice": "none"}, {"tools": []}, {}],
        ids=["forbidden", "none-offered", "absent"],
    )
    def test_no_call_without_leave(self, sdk: openai.OpenAI, fields: dict[str, Any]) -> None:
        answer = sdk.chat.completions.create(**chat("Use a tool.", **fields))

        assert answer.choices[0].message.tool_calls is None

    def test_no_call_without_the_word(self, sdk: openai.OpenAI) -> None:
        answer = sdk.chat.completions.create(**chat("Hello, stoolpigeon.", tools=[WEATHER]))

        assert answer.choices[0].finish_reason == "stop"

    def test_a_tool_result_is_answered_with_text(self, sdk: openai.OpenAI) -> None:
        first = sdk.chat.completions.create(**chat("Use a tool.", tools=[WEATHER]))
        message = first.choices[0].message
        assert message.tool_calls is not None
        messages: list[Any] = [
            {"role": "user", "content": "Use a tool."},
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"},
        ]

        second = sdk.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])  # type: ignore[list-item]

        assert second.choices[0].finish_reason == "stop"
        assert (second.choices[0].message.content or "").startswith("Simulated answer to: Use a tool.")

    def test_a_streamed_call_adds_up_to_the_whole_one(self, sdk: openai.OpenAI) -> None:
        request = chat("Use a tool.", tools=[WEATHER])
        whole = sdk.chat.completions.create(**request).choices[0].message.tool_calls
        chunks = list(sdk.chat.completions.create(**request, stream=True))

        deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
        assert whole is not None
        assert whole[0].type == "function"
        assert deltas[0].id == whole[0].id
        assert "".join(delta.function.arguments or "" for delta in deltas if delta.function) == (
            whole[0].function.arguments
        )
        assert len(deltas) > 2
        assert chunks[-1].choices[0].finish_reason == "tool_calls"


class TestStructuredOutput:
    def test_a_json_object(self, sdk: openai.OpenAI) -> None:
        answer = sdk.chat.completions.create(**chat(response_format={"type": "json_object"}))

        assert json.loads(answer.choices[0].message.content or "")["simulated"] is True

    def test_a_schema(self, sdk: openai.OpenAI) -> None:
        schema = {
            "type": "object",
            "properties": {"ok": {"type": "boolean"}, "score": {"type": "number"}},
            "required": ["ok", "score"],
        }
        described = {"name": "verdict", "strict": True, "schema": schema}
        wanted = {"type": "json_schema", "json_schema": described}

        answer = sdk.chat.completions.create(**chat(response_format=wanted))

        assert json.loads(answer.choices[0].message.content or "") == {"ok": False, "score": 0}

    def test_a_cap_cuts_json_too(self, sdk: openai.OpenAI) -> None:
        answer = sdk.chat.completions.create(**chat(response_format={"type": "json_object"}, max_tokens=2))

        assert answer.choices[0].finish_reason == "length"
        assert answer.choices[0].message.content == '{"simula'

    @pytest.mark.parametrize(
        ("schema", "instance"),
        [
            ({"type": "string"}, "simulated"),
            ({"type": "string", "minLength": 12}, "simulatedsim"),
            ({"type": "string", "maxLength": 3}, "sim"),
            ({"type": "string", "format": "date"}, "2000-01-01"),
            ({"type": "integer"}, 0),
            ({"type": "integer", "minimum": 2.5}, 3),
            ({"type": "integer", "exclusiveMinimum": 3}, 4),
            ({"type": "integer", "minimum": 5, "multipleOf": 4}, 8),
            ({"type": "integer", "maximum": -2}, -2),
            ({"type": "number", "exclusiveMaximum": 0}, -1),
            ({"type": "number", "exclusiveMinimum": 0, "maximum": 1}, 0.5),
            ({"type": "boolean"}, False),
            ({"type": "null"}, None),
            ({"type": ["number", "null"]}, 0),
            ({"enum": ["red", "green"]}, "red"),
            ({"const": 7}, 7),
            ({"type": "array", "items": {"type": "string"}}, []),
            ({"type": "array", "items": {"type": "boolean"}, "minItems": 2}, [False, False]),
            ({"type": "object", "properties": {"a": {"type": "string"}}}, {}),
            ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
            ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, None),
            ({"allOf": [{"type": "object"}, {"required": ["a"]}]}, {"a": "simulated"}),
            (
                {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/x"}}}
                | {"$defs": {"x": {"const": 1}}},
                {"a": 1},
            ),
        ],
        ids=json.dumps,
    )
    def test_minimal_instances(self, schema: dict[str, Any], instance: Any) -> None:
        assert minimal_instance(schema) == instance

    def test_endless_schemas_end(self) -> None:
        node = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}

        assert json.dumps(minimal_instance(node)).startswith('{"next": {"next": {')
        assert minimal_instance({"$ref": "#"}) == "simulated"

    def test_a_broken_schema_is_refused(self, http: httpx.Client) -> None:
        described = {"name": "broken", "schema": {"type": "string", "minLength": "many"}}

        response = http.post(
            "/chat/completions",
            json=chat(response_format={"type": "json_schema", "json_schema": described}),
        )

        assert response.status_code == 400
        assert response.json()["error"]["param"] == "response_format.json_schema.schema"


class TestEmbeddings:
    def test_base64_and_numbers_are_the_same_vectors(self, sdk: openai.OpenAI, http: httpx.Client) -> None:
        by_sdk = sdk.embeddings.create(model="embed-small", input=["one", "two"], dimensions=16)
        request = {"model": "embed-small", "input": ["one", "two"], "dimensions": 16}
        numbers = http.post("/embeddings", json=request).json()
        encoded = http.post("/embeddings", json=request | {"encoding_format": "base64"}).json()

        for index in range(2):
            packed = b64decode(encoded["data"][index]["embedding"])
            vector = list(struct.unpack("<16f", packed))
            assert numbers["data"][index]["embedding"] == vector
            assert by_sdk.data[index].embedding == pytest.approx(vector)
            assert math.sqrt(sum(number * number for number in vector)) == pytest.approx(1.0)
        assert numbers["data"][0]["embedding"] != numbers["data"][1]["embedding"]
        assert numbers["usage"] == {"prompt_tokens": 2, "total_tokens": 2}

    @pytest.mark.parametrize(
        ("given", "count"),
        [("one", 1), ([1, 2, 3], 1), ([[1, 2], [3]], 2)],
        ids=["text", "tokens", "arrays-of-tokens"],
    )
    def test_forms_of_input(self, http: httpx.Client, given: Any, count: int) -> None:
        answer = http.post("/embeddings", json={"model": "embed-small", "input": given}).json()

        assert len(answer["data"]) == count
        assert len(answer["data"][0]["embedding"]) == 256

    def test_the_default_length_is_settable(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.set_behaviour("atlas/embed-*", dimensions=8)

        answer = http.post("/embeddings", json={"model": "embed-small", "input": "one"}).json()

        assert len(answer["data"][0]["embedding"]) == 8


class TestLegacyCompletions:
    def test_whole_and_streamed(self, sdk: openai.OpenAI) -> None:
        whole = sdk.completions.create(model=MODEL, prompt="Once upon", max_tokens=6)
        chunks = list(
            sdk.completions.create(
                model=MODEL,
                prompt=["Once upon"],
                max_tokens=6,
                stream=True,
                stream_options={"include_usage": True},
            )
        )

        assert whole.choices[0].text.startswith("Simulated answer to: Once upon")
        assert whole.choices[0].finish_reason == "length"
        assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == whole.choices[0].text
        assert chunks[-1].usage == whole.usage


class TestModels:
    def test_stand_ins_where_none_are_named(self, sdk: openai.OpenAI) -> None:
        assert [model.id for model in sdk.models.list()] == ["simulated-chat", "simulated-embedding"]

    def test_named_models_are_listed_for_their_provider(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        simulator.set_behaviour("atlas/atlas-large")
        simulator.set_behaviour("atlas/team/tuned")
        simulator.set_behaviour("atlas/atlas-retired", offered=False)
        simulator.set_behaviour("borealis/borealis-one")

        assert [model.id for model in sdk.models.list()] == ["atlas-large", "team/tuned"]
        assert sdk.models.retrieve("team/tuned").id == "team/tuned"

    def test_a_model_that_is_not_offered(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        simulator.set_behaviour("atlas/*", offered=False)
        simulator.set_behaviour("atlas/atlas-large", offered=True)

        assert sdk.chat.completions.create(**chat()).model == MODEL
        for call in (
            lambda: sdk.chat.completions.create(**chat() | {"model": "atlas-huge"}),
            lambda: sdk.models.retrieve("atlas-huge"),
            lambda: sdk.embeddings.create(model="atlas-huge", input="one"),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                call()
            assert caught.value.code == "model_not_found"
            assert caught.value.param == "model"

    def test_providers_are_told_apart_by_prefix(self, simulator: SimulatorServer) -> None:
        simulator.set_behaviour("borealis/*", down=True)
        statuses = {
            provider: httpx.get(f"{simulator.base_url(provider)}/models", trust_env=False).status_code
            for provider in (None, "atlas", "borealis")
        }

        assert statuses == {None: 200, "atlas": 200, "borealis": 503}
        assert set(simulator.stats()["providers"]) == {"default", "atlas", "borealis"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "param"),
        [
            ({"model": None}, "model"),
            ({"model": ""}, "model"),
            ({"model": 3}, "model"),
            ({"messages": None}, "messages"),
            ({"messages": "hello"}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": ["hello"]}, "messages[0]"),
            ({"messages": [{"content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
            ({"messages": [{"role": "user"}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": [3]}]}, "messages[0].content[0]"),
            (
                {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
                "messages[0].content[0].text",
            ),
            ({"n": 2}, "n"),
            ({"max_tokens": 0}, "max_tokens"),
            ({"max_tokens": "9"}, "max_tokens"),
            ({"max_completion_tokens": -1}, "max_completion_tokens"),
            ({"stream": "yes"}, "stream"),
            ({"stream_options": {"include_usage": True}}, "stream_options"),
            ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
            ({"temperature": 3}, "temperature"),
            ({"temperature": "hot"}, "temperature"),
            ({"top_p": -0.5}, "top_p"),
            ({"tools": {}}, "tools"),
            ({"tools": [{"type": "search"}]}, "tools[0].type"),
            ({"tools": [{"type": "function"}]}, "tools[0].function"),
            ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
            ({"tool_choice": "auto"}, "tool_choice"),
            ({"tools": [CLOCK], "tool_choice": "never"}, "tool_choice"),
            (
                {"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "x"}}},
                "tool_choice.function.name",
            ),
            ({"response_format": "json"}, "response_format"),
            ({"response_format": {"type": "xml"}}, "response_format.type"),
            ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ],
        ids=json.dumps,
    )
    def test_chat_names_the_field(self, http: httpx.Client, changed: dict[str, Any], param: str) -> None:
        response = http.post("/chat/completions", json=chat() | changed)

        assert response.status_code == 400
        error = response.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert param in error["message"]

    @pytest.mark.parametrize(
        ("path", "body", "param"),
        [
            ("/embeddings", {"model": "e"}, "input"),
            ("/embeddings", {"input": "x"}, "model"),
            ("/embeddings", {"model": "e", "input": ""}, "input"),
            ("/embeddings", {"model": "e", "input": 5}, "input"),
            ("/embeddings", {"model": "e", "input": ["x", ""]}, "input[1]"),
            ("/embeddings", {"model": "e", "input": ["x", {}]}, "input[1]"),
            ("/embeddings", {"model": "e", "input": "x", "encoding_format": "hex"}, "encoding_format"),
            ("/embeddings", {"model": "e", "input": "x", "dimensions": 0}, "dimensions"),
            ("/completions", {"model": MODEL}, "prompt"),
            ("/completions", {"model": MODEL, "prompt": ["a", "b"]}, "prompt"),
            ("/completions", {"model": MODEL, "prompt": "a", "n": 3}, "n"),
        ],
        ids=json.dumps,
    )
    def test_other_endpoints_name_the_field(
        self, http: httpx.Client, path: str, body: dict[str, Any], param: str
    ) -> None:
        response = http.post(path, json=body)

        assert (response.status_code, response.json()["error"]["param"]) == (400, param)

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"model": "\\ud800"}'], ids=repr)
    def test_bodies_that_are_not_json_objects(self, http: httpx.Client, body: bytes) -> None:
        response = http.post("/chat/completions", content=body)

        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")

    def test_unknown_addresses_and_methods(self, http: httpx.Client, simulator: SimulatorServer) -> None:
        answers = [
            http.post("/nope"),
            http.get("/chat/completions"),
            http.post("/models"),
            httpx.get(simulator.url, trust_env=False),
        ]

        assert [answer.status_code for answer in answers] == [404, 405, 405, 404]
        assert answers[0].json()["error"]["code"] == "unknown_url"

    def test_refusals_are_counted_and_use_up_no_failure(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("500", fail_next=1)

        assert http.post("/chat/completions", json=chat(n=2)).status_code == 400
        assert http.post("/chat/completions", json=chat()).status_code == 500
        assert route_stats(simulator)["outcomes"] == {"invalid_request": 1, "500": 1}


class TestKey:
    def test_a_key_is_wanted_everywhere(self) -> None:
        with SimulatorServer(key="open-sesame") as server:
            base = server.base_url("atlas")
            with openai.OpenAI(base_url=base, api_key="open-sesame", max_retries=0) as sdk:
                assert sdk.chat.completions.create(**chat()).model == MODEL
            with openai.OpenAI(base_url=base, api_key="guess", max_retries=0) as sdk:
                with pytest.raises(openai.AuthenticationError) as caught:
                    sdk.chat.completions.create(**chat())
                assert caught.value.code == "invalid_api_key"
                assert "guess" not in str(caught.value)
            for path in ("/atlas/v1/models", "/v1/models", "/_simulator/stats", "/_simulator/requests"):
                assert httpx.get(server.url + path, trust_env=False).status_code == 401
            stats = server.stats()
            assert stats["outcomes"] == {"ok": 1, "unauthorized": 3}
