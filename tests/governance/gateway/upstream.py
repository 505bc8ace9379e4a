"""What providers answer: bodies of chat completions, whole and streamed, and the scripts that send them."""

from typing import Any

import orjson

from tests.servers.fake_provider import Script, Step, events, whole

ANSWER = "The parcel left on Monday."
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 340,
    "total_tokens": 1540,
    "prompt_tokens_details": {"cached_tokens": 200},
    "completion_tokens_details": {"reasoning_tokens": 40},
}


def completion(*, text: str = ANSWER, usage: Any = USAGE, **members: Any) -> bytes:
    """A whole answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    document = {"id": "chatcmpl-77", "object": "chat.completion", "model": "gpt-x-mini-2026-05-01", "choices": [choice]}
    return orjson.dumps({**document, **({} if usage is None else {"usage": usage}), **members})


def chunk_of(delta: Any, *, finish: str | None = None, **members: Any) -> bytes:
    """One chunk of a streamed answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    document = {"id": "chatcmpl-77", "object": "chat.completion.chunk", "model": "gpt-x-mini-2026-05-01"}
    return orjson.dumps({**document, "choices": [choice], **members})


def usage_chunk(usage: Any = USAGE) -> bytes:
    """The chunk that holds nothing but usage."""
    document = {"id": "chatcmpl-77", "object": "chat.completion.chunk", "model": "gpt-x-mini-2026-05-01"}
    return orjson.dumps({**document, "choices": [], "usage": usage})


ROLE = chunk_of({"role": "assistant", "content": ""})
STOP = chunk_of({}, finish="stop")
DONE = b"[DONE]"


def answers(**settings: Any) -> Script:
    """A script: a whole answer."""
    return whole(completion(**settings))


def streams(*texts: str, usage: Any = USAGE, end: list[Step] | None = None) -> Script:
    """A script: a streamed answer; ``end`` comes in place of everything after the texts."""
    begun = [ROLE, *(chunk_of({"content": text}) for text in texts or ("The parcel ", "left on Monday."))]
    if end is not None:
        return events(*begun, end=end)
    return events(*begun, STOP, *([] if usage is None else [usage_chunk(usage)]), DONE)


def fails(
    status: int, *, code: str | None = None, message: str = "no", headers: dict[str, str] | None = None
) -> Script:
    """A script: an error of a status, in OpenAI's envelope."""
    error = {"message": message, "type": "an_error", "param": None, "code": code}
    return whole(orjson.dumps({"error": error}), status, headers)
