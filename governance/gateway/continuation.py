"""A request gone on with: what the model said, and what is said to that, behind all that was there.

The canonical conversation and the bytes as they arrived go on together, so that a provider of the caller's own protocol
still gets everything the caller sent, unknown fields included.
"""

from dataclasses import replace
from typing import Any

from routing.core.calls import CallRequest, Original
from routing.core.conversation import Message, Protocol, Role, TextPart
from routing.providers.dialects.splicing import with_members


def go_on(request: CallRequest, *, said: str, answered: str) -> CallRequest:
    """The request with the model's turn and the answer to it.

    Args:
        request: the request.
        said: the model's words; not empty, since some vendors refuse a turn without any.
        answered: the user's words after it.
    """
    turns = ((Role.ASSISTANT, said), (Role.USER, answered))
    messages = (Message(role, (TextPart(text),)) for role, text in turns)
    original = request.original
    if original is not None:
        original = _gone_on(original, [{"role": role.value, "content": text} for role, text in turns])
    return replace(request, messages=(*request.messages, *messages), original=original)


def _gone_on(original: Original, turns: list[dict[str, str]]) -> Original:
    """The request as it would have arrived with further turns; all three protocols write such turns alike."""
    name = "input" if original.protocol is Protocol.OPENAI_RESPONSES else "messages"
    before: Any = original.document.get(name)
    if isinstance(before, str):
        before = [{"role": Role.USER.value, "content": before}]
    document = {**original.document, name: [*(before or ()), *turns]}
    body = None if original.body is None else with_members(original, {name: document[name]})
    return replace(original, body=body, document=document)
