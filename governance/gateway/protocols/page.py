"""Prints `docs/protocols.md`: what becomes of every field of every protocol in, for every protocol out.

    python -m governance.gateway.protocols.page > docs/protocols.md

Made of the data that readers and dialects themselves act on; `docs/check.py` compares the page.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping

from governance.gateway.protocols.anthropic import BOOK as ANTHROPIC
from governance.gateway.protocols.anthropic_replies import AnthropicWriter
from governance.gateway.protocols.base import NAMES, Writer
from governance.gateway.protocols.fields import Fate, Field, FieldBook
from governance.gateway.protocols.openai_chat import BOOK as OPENAI_CHAT
from governance.gateway.protocols.openai_chat_replies import OpenAIChatWriter
from governance.gateway.protocols.openai_completions import BOOK as OPENAI_COMPLETIONS
from governance.gateway.protocols.openai_completions_replies import OpenAICompletionsWriter
from governance.gateway.protocols.openai_embeddings import BOOK as OPENAI_EMBEDDINGS
from governance.gateway.protocols.openai_responses import BOOK as OPENAI_RESPONSES
from governance.gateway.protocols.openai_responses_replies import OpenAIResponsesWriter
from routing.core.conversation import Protocol
from routing.providers.base import Api, Carries
from routing.providers.registry import ADAPTER_TYPES

TITLES: Mapping[Protocol, str] = {
    Protocol.OPENAI_CHAT: "OpenAI chat completions",
    Protocol.ANTHROPIC: "Anthropic messages",
    Protocol.OPENAI_RESPONSES: "OpenAI responses",
    Protocol.GEMINI: "Gemini",
    Protocol.OLLAMA: "Ollama",
    Protocol.OPENAI_COMPLETIONS: "OpenAI completions",
    Protocol.OPENAI_EMBEDDINGS: "OpenAI embeddings",
    Protocol.GEMINI_EMBEDDINGS: "Gemini embeddings",
    Protocol.OLLAMA_EMBEDDINGS: "Ollama embeddings",
}

INCOMING: Mapping[Protocol, tuple[str, FieldBook]] = {
    Protocol.OPENAI_CHAT: ("`POST /v1/chat/completions`", OPENAI_CHAT),
    Protocol.ANTHROPIC: ("`POST /v1/messages`", ANTHROPIC),
    Protocol.OPENAI_RESPONSES: ("`POST /v1/responses`", OPENAI_RESPONSES),
    Protocol.OPENAI_COMPLETIONS: ("`POST /v1/completions`", OPENAI_COMPLETIONS),
    Protocol.OPENAI_EMBEDDINGS: ("`POST /v1/embeddings`", OPENAI_EMBEDDINGS),
}
"""What callers speak: the endpoint and its fields."""


def _spoken(apis: Iterable[Api | None]) -> Mapping[Protocol, Carries]:
    """What each protocol of some APIs can hold, in the order of the titles."""
    carries = {each.protocol: each.carries for each in apis if each is not None}
    return {protocol: carries[protocol] for protocol in TITLES if protocol in carries}


ANSWERS = _spoken(kind.adapter for kind in ADAPTER_TYPES.values())
"""What providers speak that answer, and what requests written in it can hold."""

COMPLETIONS = _spoken(kind.completions for kind in ADAPTER_TYPES.values())
"""The same of those that write on from prompts; those that answer do as well."""

EMBEDDINGS = _spoken(kind.embeddings for kind in ADAPTER_TYPES.values())
"""The same of those that embed."""


def outgoing(protocol: Protocol) -> Mapping[Protocol, Carries]:
    """What a call that comes in by a protocol can go out by, itself first."""
    served = next(each for each in (ANSWERS, {**COMPLETIONS, **ANSWERS}, EMBEDDINGS) if protocol in each)
    return {protocol: served[protocol], **served}


WRITERS: tuple[Writer, ...] = (
    OpenAIChatWriter(),
    AnthropicWriter(),
    OpenAIResponsesWriter(),
    OpenAICompletionsWriter(),
)
"""What answers are written by; vectors carry nothing beside themselves."""

INTRODUCTION = """\
# Protocols

<!-- Made by `python -m governance.gateway.protocols.page`; `make format` makes it anew. -->

A call comes in by one protocol and goes out by the one its provider speaks. Where the two are the same, the bytes are
forwarded as they came, unknown fields included, with the model's id in place of the name that was asked for (and, in
streams, usage asked for). Where they differ, the request is written anew, and nothing is dropped in silence: each field
below is carried, mapped as the table says, or refused. A route that would have to refuse is passed over, and if no
route is left the caller gets a 400 with the code `unsupported_conversion` and the field's name. A field that is not
listed is refused like one that is; null means that a field is not there.

Answers are written back in the caller's protocol, whole and streamed: text, reasoning, refusals, tool calls, the reason
the model stopped, and usage with its cached, written and reasoning parts. Reasoning that a vendor sealed is handed back
to that vendor through the caller ([decision 0071](decisions/0071-reasoning-belongs-to-whom-sealed-it.md)); chat
completions carry it in `reasoning_details` of a message ([decision 0057](decisions/0057-seals-in-chat-completions.md)).
Log probabilities, sound and what tools of a vendor bring come only to those who ask for it, and asking for it is
refused across protocols, as the tables say. What may come unasked and has no place in the caller's protocol is in the
last table; a whole answer that had some says so in `x-signalbox-untold`.
"""


def cell(field: Field, carries: Carries | None) -> str:
    """What becomes of a field; ``carries`` is ``None`` for the same protocol."""
    if field.fate is Fate.OURS:
        return "Signalbox acts on it"
    if field.fate is Fate.REFUSED:
        return "refused"
    if carries is None:
        return "untouched"
    if field.fate is Fate.IGNORED:
        return "not sent: it asks for nothing"
    if field.fate is Fate.NATIVE:
        return "refused" + "".join(f", unless `{json.dumps(value)}`" for value in field.harmless)
    if not field.features:
        return "carried"
    ways = dict.fromkeys(carries.get(feature, "refused") for feature in field.features)
    if len(ways) == 1:
        return next(iter(ways))
    return "; ".join(
        dict.fromkeys(f"{_words(feature)}: {carries.get(feature, 'refused')}" for feature in field.features)
    )


def lines() -> Iterator[str]:
    """The page, line by line."""
    yield INTRODUCTION
    for protocol, (endpoint, book) in INCOMING.items():
        outs = outgoing(protocol)
        yield f"## {TITLES[protocol]}: {endpoint}\n"
        yield f"| field | {' | '.join(f'to {TITLES[each]}' for each in outs)} |"
        yield f"|---|{'---|' * len(outs)}"
        for path, field in book.fields.items():
            ways = [cell(field, None if each is protocol else carries) for each, carries in outs.items()]
            yield f"| `{path}` | {' | '.join(ways)} |"
        yield ""


def answers() -> Iterator[str]:
    """What of an answer each protocol has no place for."""
    yield "## What an answer may carry\n"
    yield "| | " + " | ".join(f"in {TITLES[each.protocol]}" for each in WRITERS) + " |"
    yield f"|---|{'---|' * len(WRITERS)}"
    for kind, name in NAMES.items():
        cells = [f"not told: {each.untold[kind]}" if kind in each.untold else "told" for each in WRITERS]
        yield f"| {name} | {' | '.join(cells)} |"


def page() -> str:
    """The whole page."""
    return "\n".join([*lines(), *answers()]).rstrip() + "\n"


def _words(feature: str) -> str:
    return "".join(f" {each.lower()}" if each.isupper() else each for each in feature)


if __name__ == "__main__":
    sys.stdout.write(page())
