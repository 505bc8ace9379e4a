import re
from pathlib import Path

import pytest

from routing.providers.outbound import OutboundPolicy
from routing.providers.registry import ADAPTER_TYPES, UnknownAdapterType, adapter_for


def test_an_unknown_type_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownAdapterType, match=r"'bedrock'; known are: anthropic, azure_openai, custom"):
        adapter_for("bedrock")


@pytest.mark.parametrize("name", sorted(ADAPTER_TYPES))
def test_every_type_is_complete(name: str) -> None:
    kind = ADAPTER_TYPES[name]
    assert kind.name == name
    assert kind.label
    assert adapter_for(name) is kind.adapter
    if kind.base_url and kind.needs_key:
        OutboundPolicy().destination(kind.base_url)
    assert not kind.base_url.endswith("/")


def test_hosts_that_refuse_stream_options_are_not_sent_any() -> None:
    assert adapter_for("mistral") is not adapter_for("openai")


def test_every_type_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/providers.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| `")]
    documented = {name for line in table for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert documented == set(ADAPTER_TYPES)
