from dataclasses import replace
from typing import Any

import pytest

from routing.core.calls import (
    MAX_TOKENS,
    CallReply,
    Started,
    Stopped,
    StopReason,
    Text,
    Usage,
    UsageReported,
    last_usage,
)
from routing.core.conversation import Protocol


def test_parts_of_a_prompt_do_not_overlap() -> None:
    usage = Usage(input=700, cache_read=250, cache_write=50, output=120, reasoning=80)
    assert usage.prompt == 1000


@pytest.mark.parametrize("kind", ["input", "output", "cache_read", "cache_write", "reasoning"])
def test_a_usage_is_credible_within_bounds(kind: str) -> None:
    usage = Usage(input=1, output=1)
    assert usage.is_credible
    for count, expected in ((0, True), (MAX_TOKENS, True), (MAX_TOKENS + 1, False), (10**30, False), (-1, False)):
        changed: dict[str, Any] = {kind: count}
        assert replace(usage, **changed).is_credible is expected, count


def test_the_last_usage_of_a_stream_counts() -> None:
    early, late = Usage(input=10, output=1), Usage(input=10, output=30)
    events = (Started("reply-1", "gpt-x-mini"), UsageReported(early), Text("Hello"), UsageReported(late))
    assert last_usage(events) is late
    assert last_usage((Text("Hello"),)) is None


def test_a_reply_says_why_the_model_stopped_and_what_it_used() -> None:
    usage = Usage(input=3, output=4)
    reply = CallReply(Protocol.OPENAI_CHAT, b"{}", (Text("Hi"), Stopped(StopReason.LENGTH), UsageReported(usage)))
    assert reply.stop is StopReason.LENGTH
    assert reply.usage is usage


def test_a_reply_that_says_neither() -> None:
    reply = CallReply(Protocol.OPENAI_CHAT, b"{}")
    assert reply.stop is None
    assert reply.usage is None
