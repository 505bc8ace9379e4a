"""The provider simulator's ways to fail and to be slow, and callers who hang up."""

import asyncio
import json
import math
import random
import time
from typing import Any

import httpx
import openai
import pytest

from governance.demo.simulator import FailureKind
from governance.demo.simulator.behaviours import draw
from tests.demo.questions import PROVIDER, chat, read_frames, route_stats
from tests.servers.simulator import SimulatorServer

STATUSES = {
    "429": (429, "rate_limit_exceeded"),
    "insufficient_quota": (429, "insufficient_quota"),
    "500": (500, None),
    "503": (503, None),
    "401": (401, "invalid_api_key"),
    "404": (404, "model_not_found"),
    "context_length_exceeded": (400, "context_length_exceeded"),
}


class TestFailures:
    """One test or one parameter for each kind; the last test sees to that."""

    @pytest.mark.parametrize("kind", STATUSES)
    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_plain_errors(self, simulator: SimulatorServer, http: httpx.Client, kind: str, stream: bool) -> None:
        simulator.fail(kind)

        response = http.post("/chat/completions", json=chat(stream=stream))

        assert (response.status_code, response.json()["error"]["code"]) == STATUSES[kind]
        assert "retry-after" not in response.headers
        assert route_stats(simulator)["outcomes"] == {kind: 1}

    def test_the_sdk_understands_them(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        simulator.fail("429", fail_next=1)
        with pytest.raises(openai.RateLimitError):
            sdk.chat.completions.create(**chat())
        simulator.fail("context_length_exceeded", fail_next=1)
        with pytest.raises(openai.BadRequestError) as caught:
            sdk.chat.completions.create(**chat())
        assert caught.value.code == "context_length_exceeded"

    @pytest.mark.parametrize("advice", [3, 0.5, "-1", "soon", "Wed, 21 Oct 2026 07:28:00 GMT"])
    def test_retry_advice(self, simulator: SimulatorServer, http: httpx.Client, advice: Any) -> None:
        simulator.fail("429", retry_after=advice, retry_after_ms=250)

        response = http.post("/chat/completions", json=chat())

        assert response.headers["retry-after"] == str(advice)
        assert response.headers["retry-after-ms"] == "250"

    def test_no_advice_where_it_makes_no_sense(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("401", retry_after=3)

        assert "retry-after" not in http.post("/chat/completions", json=chat()).headers

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_timeout(self, simulator: SimulatorServer, http: httpx.Client, stream: bool) -> None:
        simulator.fail("timeout")

        with pytest.raises(httpx.ReadTimeout):
            http.post("/chat/completions", json=chat(stream=stream), timeout=0.2)

        stats = simulator.wait_for_stats(lambda stats: stats["in_flight"] == 0)
        assert stats["outcomes"] == {"timeout": 1}
        assert stats["cancelled"] == 1

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_reset(self, simulator: SimulatorServer, http: httpx.Client, stream: bool) -> None:
        simulator.fail("reset")

        with pytest.raises(httpx.ReadError):
            http.post("/chat/completions", json=chat(stream=stream))

        simulator.restore_behaviours()
        assert http.post("/chat/completions", json=chat()).status_code == 200
        assert simulator.stats()["outcomes"] == {"reset": 1, "ok": 1}
        assert simulator.stats()["cancelled"] == 0

    def test_garbage(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("garbage")

        whole = http.post("/chat/completions", json=chat())
        frames = read_frames(http.post("/chat/completions", json=chat(stream=True)))

        assert (whole.status_code, whole.headers["content-type"]) == (200, "application/json")
        assert len(frames) == 1
        for text in (whole.text, frames[0]):
            with pytest.raises(json.JSONDecodeError):
                json.loads(text)

    @pytest.mark.parametrize("chunks", [0, 1, 3, 1000])
    def test_truncated_stream(self, simulator: SimulatorServer, http: httpx.Client, chunks: int) -> None:
        whole = read_frames(http.post("/chat/completions", json=chat(stream=True)))
        simulator.fail("truncated", after_chunks=chunks)

        frames = read_frames(http.post("/chat/completions", json=chat(stream=True)))

        assert len(frames) == min(chunks, len(whole) - 1)
        assert "[DONE]" not in frames

    def test_truncated_abruptly(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("truncated", after_chunks=2, abrupt=True)

        received: list[bytes] = []
        with (
            http.stream("POST", "/chat/completions", json=chat(stream=True)) as response,
            pytest.raises(httpx.RemoteProtocolError),
        ):
            received.extend(response.iter_raw())
        assert b"".join(received).count(b"data: ") == 2
        with pytest.raises(httpx.RemoteProtocolError):
            http.post("/chat/completions", json=chat())

    def test_truncated_whole_answer(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("truncated")

        response = http.post("/chat/completions", json=chat())

        assert response.status_code == 200
        assert response.text.startswith('{"id":')
        with pytest.raises(json.JSONDecodeError):
            response.json()

    @pytest.mark.parametrize("chunks", [0, 2])
    def test_error_frame(self, simulator: SimulatorServer, http: httpx.Client, chunks: int) -> None:
        simulator.fail("error_frame", after_chunks=chunks)

        frames = read_frames(http.post("/chat/completions", json=chat(stream=True)))

        assert len(frames) == chunks + 1
        assert json.loads(frames[-1])["error"]["type"] == "server_error"

    def test_error_frame_reaches_the_sdk(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        simulator.fail("error_frame", after_chunks=2)

        with pytest.raises(openai.APIError, match="simulated"):
            list(sdk.chat.completions.create(**chat(stream=True)))

    def test_error_in_a_whole_answer_of_status_200(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("error_frame")

        response = http.post("/chat/completions", json=chat())

        assert response.status_code == 200
        assert set(response.json()) == {"error"}

    def test_no_usage(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("no_usage")
        streamed = chat(stream=True, stream_options={"include_usage": True})

        whole = http.post("/chat/completions", json=chat()).json()
        frames = read_frames(http.post("/chat/completions", json=streamed))
        embedding = http.post("/embeddings", json={"model": "embed-small", "input": "one"}).json()

        assert whole["choices"][0]["finish_reason"] == "stop"
        assert "usage" not in whole
        assert "usage" not in embedding
        assert frames[-1] == "[DONE]"
        assert all("usage" not in json.loads(frame) for frame in frames[:-1])

    @pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
    def test_empty(self, simulator: SimulatorServer, http: httpx.Client, stream: bool) -> None:
        simulator.fail("empty")

        response = http.post("/chat/completions", json=chat(stream=stream))

        assert (response.status_code, response.content) == (200, b"")

    def test_down_comes_before_everything(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.set_behaviour("atlas/*", down=True)

        answers = [
            http.post("/chat/completions", json=chat()),
            http.post("/chat/completions", content=b"{"),
            http.get("/models"),
        ]

        for answer in answers:
            assert answer.status_code == 503
            assert answer.headers["connection"] == "close"
            assert answer.headers["content-type"].startswith("text/plain")
        assert simulator.stats()["outcomes"] == {"down": 3}

    def test_failures_of_the_catalogue(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("401", on="models")
        assert http.get("/models").status_code == 401
        assert http.post("/chat/completions", json=chat()).status_code == 200

        simulator.fail("401")
        assert http.get("/models").status_code == 200
        assert http.post("/chat/completions", json=chat()).status_code == 401

        simulator.fail("401", on="all")
        assert http.get("/models").status_code == 401
        assert http.post("/embeddings", json={"model": "embed-small", "input": "x"}).status_code == 401

    def test_a_failure_can_take_its_time(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("503", after_ms=120)
        started = time.monotonic()

        http.post("/chat/completions", json=chat())

        assert time.monotonic() - started >= 0.115

    async def test_fail_next_fails_exactly_so_many(self, simulator: SimulatorServer) -> None:
        simulator.set_behaviour(
            "atlas/*",
            failures=[{"kind": "429", "fail_next": 3}, {"kind": "503", "fail_next": 2}],
        )
        async with httpx.AsyncClient(base_url=simulator.base_url(PROVIDER), trust_env=False) as client:
            answers = await asyncio.gather(
                *(
                    client.post("/chat/completions", json=chat() | {"model": f"atlas-{number % 2}"})
                    for number in range(20)
                )
            )

        statuses = [answer.status_code for answer in answers]
        assert {status: statuses.count(status) for status in (200, 429, 503)} == {200: 15, 429: 3, 503: 2}
        left = [failure["fail_next"] for failure in simulator.behaviours()["atlas/*"]["failures"]]
        assert left == [0, 0]

    def test_rates_and_their_seed(self) -> None:
        def outcomes(seed: int) -> list[int]:
            failures = [{"kind": "429", "rate": 0.25}, {"kind": "500", "rate": 0.25}]
            with (
                SimulatorServer(behaviours={"*/*": {"failures": failures}}, seed=seed) as server,
                httpx.Client(base_url=server.base_url(PROVIDER), trust_env=False) as client,
            ):
                first = [client.post("/chat/completions", json=chat()).status_code for _ in range(200)]
                server.restore_behaviours()
                again = [client.post("/chat/completions", json=chat()).status_code for _ in range(200)]
            assert first == again
            return first

        one, same, other = outcomes(7), outcomes(7), outcomes(8)

        assert one == same != other
        assert 30 <= one.count(429) <= 70
        assert 30 <= one.count(500) <= 70

    def test_every_kind_has_a_test(self) -> None:
        apart = {"timeout", "reset", "garbage", "truncated", "error_frame", "no_usage", "empty"}

        assert {kind.value for kind in FailureKind} == set(STATUSES) | apart
        assert all(any(name.startswith(f"test_{kind}") for name in dir(self)) for kind in apart)


class TestLatency:
    def test_draws_have_the_mean_and_the_spread_that_were_set(self) -> None:
        rng = random.Random(1)
        values = [draw(mean=800.0, spread=200.0, rng=rng) for _ in range(20_000)]
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))

        assert min(values) > 0
        assert mean == pytest.approx(800.0, rel=0.02)
        assert spread == pytest.approx(200.0, rel=0.05)
        assert draw(mean=800.0, spread=0.0, rng=rng) == 800.0

    def test_a_whole_answer_takes_the_mean(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.set_behaviour(latency={"mean_ms": 150})
        started = time.monotonic()

        http.post("/chat/completions", json=chat())

        assert 0.145 <= time.monotonic() - started < 1.0

    def test_a_stream_has_a_first_chunk_and_an_end(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.set_behaviour(latency={"mean_ms": 400, "first_chunk_ms": 100})
        started = time.monotonic()
        times = []

        with http.stream("POST", "/chat/completions", json=chat(stream=True)) as response:
            for line in response.iter_lines():
                if line:
                    times.append(time.monotonic() - started)

        assert 0.095 <= times[0] < 0.3
        assert 0.39 <= times[-1] < 1.2

    def test_token_draws_follow_the_seed(self) -> None:
        def counts(seed: int) -> list[int]:
            behaviours = {"*/*": {"tokens": {"completion": 40, "completion_spread": 20}}}
            with (
                SimulatorServer(behaviours=behaviours, seed=seed) as server,
                httpx.Client(base_url=server.base_url(PROVIDER), trust_env=False) as client,
            ):
                answers = [client.post("/chat/completions", json=chat()).json() for _ in range(20)]
            return [answer["usage"]["completion_tokens"] for answer in answers]

        assert counts(3) == counts(3) != counts(4)
        assert len(set(counts(3))) > 5


class TestHangingUp:
    async def test_while_waiting(self, simulator: SimulatorServer) -> None:
        simulator.set_behaviour(latency={"mean_ms": 60_000})
        async with httpx.AsyncClient(base_url=simulator.base_url(PROVIDER), trust_env=False) as client:
            call = asyncio.create_task(client.post("/chat/completions", json=chat()))
            while simulator.stats()["in_flight"] == 0:
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        stats = simulator.wait_for_stats(lambda stats: stats["in_flight"] == 0)
        assert (stats["cancelled"], stats["outcomes"]) == (1, {"cancelled": 1})

    async def test_in_the_middle_of_a_stream(self, simulator: SimulatorServer) -> None:
        simulator.set_behaviour(latency={"mean_ms": 60_000, "first_chunk_ms": 0})
        async with (
            httpx.AsyncClient(base_url=simulator.base_url(PROVIDER), trust_env=False) as client,
            client.stream("POST", "/chat/completions", json=chat(stream=True)) as response,
        ):
            async for line in response.aiter_lines():
                assert line.startswith("data: ")
                break

        stats = simulator.wait_for_stats(lambda stats: stats["in_flight"] == 0)
        assert (stats["cancelled"], stats["outcomes"]) == (1, {"cancelled": 1})

    def test_in_a_stream_without_pauses(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.set_behaviour(tokens={"completion": 200_000}, chunk_tokens=1)

        with http.stream("POST", "/chat/completions", json=chat(stream=True)) as response:
            next(response.iter_bytes())

        stats = simulator.wait_for_stats(lambda stats: stats["in_flight"] == 0, seconds=20.0)
        assert stats["cancelled"] == 1

    def test_a_caller_who_stays_is_not_counted(self, simulator: SimulatorServer, sdk: openai.OpenAI) -> None:
        for _ in range(20):
            list(sdk.chat.completions.create(**chat(stream=True)))

        assert route_stats(simulator) == {"received": 20, "cancelled": 0, "outcomes": {"ok": 20}}
