"""A provider's key lies sealed in its row, opens there only, and follows the ring."""

import secrets

import pytest
from django.core import serializers
from django.db import connection

from routing.credentials import read_key, rotate_keys, store_key
from routing.models import CatalogueVersion, Provider
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


def test_rotation_seals_again_what_an_older_key_sealed_and_nothing_else() -> None:
    old, both = Vault([OLD]), Vault([NEW, OLD])
    first, second = provider_with_key(vault=old), provider_with_key(vault=old, key="sk-other-8c2f-4411")
    current = provider_with_key(vault=both)
    without = ProviderFactory.create()
    before = CatalogueVersion.read()

    assert list(rotate_keys(vault=both)) == [first.identifier, second.identifier]
    assert CatalogueVersion.read() > before
    new = Vault([NEW])
    assert read_key(stored(first), vault=new) == KEY
    assert read_key(stored(second), vault=new) == "sk-other-8c2f-4411"
    assert stored(first).key_hint == first.key_hint
    assert stored(current).sealed_key == current.sealed_key
    assert stored(without).sealed_key is None

    before = CatalogueVersion.read()
    assert list(rotate_keys(vault=both)) == []
    assert CatalogueVersion.read() == before


def test_rotation_changes_the_key_only() -> None:
    provider = provider_with_key(vault=Vault([OLD]))
    rotation = rotate_keys(vault=Vault([NEW, OLD]))
    # Somebody saves another field while the rotation is on its way.
    edited = stored(provider)
    edited.priority = 7
    edited.save()
    assert list(rotation) == [provider.identifier]
    assert stored(provider).priority == 7


def test_a_key_that_does_not_open_keeps_no_other_from_being_rotated() -> None:
    lost = Vault([("k0", secrets.token_bytes(32))])
    broken = provider_with_key(vault=lost)
    garbled = ProviderFactory.create(sealed_key=b"\x01")
    good = provider_with_key(vault=Vault([OLD]))
    done: list[str] = []
    with pytest.raises(VaultError) as refused:
        done.extend(rotate_keys(vault=Vault([NEW, OLD])))
    assert Vault([NEW]).sealed_by(bytes(stored(good).sealed_key or b"")) == "k2"
    for provider in (broken, garbled):
        assert f"{provider.identifier} (" in str(refused.value)
        assert stored(provider).sealed_key == provider.sealed_key
    assert good.identifier not in str(refused.value)
    assert KEY not in str(refused.value)
