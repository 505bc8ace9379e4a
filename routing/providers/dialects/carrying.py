"""What a dialect carries of a request, and the refusal of everything else.

A dialect declares, feature by feature, how it carries it. What it does not name, it does not carry, and the request is
refused before anything is sent: with the field in the caller's own words.
"""

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Mapping
from dataclasses import dataclass

from routing.core.calls import CallRequest
from routing.core.conversation import OpaquePart, Protocol, ReasoningPart, ToolKind
from routing.core.failures import Failure, FailureKind, RouteUnusable
from routing.core.features import Feature, features_of
from routing.providers.base import Carries

UNSUPPORTED_CONVERSION = "unsupported_conversion"
"""The code of a failure that is about a field the route's protocol does not have."""

_DATA_URL = re.compile(r"\Adata:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[\w.+-]+)*)(;base64)?,", re.ASCII)


class NotCarried(RouteUnusable):
    """Raised before anything is sent: this route's protocol has no place for something that the request asks for."""


def not_carried(request: CallRequest, feature: Feature, *, into: str, because: str = "") -> NotCarried:
    """The refusal of one feature, or of the value it has."""
    names: Mapping[str, str] = {} if request.original is None else request.original.names
    return refusal(names.get(feature.value, feature.value), into=into, because=because)


def refusal(field: str, *, into: str, because: str = "") -> NotCarried:
    """The refusal of a field by its name."""
    reason = f": {because}" if because else ""
    message = f"{field} cannot be carried to {into}{reason}"
    return NotCarried(Failure(FailureKind.UNSUPPORTED, message, code=UNSUPPORTED_CONVERSION, parameter=field))


def refuse_uncarried(request: CallRequest, *, carries: Carries, protocol: Protocol, into: str) -> None:
    """Raises :class:`NotCarried` for the first thing that a dialect cannot carry.

    Args:
        request: the call.
        carries: what the dialect carries.
        protocol: whose dialect it is; reasoning that another vendor sealed is never carried.
        into: what people call it.
    """
    if request.uncarried:
        raise refusal(request.uncarried[0], into=into)
    missing = features_of(request) - carries.keys()
    if missing:
        raise not_carried(request, min(missing), into=into, because=_what_it_is(request, min(missing)))
    refuse_foreign_seals(request, protocol=protocol, into=into)


def refuse_foreign_seals(request: CallRequest, *, protocol: Protocol, into: str) -> None:
    """Raises :class:`NotCarried` for reasoning that another vendor sealed than whose dialect it is."""
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, ReasoningPart) and part.issuer not in (None, protocol):
                raise not_carried(
                    request,
                    Feature.SEALED_REASONING,
                    into=into,
                    because=f"it was sealed for {part.issuer}, and nobody else can open it",
                )


def _what_it_is(request: CallRequest, feature: Feature) -> str:
    """Which tool or part a feature is about, where the name of the field alone does not say."""
    match feature:
        case Feature.HOSTED_TOOLS:
            kinds = dict.fromkeys(each.name for each in request.tools if each.kind is ToolKind.HOSTED)
            return f"{', '.join(kinds)} runs at the vendor whose tool it is"
        case Feature.OTHER_PARTS:
            parts = (part for message in request.messages for part in message.parts)
            return ", ".join(dict.fromkeys(part.kind for part in parts if isinstance(part, OpaquePart)))
    return ""


@dataclass(frozen=True, slots=True)
class Data:
    """A data URL taken apart: media type (without parameters) and the base64 text."""

    media_type: str
    base64: str

    @property
    def text(self) -> str | None:
        """The content as text; ``None`` if it is none."""
        try:
            return b64decode(self.base64, validate=True).decode()
        except (NotBase64, UnicodeDecodeError):
            return None


def read_data_url(url: str) -> Data | None:
    """A data URL in base64; ``None`` for any other."""
    match = _DATA_URL.match(url)
    if match is None or match[3] is None:
        return None
    return Data(match[1] or "text/plain", url[match.end() :])
