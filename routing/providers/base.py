"""What an adapter is given, what it promises, and what it may ask of the transport.

Here are values and protocols only. The implementation of :class:`Transport` is ``transport.HttpTransport``; adapters
depend on the protocol, so that none of them imports an HTTP library.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from routing.core import conversation
from routing.core.calls import CallReply, CallRequest, Frame
from routing.core.features import Feature

Carries = Mapping[Feature, str]
"""How a dialect carries each feature that it does; the sentence stands in the page of protocols."""

RESERVED_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "host",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers an operator cannot set on an endpoint: they frame the message, or carry the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long one request to a provider may take, in seconds.

    Attributes:
        connect: until there is a connection: waiting for one, resolving the name, TCP and TLS together.
        first_event: of a streamed answer, from the beginning of the call to the first event, ``connect`` included.
        between_events: of a streamed answer, from one event to the next. Comments are no events.
        total: from the beginning of the call to the end of the answer. A whole answer is bounded by this and by
            ``connect`` alone, since nothing arrives before the model has finished.
    """

    connect: float = 10.0
    first_event: float = 60.0
    between_events: float = 60.0
    total: float = 600.0

    def __post_init__(self) -> None:
        for name in ("connect", "first_event", "between_events", "total"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds > 0):
                raise ValueError(f"time-out {name} must be a positive number of seconds, not {seconds!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a call goes and what opens the door. The key and the extra headers are never shown by ``repr``.

    Attributes:
        provider: the provider's identifier; messages name it, never the host.
        adapter_type: a key of ``registry.ADAPTER_TYPES``.
        base_url: up to and including the version, such as ``https://api.openai.com/v1``.
        api_key: empty where the host wants none.
        organization: the vendor's organization id; empty if none.
        api_version: the version of the API to ask for, where a vendor has several behind one address; empty if none.
        headers: additional headers the operator configured, as pairs.
        allow_http: whether plain http is allowed, that is, whether the provider is marked as self-hosted.
        max_concurrent: how many calls may run at once; kept by the gateway, not here.
    """

    provider: str
    adapter_type: str
    base_url: str
    api_key: str = field(default="", repr=False)
    organization: str = ""
    api_version: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeouts: Timeouts = Timeouts()
    allow_http: bool = False
    max_concurrent: int | None = None

    def __post_init__(self) -> None:
        for name, _ in self.headers:
            if name.strip().lower() in RESERVED_HEADERS:
                raise ValueError(f"header {name!r} of provider {self.provider!r} is not the operator's to set")


class Phase(StrEnum):
    """What a request to a provider was waiting for."""

    CONNECT = "connect"
    ANSWER = "answer"
    FIRST_EVENT = "first_event"
    BETWEEN_EVENTS = "between_events"


class Exchange(Protocol):
    """An answer whose head has arrived. Every method raises ``CallFailed``, and closes the connection when it does."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def started_at(self) -> float:
        """The loop's time at which the call began."""

    def header(self, name: str) -> str:
        """A header's value, or the empty string."""

    async def read(self) -> bytes:
        """The whole body, decompressed, within the size limit and the total time-out."""

    async def read_error(self) -> bytes:
        """As much of an error's body as arrives within a short time; never raises for what is missing."""

    async def chunk(self, *, until: float, phase: Phase) -> bytes:
        """The next piece of the body, decompressed; empty at its end. ``until`` is the loop's time."""

    async def drain(self) -> None:
        """Wait a moment for the end of a body whose content is complete, so that the connection can be reused."""

    async def aclose(self) -> None:
        """Close the connection at once unless the body was read to its end. May be called repeatedly."""


class Transport(Protocol):
    """The guarded way out, shared by all calls of one event loop."""

    async def open(
        self,
        *,
        endpoint: Endpoint,
        method: str,
        path: str,
        headers: tuple[tuple[bytes, bytes], ...],
        body: bytes = b"",
        phase: Phase = Phase.ANSWER,
    ) -> Exchange:
        """Send a request to ``base_url/path`` and wait for the head of the answer.

        Redirects are not followed: they come back as answers. Raises ``CallFailed`` when there is no answer.
        """


class ReplyStream(Protocol):
    """A streamed answer: an asynchronous iterator of frames.

    The provider's terminator is yielded too, as a frame with its bytes and no events, so that forwarding the
    frames that are not hidden is a complete stream. Everything that goes wrong after the head of the answer
    raises ``CallFailed`` out of the iteration, after the frames before it; the iteration is over then.
    """

    def __aiter__(self) -> "ReplyStream":
        """The stream itself."""

    async def __anext__(self) -> Frame:
        """The next frame."""

    async def aclose(self) -> None:
        """Close the connection to the provider at once. May be called repeatedly, also while a read waits."""


class Api(Protocol):
    """One of a vendor's ways of being called: for answers, or for embeddings.

    A request that arrived in the same protocol is forwarded as it is, but for the model; any other is
    written from its canonical form, or refused with ``carrying.NotCarried`` before anything is sent.
    """

    @property
    def protocol(self) -> conversation.Protocol:
        """The protocol that the bytes of its answers are in."""

    @property
    def carries(self) -> Carries:
        """How it carries what requests of other protocols ask for."""

    async def call(
        self,
        *,
        endpoint: Endpoint,
        model_id: str,
        request: CallRequest,
        transport: Transport,
        max_output: int | None = None,
    ) -> CallReply:
        """Ask for a whole answer. Raises ``CallFailed``.

        ``max_output`` is the most tokens the model can generate, for vendors that demand a limit of every request.
        """

    async def open_stream(
        self,
        *,
        endpoint: Endpoint,
        model_id: str,
        request: CallRequest,
        transport: Transport,
        max_output: int | None = None,
    ) -> ReplyStream:
        """Ask for a streamed answer. Raises ``CallFailed`` for all that goes wrong before the head is judged."""


class Adapter(Api, Protocol):
    """A vendor: how it is asked for answers, and what it has to offer."""

    async def list_models(self, *, endpoint: Endpoint, transport: Transport) -> tuple[str, ...]:
        """The ids of the models the key may use: a check of the endpoint that costs nothing."""
