"""What the tests of the simulator ask it, and how they read what it says."""

from typing import Any

import httpx

from tests.servers.simulator import SimulatorServer

PROVIDER = "atlas"
MODEL = "atlas-large"


def chat(text: str = "What is a signal box?", /, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


def read_frames(response: httpx.Response) -> list[str]:
    """The data of each server-sent event."""
    assert response.headers["content-type"].startswith("text/event-stream")
    return [event.removeprefix("data: ") for event in response.text.split("\n\n") if event]


def route_stats(simulator: SimulatorServer, model: str = MODEL) -> dict[str, Any]:
    stats: dict[str, Any] = simulator.stats()["providers"][PROVIDER][model]
    return stats
