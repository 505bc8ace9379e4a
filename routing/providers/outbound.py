"""Where connections may go. Everything that leaves passes this: adapters, classifiers, webhooks.

The rule: https only, unless the endpoint is self-hosted or its ``host:port`` is an exception; and whatever a name
resolves to, only public addresses, unless the ``host:port`` is an exception. An address is judged three times: as
a literal in the URL, as the answer of the resolver (every address of a name, so that a name with one bad address
is refused as a whole), and as the address a socket is about to be connected to. The last is the one that counts:
there is no way around it by caching, by a name that changes its answer, or by two libraries reading one URL
differently.

An exception that is a *name* lifts private, shared and loopback addresses. Link-local, metadata, unspecified,
multicast and reserved addresses need an exception that spells the address itself.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

import httpx
from aiohttp.abc import AbstractResolver, ResolveResult

SETTING = "SIGNALBOX_OUTBOUND_ALLOW"
"""The setting that holds the exceptions; errors name it."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[object, ...]]


class AddressClass(StrEnum):
    """Why an address is not public."""

    PRIVATE = "private"
    LOOPBACK = "loopback"
    SHARED = "shared (carrier-grade NAT)"
    LINK_LOCAL = "link-local"
    METADATA = "a cloud's metadata service"
    UNSPECIFIED = "unspecified"
    MULTICAST = "multicast"
    RESERVED = "reserved"


LIFTED_FOR_NAMES = frozenset({AddressClass.PRIVATE, AddressClass.LOOPBACK, AddressClass.SHARED})

_CLASSES: tuple[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, AddressClass], ...] = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("169.254.169.254/32", AddressClass.METADATA),
        ("169.254.170.2/32", AddressClass.METADATA),
        ("100.100.100.200/32", AddressClass.METADATA),
        ("168.63.129.16/32", AddressClass.METADATA),
        ("0.0.0.0/8", AddressClass.UNSPECIFIED),
        ("10.0.0.0/8", AddressClass.PRIVATE),
        ("100.64.0.0/10", AddressClass.SHARED),
        ("127.0.0.0/8", AddressClass.LOOPBACK),
        ("169.254.0.0/16", AddressClass.LINK_LOCAL),
        ("172.16.0.0/12", AddressClass.PRIVATE),
        ("192.0.0.0/24", AddressClass.RESERVED),
        ("192.0.2.0/24", AddressClass.RESERVED),
        ("192.88.99.0/24", AddressClass.RESERVED),
        ("192.168.0.0/16", AddressClass.PRIVATE),
        ("198.18.0.0/15", AddressClass.RESERVED),
        ("198.51.100.0/24", AddressClass.RESERVED),
        ("203.0.113.0/24", AddressClass.RESERVED),
        ("224.0.0.0/4", AddressClass.MULTICAST),
        ("240.0.0.0/4", AddressClass.RESERVED),
        ("fd00:ec2::254/128", AddressClass.METADATA),
        ("fd20:ce::254/128", AddressClass.METADATA),
        ("::/128", AddressClass.UNSPECIFIED),
        ("::1/128", AddressClass.LOOPBACK),
        ("fc00::/7", AddressClass.PRIVATE),
        ("fe80::/10", AddressClass.LINK_LOCAL),
        ("fec0::/10", AddressClass.PRIVATE),
        ("ff00::/8", AddressClass.MULTICAST),
        ("2001::/23", AddressClass.RESERVED),
        ("2001:db8::/32", AddressClass.RESERVED),
        ("3fff::/20", AddressClass.RESERVED),
    )
)
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NUMERIC_LABEL = re.compile(r"\A(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z")
_NAME = re.compile(r"\A[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\Z")


class DestinationBlocked(OSError):
    """Raised for a destination the policy does not allow; the message is for the operator.

    An ``OSError``, since it has to travel through the connecting code of two libraries.
    """


@dataclass(frozen=True, slots=True)
class Destination:
    """A URL's target: the host in lower case, without brackets, and the port, standard ports included."""

    host: str
    port: int
    is_exempt: bool = False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """The rule and its exceptions: ``allow`` holds ``host:port`` entries, IPv6 hosts in brackets."""

    allow: frozenset[str] = frozenset()
    _exempt: frozenset[tuple[str, int]] = field(init=False, repr=False, default=frozenset())

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exempt", frozenset(_parse_entry(entry) for entry in self.allow))

    def destination(self, url: str, *, allow_http: bool = False) -> Destination:
        """Judge a URL before anything is resolved. Raises :class:`DestinationBlocked`."""
        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, ValueError, TypeError):
            raise DestinationBlocked("the base URL cannot be read as a URL") from None
        scheme, host = parsed.scheme, parsed.raw_host.decode("ascii", "replace").lower()
        if scheme not in ("https", "http") or not host:
            raise DestinationBlocked("the base URL must begin with https:// and name a host")
        if parsed.userinfo or parsed.query or parsed.fragment or "?" in url or "#" in url:
            raise DestinationBlocked("the base URL must not contain credentials, a query or a fragment")
        port = parsed.port or (443 if scheme == "https" else 80)
        if not 0 < port < 65536:
            raise DestinationBlocked("the base URL has no valid port")
        destination = Destination(host, port, is_exempt=(host, port) in self._exempt)
        if scheme == "http" and not (allow_http or destination.is_exempt):
            raise DestinationBlocked(
                f"{destination} would be called over plain http: use https, add {destination} to {SETTING}, "
                "or, if it is a provider on your own machines, mark it as self-hosted"
            )
        literal = _literal(host)
        if literal is not None:
            self.check_address(destination, literal)
        return destination

    def check_address(self, destination: Destination, address: str | Address) -> None:
        """Judge an address that a connection for ``destination`` would go to. Raises :class:`DestinationBlocked`."""
        kind = classify_address(address)
        if kind is None:
            return
        if destination.is_exempt and (kind in LIFTED_FOR_NAMES or _literal(destination.host) is not None):
            return
        spelled = f"[{address}]" if ":" in str(address) else str(address)
        entry = str(destination) if kind in LIFTED_FOR_NAMES else f"{spelled}:{destination.port}"
        raise DestinationBlocked(
            f"{destination} leads to an address that is not public ({kind.value}): "
            f"if that is intended, add {entry} to {SETTING}"
        )


class GuardedResolver(AbstractResolver):
    """Resolves names and refuses a name of which any address is refused."""

    def __init__(self, *, policy: OutboundPolicy, destination: Destination, inner: AbstractResolver) -> None:
        self._policy = policy
        self._destination = destination
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        results = await self._inner.resolve(host, port, family)
        for result in results:
            self._policy.check_address(self._destination, result["host"])
        return results

    async def close(self) -> None:
        await self._inner.close()


class GuardedSockets:
    """Makes the sockets of one destination: the last look at the address, right before connecting to it."""

    def __init__(self, *, policy: OutboundPolicy, destination: Destination) -> None:
        self._policy = policy
        self._destination = destination

    def __call__(self, info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        self._policy.check_address(self._destination, str(address[0]))
        return socket.socket(family=family, type=kind, proto=protocol)


def classify_address(address: str | Address) -> AddressClass | None:
    """Why an address is not public, or ``None`` if it is. What cannot be read is reserved.

    IPv6 forms that carry an IPv4 address to which a router or the kernel would translate them (mapped, NAT64,
    6to4) are judged by that address.
    """
    if isinstance(address, str):
        try:
            address = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return AddressClass.RESERVED
    if isinstance(address, ipaddress.IPv6Address):
        embedded = _embedded(address)
        if embedded is not None:
            return classify_address(embedded)
    for network, kind in _CLASSES:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return AddressClass.RESERVED
    return None


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _literal(host: str) -> Address | None:
    """The address a host spells, ``None`` for a name. Raises for spellings that only some software understands."""
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host)
        except ValueError:
            raise DestinationBlocked("the host of the base URL is no valid IPv6 address") from None
    labels = host.rstrip(".").split(".")
    if _NUMERIC_LABEL.match(labels[-1]):
        try:
            literal = ipaddress.IPv4Address(host)
        except ValueError:
            literal = None
        if literal is None or str(literal) != host:
            raise DestinationBlocked("the host of the base URL is an IPv4 address in an unusual spelling")
        return literal
    if not _NAME.match(host.rstrip(".")) or ".." in host:
        raise DestinationBlocked("the host of the base URL is no valid name")
    return None


def _parse_entry(entry: str) -> tuple[str, int]:
    """An exception as host and port. Raises ``ValueError`` for anything but ``host:port``."""
    text = entry.strip()
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port is None or any(mark in text for mark in "@/?#"):
        raise ValueError(f"{SETTING} takes entries of the form host:port, not {entry!r}")
    return host.lower(), port
