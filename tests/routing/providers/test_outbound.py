import ipaddress
import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st

from routing.providers.outbound import (
    AddressClass,
    DestinationBlocked,
    GuardedResolver,
    GuardedSockets,
    OutboundPolicy,
    classify_address,
)

STRICT = OutboundPolicy()


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("169.254.169.254", AddressClass.METADATA),
        ("169.254.170.2", AddressClass.METADATA),
        ("100.100.100.200", AddressClass.METADATA),
        ("168.63.129.16", AddressClass.METADATA),
        ("fd00:ec2::254", AddressClass.METADATA),
        ("169.254.1.1", AddressClass.LINK_LOCAL),
        ("fe80::1", AddressClass.LINK_LOCAL),
        ("fe80::1%eth0", AddressClass.LINK_LOCAL),
        ("127.0.0.1", AddressClass.LOOPBACK),
        ("127.255.255.254", AddressClass.LOOPBACK),
        ("::1", AddressClass.LOOPBACK),
        ("10.1.2.3", AddressClass.PRIVATE),
        ("172.31.255.255", AddressClass.PRIVATE),
        ("192.168.0.1", AddressClass.PRIVATE),
        ("fd12:3456::1", AddressClass.PRIVATE),
        ("fec0::1", AddressClass.PRIVATE),
        ("100.64.0.1", AddressClass.SHARED),
        ("100.127.255.255", AddressClass.SHARED),
        ("0.0.0.0", AddressClass.UNSPECIFIED),  # noqa: S104
        ("0.1.2.3", AddressClass.UNSPECIFIED),
        ("::", AddressClass.UNSPECIFIED),
        ("224.0.0.1", AddressClass.MULTICAST),
        ("ff02::1", AddressClass.MULTICAST),
        ("255.255.255.255", AddressClass.RESERVED),
        ("198.18.0.1", AddressClass.RESERVED),
        ("192.0.0.8", AddressClass.RESERVED),
        ("2001:db8::1", AddressClass.RESERVED),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", AddressClass.RESERVED),
        ("64:ff9b:1::1", AddressClass.RESERVED),
        ("::7f00:1", AddressClass.RESERVED),
        ("4000::1", AddressClass.RESERVED),
        ("::ffff:169.254.169.254", AddressClass.METADATA),
        ("::ffff:a9fe:a9fe", AddressClass.METADATA),
        ("::ffff:127.0.0.1", AddressClass.LOOPBACK),
        ("64:ff9b::a9fe:a9fe", AddressClass.METADATA),
        ("64:ff9b::7f00:1", AddressClass.LOOPBACK),
        ("2002:a9fe:a9fe::1", AddressClass.METADATA),
        ("2002:7f00:1::", AddressClass.LOOPBACK),
        ("not an address", AddressClass.RESERVED),
        ("8.8.8.8", None),
        ("172.32.0.1", None),
        ("100.128.0.1", None),
        ("2606:4700::1111", None),
        ("::ffff:8.8.8.8", None),
        ("64:ff9b::808:808", None),
        ("2002:808:808::1", None),
    ],
)
def test_addresses(address: str, expected: AddressClass | None) -> None:
    assert classify_address(address) is expected


@given(st.ip_addresses(v=4))
def test_ipv6_forms_are_judged_as_the_ipv4_address_they_carry(address: ipaddress.IPv4Address) -> None:
    expected = classify_address(address)
    number = int(address)
    for prefix, shift in ((0xFFFF << 32, 0), (0x64FF9B << 96, 0), (0x2002 << 112, 80)):
        assert classify_address(ipaddress.IPv6Address(prefix | number << shift)) is expected


@given(st.ip_addresses())
def test_nothing_is_public_that_the_standard_library_calls_otherwise(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if classify_address(address) is None and not (
        isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.sixtofour)
    ):
        assert not any((address.is_private, address.is_loopback, address.is_link_local, address.is_multicast))


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1", "169.254.169.254", "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376",
        "127.1", "127.0.1", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "0", "0.0.0.0",  # noqa: S104
        "00000177.0.0.1", "1.1.1.1.1",
        "256.256.256.256", "100.64.0.1", "100.100.100.200", "[::1]", "[::]", "[::ffff:a9fe:a9fe]",
        "[::ffff:127.0.0.1]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[fd00:ec2::254]", "[fe80::1]",
        "[fe80::1%25eth0]", "[::127.0.0.1]", "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021",
        "10.0.0.1", "192.168.1.1",
    ],
)  # fmt: skip
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_no_spelling_of_an_address_gets_through(scheme: str, host: str) -> None:
    with pytest.raises(DestinationBlocked):
        STRICT.destination(f"{scheme}://{host}/v1", allow_http=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/v1", "ftp://api.example.com", "//api.example.com", "api.example.com/v1", "",
        "https://", "https:///v1", "https://user:secret@api.example.com/v1", "https://user@api.example.com/v1",
        "https://api.example.com/v1?key=secret", "https://api.example.com/v1#part", "https://api.example.com:0x1/",
        "https://api.example.com:99999/v1", "https://api example.com/", "https://api..example.com/v1",
        "https://127.0.0.1\\@api.example.com/", "https://api.example.com\r\nhost: x/", "file:///etc/passwd",
        "https://%31%32%37.0.0.1/v1", "https://-x.example.com!/v1",
    ],
)  # fmt: skip
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(DestinationBlocked) as caught:
        STRICT.destination(url)
    assert "secret" not in str(caught.value)


def test_the_target_of_a_url() -> None:
    found = STRICT.destination("https://API.Example.com/v1")
    assert (found.host, found.port, found.is_exempt) == ("api.example.com", 443, False)
    assert STRICT.destination("https://8.8.8.8:8443/v1").port == 8443
    assert STRICT.destination("http://models.example.com/v1", allow_http=True).port == 80
    assert str(STRICT.destination("https://[2606:4700::1111]/v1")) == "[2606:4700::1111]:443"


def test_http_for_a_self_hosted_provider_opens_no_private_address() -> None:
    with pytest.raises(DestinationBlocked, match=r"add 10\.0\.0\.5:8000 to SIGNALBOX_OUTBOUND_ALLOW"):
        STRICT.destination("http://10.0.0.5:8000/v1", allow_http=True)


def test_plain_http_says_what_to_do() -> None:
    with pytest.raises(DestinationBlocked, match=r"use https, add models\.example\.com:80 to SIGNALBOX.*self-hosted"):
        STRICT.destination("http://models.example.com/v1")


def test_an_exception_is_for_one_host_and_port() -> None:
    policy = OutboundPolicy(allow=frozenset({"127.0.0.1:8900", "[::1]:8900", "Ollama.internal:11434"}))
    assert policy.destination("http://127.0.0.1:8900/v1").is_exempt
    assert policy.destination("http://[::1]:8900/v1").is_exempt
    assert policy.destination("http://OLLAMA.internal:11434/v1").is_exempt
    for url in (
        "http://127.0.0.1:8901/v1",
        "http://127.0.0.2:8900/v1",
        "https://127.0.0.1/v1",
        "http://127.0.0.1.:8900/",
    ):
        with pytest.raises(DestinationBlocked):
            policy.destination(url, allow_http=True)


def test_an_exception_by_name_lifts_private_addresses_but_not_metadata() -> None:
    policy = OutboundPolicy(allow=frozenset({"models.internal:8000", "169.254.169.254:80"}))
    named = policy.destination("http://models.internal:8000/v1")
    for address in ("10.0.0.1", "127.0.0.1", "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"):
        policy.check_address(named, address)
    for address in ("169.254.169.254", "169.254.7.7", "0.0.0.1", "224.0.0.1", "fd00:ec2::254", "::ffff:a9fe:a9fe"):
        with pytest.raises(DestinationBlocked):
            policy.check_address(named, address)
    policy.destination("http://169.254.169.254/v1")


@pytest.mark.parametrize(
    "entry", ["127.0.0.1", "host", ":8900", "http://h:1", "h:1/x", "u@h:1", "h:port", "h:70000", ""]
)
def test_exceptions_that_are_none(entry: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        OutboundPolicy(allow=frozenset({entry}))


class Answers(AbstractResolver):
    """A resolver that answers one list after the other."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=0,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        pass


async def test_a_name_with_one_bad_address_is_refused_as_a_whole() -> None:
    destination = STRICT.destination("https://api.example.com/v1")
    resolver = GuardedResolver(policy=STRICT, destination=destination, inner=Answers(["8.8.8.8", "10.0.0.1"]))
    with pytest.raises(DestinationBlocked, match=r"api\.example\.com:443"):
        await resolver.resolve("api.example.com", 443)


async def test_a_name_that_changes_its_answer_is_judged_again() -> None:
    destination = STRICT.destination("https://api.example.com/v1")
    resolver = GuardedResolver(policy=STRICT, destination=destination, inner=Answers(["8.8.8.8"], ["127.0.0.1"]))
    assert [each["host"] for each in await resolver.resolve("api.example.com", 443)] == ["8.8.8.8"]
    with pytest.raises(DestinationBlocked):
        await resolver.resolve("api.example.com", 443)


def test_the_last_look_is_at_the_address_of_the_socket() -> None:
    sockets = GuardedSockets(policy=STRICT, destination=STRICT.destination("https://api.example.com/v1"))
    with pytest.raises(DestinationBlocked):
        sockets((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 443)))
    sockets((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("8.8.8.8", 443))).close()
