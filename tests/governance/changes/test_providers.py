"""Changes of providers and their keys: sealed, never told, and sealed again under a new key of the ring."""

import secrets

import pytest

from governance.audit.actions import AuditAction
from governance.changes.providers import reseal_keys, save_provider
from governance.models import AuditEvent, Revision
from routing.credentials import read_key, store_key
from routing.models import CatalogueVersion, Provider
from routing.vault import Vault, VaultError
from tests.authors import SOMEBODY
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


def trail() -> list[tuple[str, str]]:
    return [(event.action, event.record) for event in AuditEvent.objects.order_by("number")]


def test_a_first_key_is_a_change_and_no_rotation() -> None:
    provider = ProviderFactory.create()
    save_provider(provider, author=SOMEBODY, vault=Vault([OLD]), key="short", only=[])
    assert read_key(stored(provider), vault=Vault([OLD])) == "short"
    assert trail() == [("changed", "prod-east")]
    assert Revision.objects.get().changes == {"has_key": (False, True)}


@pytest.mark.parametrize("key", [KEY, "short"])
def test_a_key_is_removed_even_if_its_end_is_not_kept(key: str) -> None:
    provider = provider_with_key(vault=Vault([OLD]), key=key)
    save_provider(stored(provider), author=SOMEBODY, vault=Vault([OLD]), key="", only=[])
    assert stored(provider).sealed_key is None
    assert Revision.objects.get().changes["has_key"] == (True, False)


def test_a_replaced_key_is_told_of_even_if_it_ends_alike() -> None:
    provider = provider_with_key(vault=Vault([OLD]))
    other = "sk-other-0123456789-b971"
    save_provider(stored(provider), author=SOMEBODY, vault=Vault([OLD]), key=other, only=[])
    assert read_key(stored(provider), vault=Vault([OLD])) == other
    assert trail() == [(AuditAction.ROTATED, "prod-east")]
    assert Revision.objects.get().changes == {}


def test_a_provider_that_is_left_alone_keeps_its_key_and_the_trail_is_silent() -> None:
    provider = provider_with_key(vault=Vault([OLD]))
    before = CatalogueVersion.read()
    save_provider(stored(provider), author=SOMEBODY, vault=Vault([OLD]))
    assert stored(provider).updated_at == provider.updated_at
    assert (trail(), CatalogueVersion.read()) == ([], before)


# --- Sealed again ---------------------------------------------------------------------------------------------------


def test_what_an_older_key_sealed_is_sealed_again_and_nothing_else() -> None:
    old, both = Vault([OLD]), Vault([NEW, OLD])
    first, second = provider_with_key(vault=old), provider_with_key(vault=old, key="sk-other-8c2f-4411")
    current = provider_with_key(vault=both)
    without = ProviderFactory.create()
    before = CatalogueVersion.read()

    assert list(reseal_keys(author=SOMEBODY, vault=both)) == [first.identifier, second.identifier]
    assert CatalogueVersion.read() > before
    new = Vault([NEW])
    assert read_key(stored(first), vault=new) == KEY
    assert read_key(stored(second), vault=new) == "sk-other-8c2f-4411"
    assert stored(first).key_hint == first.key_hint
    assert stored(current).sealed_key == current.sealed_key
    assert stored(without).sealed_key is None

    before = CatalogueVersion.read()
    assert list(reseal_keys(author=SOMEBODY, vault=both)) == []
    assert CatalogueVersion.read() == before


def test_sealing_again_changes_the_key_only() -> None:
    provider = provider_with_key(vault=Vault([OLD]))
    rotation = reseal_keys(author=SOMEBODY, vault=Vault([NEW, OLD]))
    # Somebody saves another field while the rotation is on its way.
    edited = stored(provider)
    edited.priority = 7
    edited.save()
    assert list(rotation) == [provider.identifier]
    assert stored(provider).priority == 7


def test_a_key_that_does_not_open_keeps_no_other_from_being_sealed_again() -> None:
    lost = Vault([("k0", secrets.token_bytes(32))])
    broken = provider_with_key(vault=lost)
    garbled = ProviderFactory.create(sealed_key=b"\x01")
    good = provider_with_key(vault=Vault([OLD]))
    done: list[str] = []
    with pytest.raises(VaultError) as refused:
        done.extend(reseal_keys(author=SOMEBODY, vault=Vault([NEW, OLD])))
    assert Vault([NEW]).sealed_by(bytes(stored(good).sealed_key or b"")) == "k2"
    for provider in (broken, garbled):
        assert f"{provider.identifier} (" in str(refused.value)
        assert stored(provider).sealed_key == provider.sealed_key
    assert good.identifier not in str(refused.value)
    assert KEY not in str(refused.value)


def test_sealing_again_is_in_the_trail() -> None:
    provider_with_key(vault=Vault([OLD]))
    list(reseal_keys(author=SOMEBODY, vault=Vault([NEW, OLD])))
    assert trail() == [(AuditAction.RESEALED, "prod-east")]
