"""Signatures of reasoning on their way through a caller: marked with the vendor that gave them.

A caller hands reasoning back without knowing whose it is. A signature of the vendor whose protocol the caller speaks
stays as it is; any other gets a mark that says where it can go.
"""

from dataclasses import dataclass

from routing.core.calls import ReasoningSealed
from routing.core.conversation import Protocol

_MARK = "signalbox:"


@dataclass(frozen=True, slots=True)
class Seal:
    """A signature, whose it is, and the vendor's id of what it seals."""

    signature: str
    issuer: Protocol
    item: str = ""


def mark(sealed: ReasoningSealed, *, spoken: Protocol) -> str:
    """What a caller of a protocol is given to keep."""
    if sealed.issuer is spoken:
        return sealed.signature
    return f"{_MARK}{sealed.issuer.value}:{sealed.item}:{sealed.signature}"


def read_mark(kept: str, *, spoken: Protocol) -> Seal:
    """What a caller of a protocol has kept."""
    if kept.startswith(_MARK):
        issuer, _, rest = kept.removeprefix(_MARK).partition(":")
        item, _, signature = rest.partition(":")
        if issuer in set(Protocol):
            return Seal(signature, Protocol(issuer), item)
    return Seal(kept, spoken)
