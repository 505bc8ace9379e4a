"""The provider simulator's control endpoints, its records, and the management command."""

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from django.core.management import CommandError, call_command

from governance.demo.simulator import BehaviourError, build_application, load_behaviours
from governance.demo.simulator.server import is_loopback
from tests.demo.questions import MODEL, PROVIDER, chat
from tests.servers.simulator import SimulatorServer


class TestRecords:
    def test_counts_by_route_and_outcome(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.fail("500", pattern="atlas/atlas-small")
        http.post("/chat/completions", json=chat())
        http.post("/chat/completions", json=chat() | {"model": "atlas-small"})
        http.get("/models/atlas-small")

        stats = simulator.stats()

        assert stats["received"] == 3
        assert stats["outcomes"] == {"ok": 2, "500": 1}
        assert stats["providers"]["atlas"] == {
            MODEL: {"received": 1, "cancelled": 0, "outcomes": {"ok": 1}},
            "atlas-small": {"received": 2, "cancelled": 0, "outcomes": {"500": 1, "ok": 1}},
        }
        simulator.reset_stats()
        assert simulator.stats()["received"] == 0

    async def test_calls_at_the_same_time(self, simulator: SimulatorServer) -> None:
        simulator.set_behaviour(latency={"mean_ms": 200})
        async with httpx.AsyncClient(base_url=simulator.base_url(PROVIDER), trust_env=False) as client:
            await asyncio.gather(*(client.post("/chat/completions", json=chat()) for _ in range(8)))

        assert simulator.stats()["peak_in_flight"] == 8

    def test_requests_are_kept_to_the_byte_and_without_credentials(
        self, simulator: SimulatorServer, http: httpx.Client
    ) -> None:
        body = b'{ "model":"atlas-large",\n  "messages": [{"content":"h\xc3\xa9", "role":"user"}] }'
        headers = {"authorization": "Bearer secret-one", "x-api-key": "secret-two", "x-request-mark": "7"}
        http.post("/chat/completions", content=body, headers=headers)

        request = simulator.requests()[-1]

        assert (request.method, request.path) == ("POST", "/atlas/v1/chat/completions")
        assert (request.provider, request.model) == (PROVIDER, MODEL)
        assert request.body == body
        assert request.sha256 == hashlib.sha256(body).hexdigest()
        assert request.headers["x-request-mark"] == "7"
        assert "secret" not in repr(request.headers)
        assert request.headers["authorization"] == "(withheld)"

    def test_a_hundred_requests_and_no_bodies_unless_asked(self) -> None:
        with SimulatorServer() as server:
            with httpx.Client(base_url=server.base_url(PROVIDER), trust_env=False) as client:
                for number in range(120):
                    client.post("/chat/completions", json=chat(f"number {number}"))
            requests = server.requests()
            shown = httpx.get(f"{server.url}/_simulator/requests", trust_env=False).text

        assert len(requests) == 100
        assert {request.body for request in requests} == {None}
        assert "body_base64" not in shown
        assert "number" not in shown


class TestBehaviours:
    def test_the_specific_pattern_wins_field_by_field(self, simulator: SimulatorServer, http: httpx.Client) -> None:
        simulator.set_behaviour("atlas/atlas-large", tokens={"cached": 3})
        simulator.set_behaviour("*/*", tokens={"prompt": 10, "completion": 10})
        simulator.set_behaviour("atlas/*", tokens={"completion": 20})
        simulator.set_behaviour("*/atlas-large", tokens={"completion": 30})

        usage = http.post("/chat/completions", json=chat()).json()["usage"]

        assert (usage["prompt_tokens"], usage["completion_tokens"]) == (10, 20)
        assert usage["prompt_tokens_details"]["cached_tokens"] == 3

    def test_put_get_and_delete(self) -> None:
        start = {"atlas/*": {"down": True}}
        with SimulatorServer(behaviours=start) as server:
            assert server.behaviours() == start
            server.set_behaviour("atlas/*", offered=False)
            server.set_behaviour("borealis/*", down=True)
            assert server.behaviours() == {"atlas/*": {"offered": False}, "borealis/*": {"down": True}}
            server.restore_behaviours()
            assert server.behaviours() == start

    @pytest.mark.parametrize(
        ("behaviours", "where"),
        [
            ({"atlas": {}}, "atlas"),
            ({"atlas/*": []}, "atlas/*"),
            ({"atlas/*": {"speed": 1}}, "atlas/*.speed"),
            ({"atlas/*": {"down": 1}}, "atlas/*.down"),
            ({"atlas/*": {"latency": {"mean_ms": -1}}}, "atlas/*.latency.mean_ms"),
            ({"atlas/*": {"latency": {"mean": 1}}}, "atlas/*.latency.mean"),
            ({"atlas/*": {"tokens": {"completion": 1.5}}}, "atlas/*.tokens.completion"),
            ({"atlas/*": {"chunk_tokens": 0}}, "atlas/*.chunk_tokens"),
            ({"atlas/*": {"failures": {}}}, "atlas/*.failures"),
            ({"atlas/*": {"failures": [{}]}}, "atlas/*.failures[0].kind"),
            ({"atlas/*": {"failures": [{"kind": "418"}]}}, "atlas/*.failures[0].kind"),
            ({"atlas/*": {"failures": [{"kind": "500", "rate": 2}]}}, "atlas/*.failures[0].rate"),
            ({"atlas/*": {"failures": [{"kind": "500"}, {"kind": "503"}]}}, "atlas/*.failures"),
            (
                {"atlas/*": {"failures": [{"kind": "429", "retry_after": "1\r\nx: y"}]}},
                "atlas/*.failures[0].retry_after",
            ),
        ],
        ids=json.dumps,
    )
    def test_faults_are_named(self, behaviours: dict[str, Any], where: str) -> None:
        with pytest.raises(BehaviourError) as caught:
            build_application(behaviours=behaviours)

        assert caught.value.where == where

    def test_a_faulty_put_changes_nothing(self, simulator: SimulatorServer) -> None:
        response = httpx.put(
            f"{simulator.url}/_simulator/behaviours",
            json={"atlas/*": {"down": True}, "borealis/*": {"speed": 1}},
            trust_env=False,
        )

        assert response.status_code == 400
        assert response.json()["error"]["param"] == "borealis/*.speed"
        assert simulator.behaviours() == {}
        with pytest.raises(ValueError, match="speed"):
            simulator.set_behaviour("atlas/*", speed=1)

    def test_unknown_control_addresses(self, simulator: SimulatorServer) -> None:
        with httpx.Client(base_url=f"{simulator.url}/_simulator", trust_env=False) as client:
            assert client.get("/nothing").status_code == 404
            assert client.post("/stats").status_code == 405

    def test_files(self, tmp_path: Path) -> None:
        file = tmp_path / "behaviours.json"
        file.write_text('{"atlas/*": {"down": true}}')
        assert load_behaviours(file) == {"atlas/*": {"down": True}}

        for content in ("[]", "{", '{"atlas/*": {"speed": 1}}'):
            file.write_text(content)
            with pytest.raises(BehaviourError):
                load_behaviours(file)
        with pytest.raises(BehaviourError):
            load_behaviours(tmp_path / "absent.json")


class TestCommand:
    @pytest.mark.parametrize(
        ("host", "loopback"),
        [
            ("127.0.0.1", True),
            ("127.8.0.1", True),
            ("::1", True),
            ("localhost", True),
            ("0.0.0.0", False),  # noqa: S104
            ("::", False),
            ("192.0.2.4", False),
            ("localhost.example.invalid", False),
        ],
    )
    def test_loopback(self, host: str, loopback: bool) -> None:
        assert is_loopback(host) is loopback

    def test_it_keeps_to_loopback(self) -> None:
        with pytest.raises(CommandError, match="--expose"):
            call_command("simulator", host="0.0.0.0", port=0)  # noqa: S104

    def test_it_names_faults_in_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "behaviours.json"
        file.write_text('{"atlas/*": {"speed": 1}}')

        with pytest.raises(CommandError, match="speed"):
            call_command("simulator", port=0, behaviours=file)

    def test_it_serves(self, tmp_path: Path) -> None:
        file = tmp_path / "behaviours.json"
        file.write_text('{"atlas/atlas-large": {}}')
        root = Path(__file__).resolve().parents[2]
        arguments = ["simulator", "--port", "0", "--behaviours", str(file), "--key", "k"]
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments], cwd=root, stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            announced = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
            assert announced is not None
            with openai.OpenAI(base_url=f"{announced.group()}/atlas/v1", api_key="k", max_retries=1) as sdk:
                assert [model.id for model in sdk.models.list()] == [MODEL]
        finally:
            process.terminate()
            process.communicate(timeout=10)
        assert process.returncode in (0, -15)
