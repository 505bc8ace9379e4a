from typing import Any

import orjson
import pytest

from governance.gateway.continuation import go_on
from governance.gateway.protocols import anthropic, openai_chat, openai_responses
from routing.core.conversation import Role, TextPart
from routing.providers.dialects.splicing import with_members

HELLO = {"role": "user", "content": "Hi"}
TURNS = [{"role": "assistant", "content": "7"}, {"role": "user", "content": "No."}]


@pytest.mark.parametrize(
    ("protocol", "name", "members"),
    [
        (openai_chat, "messages", {"messages": [HELLO]}),
        (anthropic, "messages", {"messages": [HELLO], "max_tokens": 5}),
        (openai_responses, "input", {"input": [HELLO]}),
        (openai_responses, "input", {"input": "Hi"}),
    ],
    ids=["chat", "messages", "responses", "responses-text"],
)
@pytest.mark.parametrize("blank", [b"", b" "], ids=["compact", "loose"])
def test_a_request_goes_on_as_its_caller_would_have_written_it(
    protocol: Any, name: str, members: dict[str, Any], blank: bytes
) -> None:
    body = orjson.dumps({"model": "m", "unknown": 1, **members}).replace(b'"unknown":1', b'"unknown":' + blank + b"1")
    request = protocol.read_request(body)
    further = go_on(request, said="7", answered="No.")
    assert further.original is not None
    body = with_members(further.original, {})
    document = orjson.loads(body)
    assert document == further.original.document
    assert document == {"model": "m", "unknown": 1, **members, name: [HELLO, *TURNS]}
    assert (b'"unknown": 1' in body) is bool(blank)
    assert protocol.read_request(body).messages == further.messages
    assert [message.role for message in further.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert further.messages[-1].parts == (TextPart("No."),)
    assert request.messages == further.messages[:1]
