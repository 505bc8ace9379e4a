from typing import Any

import pytest
from anthropic.types import message_create_params
from openai.types import completion_create_params as legacy_create_params
from openai.types import embedding_create_params
from openai.types.chat import completion_create_params
from openai.types.responses import response_create_params

from governance.gateway.protocols.checks import STEERING
from governance.gateway.protocols.fields import NATIVE, READ, Fate, FieldBook, native_but, reads
from governance.gateway.protocols.page import ANSWERS, COMPLETIONS, EMBEDDINGS, INCOMING, TITLES, cell, outgoing, page
from routing.core.conversation import Protocol
from routing.core.features import Feature
from tests.governance.gateway.protocols.sdk_fields import field_paths

BOOKS = {protocol: book for protocol, (_, book) in INCOMING.items()}
TYPED: dict[Protocol, Any] = {
    Protocol.OPENAI_CHAT: completion_create_params.CompletionCreateParamsStreaming,
    Protocol.OPENAI_RESPONSES: response_create_params.ResponseCreateParamsStreaming,
    Protocol.ANTHROPIC: message_create_params.MessageCreateParamsStreaming,
    Protocol.OPENAI_COMPLETIONS: legacy_create_params.CompletionCreateParamsStreaming,
    Protocol.OPENAI_EMBEDDINGS: embedding_create_params.EmbeddingCreateParams,
}
"""The request of each protocol, as the vendor's client types it."""


@pytest.mark.parametrize("protocol", BOOKS)
def test_every_field_the_vendors_client_knows_has_an_entry(protocol: Protocol) -> None:
    book = BOOKS[protocol]
    opaque = {path for path, field in book.fields.items() if field.fate is Fate.NATIVE}
    paths = field_paths(TYPED[protocol], opaque=opaque)
    assert len(paths) > {Protocol.OPENAI_EMBEDDINGS: 4, Protocol.OPENAI_COMPLETIONS: 18}.get(protocol, 60)
    assert sorted(path for path in paths if book.entry(path) is None) == []


def test_a_field_without_an_entry_is_found() -> None:
    book = FieldBook({"messages": READ, "messages.role": READ, "audio": NATIVE})
    assert book.entry("messages.role") is READ
    assert book.entry("messages.name") is None
    assert book.entry("audio.voice.id") is NATIVE
    assert book.entry("tools") is None


@pytest.mark.parametrize("protocol", BOOKS)
def test_every_parent_of_an_entry_has_one(protocol: Protocol) -> None:
    fields = BOOKS[protocol].fields
    parents = {path.rpartition(".")[0] for path in fields} - {""}
    assert sorted(parents - fields.keys()) == []


@pytest.mark.parametrize("protocol", BOOKS)
def test_callers_may_not_say_where_a_call_goes(protocol: Protocol) -> None:
    assert {path for path, field in BOOKS[protocol].fields.items() if field.fate is Fate.REFUSED} >= set(STEERING)


def test_what_nobody_here_knows_is_named() -> None:
    book = FieldBook({"a": READ, "a.b": reads(Feature.TOP_P), "a.c": native_but(False, 0), "d": NATIVE})
    assert list(book.uncarried({"a": {}, "d": None, "e": None})) == []
    assert list(book.uncarried({"a": {}, "d": {}, "e": 1})) == ["d", "e"]
    assert list(book.uncarried({"b": 1, "c": False, "x": []}, "a", "a[3]")) == ["a[3].x"]
    assert list(book.uncarried({"c": True}, "a", "a[3]")) == ["a[3].c"]


@pytest.mark.parametrize("protocol", BOOKS)
def test_every_feature_a_field_asks_for_can_be_named_to_the_caller(protocol: Protocol) -> None:
    book = BOOKS[protocol]
    asked_for = {feature for field in book.fields.values() for feature in field.features}
    assert {feature.value for feature in asked_for} == book.names.keys()
    assert set(book.names.values()) <= book.fields.keys()


def test_the_page_tells_every_pair() -> None:
    assert set(TITLES) == {*ANSWERS, *COMPLETIONS, *EMBEDDINGS, *INCOMING}
    assert all(next(iter(outgoing(protocol))) is protocol for protocol in INCOMING)
    lines = page().splitlines()
    for book in BOOKS.values():
        assert all(any(line.startswith(f"| `{path}` |") for line in lines) for path in book.fields)


def test_a_cell_tells_what_becomes_of_a_field() -> None:
    carries = {Feature.TOP_P: "`topP`", Feature.IMAGE_DATA: "an image"}
    assert cell(reads(Feature.TOP_P), carries) == "`topP`"
    assert cell(reads(Feature.TOP_K), carries) == "refused"
    assert cell(reads(Feature.IMAGE_DATA, Feature.IMAGE_LINK), carries) == "image data: an image; image link: refused"
    assert cell(native_but(False), carries) == "refused, unless `false`"
    assert cell(NATIVE, None) == "untouched"
