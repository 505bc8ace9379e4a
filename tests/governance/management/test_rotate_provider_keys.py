"""`manage.py rotate_provider_keys` seals every key with the first of the ring, and names what does not open."""

import secrets
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from governance.alerts.addresses import read_query, store_query
from governance.alerts.signing import read_secret, store_secret
from routing.credentials import read_key, store_key
from routing.models import Provider
from routing.vault import Vault
from tests.factories import ProviderFactory, WebhookFactory
from tests.governance.alerts.rows import SECRET

pytestmark = pytest.mark.django_db

KEY = "sk-live-5d41402abc4b2a76b971"
OLD = ("k1", secrets.token_bytes(32))
NEW = ("k2", secrets.token_bytes(32))


def provider_sealed_with(*ring: tuple[str, bytes]) -> Provider:
    provider: Provider = ProviderFactory.create()
    store_key(provider, KEY, vault=Vault(ring))
    provider.save()
    return provider


def run() -> str:
    stdout = StringIO()
    call_command("rotate_provider_keys", stdout=stdout)
    return stdout.getvalue()


def test_every_key_is_sealed_again_once(settings: Settings) -> None:
    provider = provider_sealed_with(OLD)
    settings.SIGNALBOX_ENCRYPTION_KEYS = (NEW, OLD)
    said = run()
    assert f"{provider.identifier}: sealed again." in said
    assert "Sealed again: 1. All provider keys and secrets of webhooks are sealed with 'k2' now" in said
    assert read_key(Provider.objects.get(), vault=Vault([NEW])) == KEY
    assert "Sealed again: 0." in run()
    assert KEY not in said


def test_a_key_that_does_not_open_is_named_and_the_others_are_rotated(settings: Settings) -> None:
    lost = provider_sealed_with(("k0", secrets.token_bytes(32)))
    good = provider_sealed_with(OLD)
    settings.SIGNALBOX_ENCRYPTION_KEYS = (NEW, OLD)
    with pytest.raises(CommandError) as refused:
        run()
    said = str(refused.value)
    assert f"Sealed again: 1. But these keys do not open and were left as they are: {lost.identifier} (" in said
    assert "'k0', which is not in SIGNALBOX_ENCRYPTION_KEYS" in said
    assert read_key(Provider.objects.get(pk=good.pk), vault=Vault([NEW])) == KEY


def test_without_providers_there_is_nothing_to_do() -> None:
    assert "Sealed again: 0." in run()


def test_the_secrets_of_webhooks_are_sealed_again_too(settings: Settings) -> None:
    webhook = WebhookFactory.create()
    store_secret(webhook, SECRET, vault=Vault([OLD]))
    store_query(webhook, "code=hush", vault=Vault([OLD]))
    webhook.save()
    settings.SIGNALBOX_ENCRYPTION_KEYS = (NEW, OLD)
    assert "pager: sealed again." in run()
    webhook.refresh_from_db()
    assert read_secret(webhook, vault=Vault([NEW])) == SECRET
    assert read_query(webhook, vault=Vault([NEW])) == "code=hush"
    assert "Sealed again: 0." in run()
