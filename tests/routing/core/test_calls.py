from routing.core.calls import (
    CallReply,
    Protocol,
    Started,
    Stopped,
    StopReason,
    Text,
    Usage,
    UsageReported,
    last_usage,
)


def test_parts_of_a_prompt_do_not_overlap() -> None:
    usage = Usage(input=700, cache_read=250, cache_write=50, output=120, reasoning=80)
    assert usage.prompt == 1000


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
