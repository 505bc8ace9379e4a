"""Providers in the admin: a key goes in, is sealed, and is seen on no page."""

from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from routing.credentials import read_key, store_key
from routing.models import CatalogueVersion, Provider
from routing.providers.registry import ADAPTER_TYPES
from routing.vault import Vault
from tests.factories import LanguageModelFactory, ProviderFactory
from tests.governance.admin.pages import complaints, sent_by, text_of

KEY = "sk-live-5d41402abc4b2a76b971"
LIST = reverse("admin:routing_provider_changelist")
ADD = reverse("admin:routing_provider_add")


def vault() -> Vault:
    return Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)


def page_of(provider: Provider) -> str:
    return reverse("admin:routing_provider_change", args=[provider.pk])


def add(operator: Client, **values: Any) -> Any:
    defaults = {"name": "Production, east", "identifier": "prod-east", "adapter_type": "openai"}
    return operator.post(ADD, sent_by(operator.get(ADD), **{**defaults, **values}), follow=True)


def everything_stored() -> str:
    rows = [
        {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}
        for model in apps.get_models()
        for row in model._base_manager.values()
    ]
    return repr(rows)


def test_a_provider_is_made_with_its_key_sealed(operator: Client) -> None:
    answer = add(operator, api_key=KEY, priority="70")
    provider = Provider.objects.get()
    assert (provider.identifier, provider.adapter_type, provider.priority) == ("prod-east", "openai", 70)
    assert read_key(provider, vault=vault()) == KEY
    assert provider.key_hint == KEY[-4:]
    assert KEY not in text_of(answer)
    assert KEY not in everything_stored()


def test_no_page_shows_a_key(operator: Client) -> None:
    add(operator, api_key=KEY)
    provider = Provider.objects.get()
    history = reverse("admin:routing_provider_history", args=[provider.pk])
    for page in (LIST, page_of(provider), history, reverse("admin:index")):
        source = text_of(operator.get(page))
        assert KEY not in source
        assert KEY[3:] not in source
    assert f"ends in {KEY[-4:]}" in text_of(operator.get(LIST))
    assert f"ends in {KEY[-4:]}" in text_of(operator.get(page_of(provider)))


def test_a_form_that_is_sent_back_does_not_hold_the_key(operator: Client) -> None:
    answer = add(operator, api_key=KEY, priority="101")
    assert "priority" in complaints(answer)
    assert KEY not in text_of(answer)
    assert not Provider.objects.exists()


def test_an_empty_key_field_keeps_the_stored_key(operator: Client) -> None:
    add(operator, api_key=KEY)
    provider = Provider.objects.get()
    operator.post(page_of(provider), sent_by(operator.get(page_of(provider)), region="eu-north"))
    changed = Provider.objects.get()
    assert changed.region == "eu-north"
    assert changed.sealed_key == provider.sealed_key
    assert read_key(changed, vault=vault()) == KEY


def test_a_key_is_replaced_and_removed(operator: Client) -> None:
    add(operator, api_key=KEY)
    provider = Provider.objects.get()
    operator.post(page_of(provider), sent_by(operator.get(page_of(provider)), api_key="sk-new-0123456789"))
    assert read_key(Provider.objects.get(), vault=vault()) == "sk-new-0123456789"
    operator.post(page_of(provider), sent_by(operator.get(page_of(provider)), remove_key="on"))
    assert (Provider.objects.get().sealed_key, Provider.objects.get().key_hint) == (None, "")


def test_a_change_of_the_key_alone_is_heard_of(operator: Client) -> None:
    provider = ProviderFactory.create()
    before = CatalogueVersion.read()
    operator.post(page_of(provider), sent_by(operator.get(page_of(provider)), api_key=KEY))
    assert CatalogueVersion.read() > before


@pytest.mark.parametrize("key", ["sk live 123", "sk-\u00e9t\u00e9-0123", "sk-\u200b0123456789"])
def test_a_key_that_no_header_can_carry_is_refused_without_repeating_it(operator: Client, key: str) -> None:
    answer = add(operator, api_key=key)
    assert list(complaints(answer)) == ["api_key"]
    assert key not in text_of(answer)
    assert not Provider.objects.exists()


def test_blanks_around_a_pasted_key_do_not_count(operator: Client) -> None:
    add(operator, api_key=f"  {KEY} ")
    assert read_key(Provider.objects.get(), vault=vault()) == KEY


def test_a_new_key_and_its_removal_exclude_each_other(operator: Client) -> None:
    provider = ProviderFactory.create()
    answer = operator.post(page_of(provider), sent_by(operator.get(page_of(provider)), api_key=KEY, remove_key="on"))
    assert list(complaints(answer)) == ["remove_key"]


def test_a_missing_key_is_remarked_upon_where_one_is_needed(operator: Client) -> None:
    assert "has no key, and OpenAI answers nobody without one" in text_of(add(operator))
    answer = add(operator, identifier="at-home", adapter_type="ollama")
    assert "has no key" not in text_of(answer)
    assert "none needed" in text_of(operator.get(LIST))


def test_the_adapter_types_are_those_there_are(operator: Client) -> None:
    page = text_of(operator.get(ADD))
    for kind in ADAPTER_TYPES.values():
        assert f'<option value="{kind.name}">' in page
    assert list(complaints(add(operator, adapter_type="telepathy"))) == ["adapter_type"]


def test_an_adapter_type_of_another_version_is_kept(operator: Client) -> None:
    provider = ProviderFactory.create(adapter_type="of_old_times")
    page = operator.get(page_of(provider))
    assert "not built into this version" in text_of(page)
    operator.post(page_of(provider), sent_by(page, region="eu-north"))
    assert (Provider.objects.get().adapter_type, Provider.objects.get().region) == ("of_old_times", "eu-north")
    assert "of_old_times (unknown)" in text_of(operator.get(LIST))


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"identifier": "Prod East"}, "identifier"),
        ({"identifier": "taken"}, "identifier"),
        ({"base_url": "llm.example.com/v1"}, "base_url"),
        ({"base_url": "ftp://llm.example.com/v1"}, "base_url"),
        ({"base_url": "https://user:sk-secret@llm.example.com/v1"}, "base_url"),
        ({"base_url": "https://llm.example.com/v1?key=sk-secret"}, "base_url"),
        ({"base_url": "https://[llm.example.com/v1"}, "base_url"),
        ({"base_url": "https://llm.example.com:99999/v1"}, "base_url"),
        ({"adapter_type": "custom", "base_url": ""}, "base_url"),
        ({"priority": "101"}, "priority"),
        ({"max_concurrent": "0"}, "max_concurrent"),
        ({"total_timeout": "0"}, "total_timeout"),
        ({"reach": "the_moon"}, "reach"),
    ],
)
def test_bad_input_names_its_field_and_loses_nothing(operator: Client, values: dict[str, str], field: str) -> None:
    ProviderFactory.create(identifier="taken")
    answer = add(operator, name="A name that took long to find", region="eu-south", **values)
    assert list(complaints(answer)) == [field]
    assert Provider.objects.count() == 1
    typed = sent_by(answer)
    assert (typed["name"], typed["region"]) == (["A name that took long to find"], ["eu-south"])
    assert all("sk-secret" not in each for each in complaints(answer)[field])


def test_an_identifier_is_typed_once(operator: Client) -> None:
    provider = ProviderFactory.create()
    sent = sent_by(operator.get(page_of(provider)), identifier="another", region="eu-north")
    operator.post(page_of(provider), sent)
    assert (Provider.objects.get().identifier, Provider.objects.get().region) == ("prod-east", "eu-north")


def test_only_what_was_changed_is_saved(operator: Client) -> None:
    """Two people at one provider, or one and a key rotation."""
    provider = ProviderFactory.create()
    page = operator.get(page_of(provider))
    meanwhile = Provider.objects.get()
    store_key(meanwhile, KEY, vault=vault())
    meanwhile.save()
    operator.post(page_of(provider), sent_by(page, region="eu-north"))
    changed = Provider.objects.get()
    assert changed.region == "eu-north"
    assert read_key(changed, vault=vault()) == KEY
    assert changed.updated_at > meanwhile.updated_at


def test_saving_without_a_change_changes_nothing(operator: Client) -> None:
    provider = ProviderFactory.create()
    before = CatalogueVersion.read()
    answer = operator.post(page_of(provider), sent_by(operator.get(page_of(provider))))
    assert answer.status_code == 302
    assert CatalogueVersion.read() == before


# --- Switching off and retiring -----------------------------------------------------------------------------------


def act(operator: Client, action: str, *providers: Provider) -> str:
    return text_of(
        operator.post(
            f"{LIST}?service=all",
            {"action": action, "_selected_action": [provider.pk for provider in providers]},
            follow=True,
        )
    )


def test_a_provider_is_retired_and_brought_back(operator: Client) -> None:
    provider, other = ProviderFactory.create(), ProviderFactory.create()
    before = CatalogueVersion.read()
    assert "Retired: prod-east." in act(operator, "retire", provider)
    provider.refresh_from_db()
    assert provider.retired_at is not None
    assert provider.is_active is False
    assert CatalogueVersion.read() > before
    assert Provider.objects.get(pk=other.pk).retired_at is None

    assert "prod-east-2" in text_of(operator.get(LIST))
    assert page_of(provider) not in text_of(operator.get(LIST))
    assert page_of(provider) in text_of(operator.get(f"{LIST}?service=retired"))
    assert page_of(provider) in text_of(operator.get(f"{LIST}?service=all"))

    page = operator.get(page_of(provider))
    assert 'name="_save"' not in text_of(page)
    assert 'name="api_key"' not in text_of(page)
    assert operator.post(page_of(provider), {"name": "x"}).status_code == 403

    assert "nothing was changed" in act(operator, "activate", provider)
    assert "Brought back: prod-east." in act(operator, "bring_back", provider)
    provider.refresh_from_db()
    assert (provider.retired_at, provider.is_active) == (None, False)
    assert "Switched on: prod-east." in act(operator, "activate", provider)
    assert Provider.objects.get(pk=provider.pk).is_active is True
    history = text_of(operator.get(reverse("admin:routing_provider_history", args=[provider.pk])))
    places = [history.index(f"{action} <span") for action in ("Changed", "Brought back", "Retired")]
    assert places == sorted(places)
    assert history.count("by olivia (Admin)") == 3


def test_switching_off_several_is_one_change_for_each(operator: Client) -> None:
    providers = [ProviderFactory.create() for _ in range(3)]
    said = act(operator, "deactivate", *providers)
    assert "Switched off: prod-east, prod-east-2, prod-east-3." in said
    assert not Provider.objects.filter(is_active=True).exists()


def test_a_retired_provider_is_offered_to_no_new_model(operator: Client) -> None:
    gone = ProviderFactory.create(identifier="prod-gone", retired_at=timezone.now())
    ProviderFactory.create()
    add_model = text_of(operator.get(reverse("admin:routing_languagemodel_add")))
    assert "prod-east</option>" in add_model
    assert "prod-gone</option>" not in add_model
    model = LanguageModelFactory.create(provider=gone)
    page = text_of(operator.get(reverse("admin:routing_languagemodel_change", args=[model.pk])))
    assert "prod-gone</option>" in page
