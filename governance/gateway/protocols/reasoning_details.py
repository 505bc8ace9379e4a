"""Reasoning with its seal in chat completions, which have no place for it of their own: the member
``reasoning_details`` of a message, as aggregators spell it. Who hands messages back as they came hands it back too.

An entry stands for one piece of reasoning and is complete: the text that the vendor sealed, and the seal.
"""

from collections.abc import Mapping
from typing import Any

from governance.gateway.protocols.seals import mark, read_mark
from routing.core.calls import ReasoningSealed
from routing.core.conversation import OpaquePart, Protocol, ReasoningPart

_SPOKEN = Protocol.OPENAI_CHAT
_TEXT, _SUMMARY, _ENCRYPTED = "reasoning.text", "reasoning.summary", "reasoning.encrypted"


class Details:
    """The entries of one answer, as it is written."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._number = 0

    def add(self, text: str) -> None:
        """A piece of reasoning whose seal may come."""
        self._texts.append(text)

    def seal(self, sealed: ReasoningSealed) -> dict[str, Any]:
        """The entry of what was said since the last one, or of something that nobody may read."""
        index, kept = self._number, mark(sealed, spoken=_SPOKEN)
        self._number += 1
        if sealed.is_hidden:
            return {"type": _ENCRYPTED, "data": kept, "index": index}
        text = "".join(self._texts)
        self._texts.clear()
        return {"type": _TEXT, "text": text, "signature": kept, "index": index}


def read_detail(entry: Mapping[str, Any]) -> ReasoningPart | OpaquePart:
    """An entry that a caller hands back."""
    match entry:
        case {"type": "reasoning.text", "signature": str(kept)} if kept:
            text = entry.get("text")
            seal = read_mark(kept, spoken=_SPOKEN)
            return ReasoningPart(text if isinstance(text, str) else "", seal.signature, seal.issuer, seal.item)
        case {"type": "reasoning.encrypted", "data": str(kept)} if kept:
            seal = read_mark(kept, spoken=_SPOKEN)
            return ReasoningPart("", seal.signature, seal.issuer, seal.item, is_hidden=True)
        case {"type": "reasoning.text", "text": str(text)} | {"type": "reasoning.summary", "summary": str(text)}:
            return ReasoningPart(text)
    return OpaquePart(str(entry.get("type", "reasoning_details")))
