"""A provider's key lies sealed in its row, opens there only, and follows the ring."""

import secrets

import pytest
from django.core import serializers
from django.db import connection

from routing.credentials import read_key, reseal_key, store_key
from routing.models import Provider
from routing.vault import Vault, VaultError
from tests.factories import ProviderFactory

KEY = "sk-live-5d41402abc4b2a76b971"
OLD = ("k1", secrets.token_bytes(32))
NEW = ("k2", secrets.token_bytes(32))

pytestmark = pytest.mark.django_db


def provider_with_key(*, vault: Vault, key: str = KEY) -> Provider:
    provider: Provider = ProviderFactory.create()
    store_key(provider, key, vault=vault)
    provider.save()
    return provider


def stored(provider: Provider) -> Provider:
    return Provider.objects.get(pk=provider.pk)


def test_a_key_is_read_from_the_row_it_was_stored_in() -> None:
    vault = Vault([OLD])
    provider = stored(provider_with_key(vault=vault))
    assert read_key(provider, vault=vault) == KEY
    assert provider.key_hint == "b971"


def test_a_provider_without_a_key_has_an_empty_one() -> None:
    provider = stored(ProviderFactory.create())
    assert read_key(provider, vault=Vault([OLD])) == ""
    assert (provider.sealed_key, provider.key_hint) == (None, "")


@pytest.mark.parametrize("key", ["", "   ", "\n"])
def test_an_empty_key_removes_the_stored_one(key: str) -> None:
    vault = Vault([OLD])
    provider = provider_with_key(vault=vault)
    store_key(provider, key, vault=vault)
    provider.save()
    assert (stored(provider).sealed_key, stored(provider).key_hint) == (None, "")


def test_blanks_around_a_key_come_from_pasting() -> None:
    vault = Vault([OLD])
    assert read_key(stored(provider_with_key(vault=vault, key=f" {KEY}\n")), vault=vault) == KEY


@pytest.mark.parametrize(("key", "hint"), [("short", ""), ("twelve-chars", ""), ("thirteen-char", "char")])
def test_a_hint_tells_little_of_a_key(key: str, hint: str) -> None:
    assert provider_with_key(vault=Vault([OLD]), key=key).key_hint == hint


def test_the_row_holds_no_key_and_no_dump_of_it_does() -> None:
    provider = provider_with_key(vault=Vault([OLD]))
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM routing_provider")
        row = repr([bytes(value) if isinstance(value, memoryview) else value for value in cursor.fetchone()])
    for text in (row, serializers.serialize("json", [provider]), repr(provider), str(provider)):
        assert KEY not in text


def test_a_sealed_key_copied_to_another_provider_does_not_open() -> None:
    vault = Vault([OLD])
    other = ProviderFactory.create()
    other.sealed_key = provider_with_key(vault=vault).sealed_key
    other.save()
    with pytest.raises(VaultError, match="belongs to another record"):
        read_key(stored(other), vault=vault)


def test_a_key_is_sealed_again_by_the_first_of_the_ring() -> None:
    old, both = Vault([OLD]), Vault([NEW, OLD])
    provider = provider_with_key(vault=old)
    assert not reseal_key(provider, vault=old)
    assert reseal_key(provider, vault=both)
    assert not reseal_key(provider, vault=both)
    assert read_key(provider, vault=Vault([NEW])) == KEY
    assert reseal_key(stored(provider), vault=both)  # nothing is saved here
    assert not reseal_key(ProviderFactory.create(), vault=both)
