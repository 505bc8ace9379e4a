"""Signatures of reasoning on their way through a caller: marked with the vendor that gave them.

A caller hands reasoning back without knowing whose it is. A signature of the vendor whose protocol the caller speaks
stays as it is; any other gets a mark that says where it can go, and whether it is of something that nobody may read.
"""

from dataclasses import dataclass

from routing.core.calls import ReasoningSealed
from routing.core.conversation import Protocol

_MARK = "signalbox:"
_HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Seal:
    """A signature, whose it is, the vendor's id of what it seals, and whether nobody may read that."""

    signature: str
    issuer: Protocol
    item: str = ""
    is_hidden: bool = False


def mark(sealed: ReasoningSealed, *, spoken: Protocol) -> str:
    """What a caller of a protocol is given to keep."""
    if sealed.issuer is spoken:
        return sealed.signature
    issuer = f"{sealed.issuer.value}/{_HIDDEN}" if sealed.is_hidden else sealed.issuer.value
    return f"{_MARK}{issuer}:{sealed.item}:{sealed.signature}"


def read_mark(kept: str, *, spoken: Protocol) -> Seal:
    """What a caller of a protocol has kept."""
    if kept.startswith(_MARK):
        sealer, _, rest = kept.removeprefix(_MARK).partition(":")
        issuer, _, hidden = sealer.partition("/")
        item, _, signature = rest.partition(":")
        if issuer in set(Protocol):
            return Seal(signature, Protocol(issuer), item, hidden == _HIDDEN)
    return Seal(kept, spoken)
