"""What follows the question mark of a webhook's address: sealed, and for that address alone."""

import pytest

from governance.alerts.addresses import AddressProblem, read_query, reseal_query, split_address, store_query
from governance.models import Webhook
from routing.vault import Vault, VaultError
from tests.governance.alerts.rows import VAULT

URL = "https://alerts.example.com/signalbox"
QUERY = "api-version=2&sig=Zm9v%2Fb%2B8%3D&who=us"


def pager() -> Webhook:
    webhook = Webhook(identifier="pager", url=URL)
    store_query(webhook, QUERY, vault=VAULT)
    return webhook


@pytest.mark.parametrize(
    ("entered", "parts"),
    [
        (URL, (URL, None)),
        (f" {URL} ", (URL, None)),
        (f"{URL}?", (URL, "")),
        (f"{URL}?{QUERY}", (URL, QUERY)),
        (f"{URL}?a=?&b", (URL, "a=?&b")),
    ],
)
def test_an_address_ends_before_its_question_mark(entered: str, parts: tuple[str, str | None]) -> None:
    assert split_address(entered) == parts


@pytest.mark.parametrize("wrong", ["key=hush#here", "key=hu sh", "key=hush\nHost:", "key=hüsh", "key=" + "hush" * 250])
def test_what_is_no_query_is_refused_and_not_repeated(wrong: str) -> None:
    with pytest.raises(AddressProblem) as refused:
        split_address(f"{URL}?{wrong}")
    assert "hush" not in str(refused.value)


def test_it_is_sealed_and_shown_as_dots() -> None:
    webhook = pager()
    assert (webhook.url, webhook.shown_url, webhook.has_query) == (URL, f"{URL}?…", True)
    assert b"sig=" not in bytes(webhook.sealed_query or b"")
    assert read_query(webhook, vault=VAULT) == QUERY


def test_it_goes_with_no_other_address() -> None:
    webhook = pager()
    webhook.url = "https://elsewhere.example.com/"
    assert (webhook.has_query, read_query(webhook, vault=VAULT)) == (False, "")
    webhook.query_of = webhook.url  # by whoever can write to the database
    with pytest.raises(VaultError):
        read_query(webhook, vault=VAULT)


@pytest.mark.parametrize(
    ("query", "url", "left"), [(None, URL, QUERY), ("", URL, ""), (None, f"{URL}/two", ""), ("a", URL, "a")]
)
def test_it_is_kept_replaced_and_forgotten(query: str | None, url: str, left: str) -> None:
    webhook = pager()
    webhook.url = url
    store_query(webhook, query, vault=VAULT)
    assert (read_query(webhook, vault=VAULT), webhook.has_query) == (left, bool(left))
    assert (webhook.sealed_query is None) is not bool(left)


def test_an_older_keys_is_sealed_again_as_it_is() -> None:
    webhook, ring = pager(), Vault([("k2", b"2" * 32), ("k1", bytes(32))])
    assert not reseal_query(Webhook(url=URL), vault=ring)
    assert not reseal_query(webhook, vault=VAULT)
    assert reseal_query(webhook, vault=ring)
    assert read_query(webhook, vault=Vault([("k2", b"2" * 32)])) == QUERY
