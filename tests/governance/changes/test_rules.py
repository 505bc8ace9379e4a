"""What a change is held to beyond its fields, whoever makes it: what it names is there, in service, and no circle."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from governance.audit.actions import RecordKind
from governance.changes.descriptions import describe, version_of
from governance.changes.door import RecordMovedOn
from governance.changes.keys import issue_key, save_key
from governance.changes.providers import save_provider
from governance.changes.records import bring_back, save_evaluation, save_record
from governance.changes.rules import RecordOutOfState
from governance.changes.settings import store_setting
from governance.models import AccessKey, Application, AuditEvent, SettingValue
from routing.core.vocabulary import Selection
from routing.models import Configuration, FallbackLink, LanguageModel, ListedModel, Provider
from routing.vault import Vault
from tests.authors import SOMEBODY
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    ConfigurationFactory,
    EvaluationResultFactory,
    FallbackLinkFactory,
    LanguageModelFactory,
    ProviderFactory,
)

pytestmark = pytest.mark.django_db

GONE: dict[str, Any] = {"retired_at": timezone.now(), "is_active": False}


def refused(change: Callable[[], object]) -> dict[str, list[str]]:
    """What a change is refused for; and that it left nothing behind."""
    with pytest.raises(ValidationError) as complaint:
        change()
    assert not AuditEvent.objects.exists()
    return complaint.value.message_dict


def save(record: Any, *parts: models.Model, removed: Sequence[models.Model] = ()) -> None:
    save_record(record, author=SOMEBODY, parts=parts, parts_removed=removed)


def test_a_provider_is_of_a_kind_there_is_and_has_an_address() -> None:
    unknown = refused(lambda: save(Provider(identifier="lab", adapter_type="telepathy")))
    assert list(unknown) == ["adapter_type"]
    assert "openai" in unknown["adapter_type"][0]
    homeless = refused(lambda: save(Provider(identifier="lab", adapter_type="custom")))
    assert homeless == {"base_url": ["Any OpenAI-compatible host has no address of its own: enter the base URL."]}


def test_what_is_stored_already_is_no_mistake_of_this_change() -> None:
    provider = ProviderFactory.create(adapter_type="of_old_times")
    model = LanguageModelFactory.create(provider=ProviderFactory.create(**GONE))
    configuration = ConfigurationFactory.create(
        selection=Selection.LISTED.value,
        adapter_types=["of_old_times"],
        fixed_model=LanguageModelFactory.create(**GONE),
        models=[LanguageModelFactory.create(**GONE)],
    )
    FallbackLinkFactory.create(configuration=configuration, fallback=ConfigurationFactory.create(**GONE))
    key, _ = AccessKeyFactory.create(
        application=ApplicationFactory.create(**GONE), allowed_models=["gone"], allowed_configurations=["gone"]
    )
    for record in (provider, model, configuration):
        stored = type(record)._default_manager.get(pk=record.pk)
        stored.name = "Another name"
        save(stored)
    key.name = "Another name"
    save_key(key, author=SOMEBODY, only=["name"])
    assert AuditEvent.objects.count() == 4


def test_a_retired_record_is_not_changed_until_it_is_brought_back() -> None:
    application = ApplicationFactory.create(**GONE)
    application.name = "Another name"
    with pytest.raises(RecordOutOfState, match="helpdesk is retired; bring it back first"):
        save(application)
    bring_back(Application.objects.get(), author=SOMEBODY)
    application.retired_at = None
    save(application)
    assert Application.objects.get().name == "Another name"


def test_what_is_retired_is_not_named_anew() -> None:
    provider = ProviderFactory.create(identifier="prod-east", **GONE)
    model = LanguageModelFactory.create(identifier="fast", **GONE)
    other = ConfigurationFactory.create(identifier="plain-chat", **GONE)
    application = ApplicationFactory.create(**GONE)

    def place(**values: Any) -> Configuration:
        return Configuration(identifier="support-chat", **values)

    listed, falling = place(selection=Selection.LISTED.value), place()
    fixed = place(selection=Selection.FIXED.value, fixed_model=model)
    wanted = {
        "provider": lambda: save(LanguageModel(identifier="wise", model_id="gpt-x-pro", provider=provider)),
        "fixed_model": lambda: save(fixed),
        "listed_models": lambda: save(listed, ListedModel(configuration=listed, model=model)),
        "fallbacks": lambda: save(falling, FallbackLink(configuration=falling, fallback=other)),
        "application": lambda: issue_key(AccessKey(application=application, name="Robot"), author=SOMEBODY),
    }
    for field, change in wanted.items():
        words = refused(change)
        assert list(words) == [field]
        assert "retired" in words[field][0]


def test_a_key_is_limited_to_what_there_is() -> None:
    LanguageModelFactory.create(identifier="fast")
    ConfigurationFactory.create(identifier="old-chat", **GONE)
    key = AccessKey(
        application=ApplicationFactory.create(),
        name="Robot",
        allowed_configurations=["old-chat"],
        allowed_models=["fast", "gpt-x-mini"],
    )
    assert refused(lambda: issue_key(key, author=SOMEBODY)) == {
        "allowed_configurations": ["There is no old-chat, or it is retired."],
        "allowed_models": ["There is no gpt-x-mini, or it is retired."],
    }
    key.allowed_configurations, key.allowed_models = "fast", [7]
    assert set(refused(lambda: issue_key(key, author=SOMEBODY))) == {"allowed_configurations", "allowed_models"}


def test_a_listed_selection_keeps_at_least_one_model() -> None:
    bare = Configuration(identifier="support-chat", selection=Selection.LISTED.value)
    assert list(refused(lambda: save(bare))) == ["listed_models"]
    configuration = ConfigurationFactory.create(identifier="other-chat", listed=True)
    places = list(configuration.listed_models.all())
    assert list(refused(lambda: save(configuration, removed=places))) == ["listed_models"]
    save(configuration, removed=places[:1])
    assert configuration.listed_models.count() == 1


def test_no_chain_closes_a_circle_whoever_made_the_other_links() -> None:
    a, b, c = (ConfigurationFactory.create(identifier=name) for name in ("a-chat", "b-chat", "c-chat"))
    FallbackLinkFactory.create(configuration=b, fallback=c)
    FallbackLinkFactory.create(configuration=c, fallback=a)
    assert refused(lambda: save(a, FallbackLink(configuration=a, fallback=b))) == {
        "fallbacks": ["This would close a circle: a-chat → b-chat → c-chat → a-chat."]
    }
    save(b, removed=list(b.fallback_links.all()))
    save(a, FallbackLink(configuration=a, fallback=b))


@pytest.mark.parametrize("key", ["two words", "line\nend", "schlüssel", "k" * 4001])
def test_a_providers_key_fits_into_a_header_and_is_not_repeated(key: str) -> None:
    provider = ProviderFactory.create()
    vault = Vault([("test", bytes(32))])
    words = refused(lambda: save_provider(provider, author=SOMEBODY, vault=vault, key=key))
    assert list(words) == ["key"]
    assert key not in repr(words)


# --- Versions -------------------------------------------------------------------------------------------------------


def test_a_change_that_is_meant_for_another_version_is_refused() -> None:
    mine = ApplicationFactory.create(identifier="web-shop")
    seen = version_of(describe(RecordKind.APPLICATION, mine.pk))
    theirs = Application.objects.get(pk=mine.pk)
    theirs.description = "Theirs"
    save_record(theirs, author=SOMEBODY, only=["description"], expected=seen)
    mine.description = "Mine"
    with pytest.raises(RecordMovedOn, match="web-shop"):
        save_record(mine, author=SOMEBODY, only=["description"], expected=seen)
    assert Application.objects.get(pk=mine.pk).description == "Theirs"
    assert AuditEvent.objects.count() == 1
    now = version_of(describe(RecordKind.APPLICATION, mine.pk))
    assert now != seen
    save_record(mine, author=SOMEBODY, only=["description"], expected=now)


def test_every_kind_of_change_can_be_tied_to_a_version() -> None:
    key, _ = AccessKeyFactory.create()
    result = EvaluationResultFactory.create()
    stale = version_of({"another": "state"})
    changes: list[Callable[[], object]] = [
        lambda: save_record(ProviderFactory.create(), author=SOMEBODY, expected=stale),
        lambda: save_provider(
            ProviderFactory.create(), author=SOMEBODY, vault=Vault([("test", bytes(32))]), key="x", expected=stale
        ),
        lambda: save_key(key, author=SOMEBODY, only=["name"], expected=stale),
        lambda: save_evaluation(result, author=SOMEBODY, expected=stale),
        lambda: store_setting("routing.currency", "EUR", author=SOMEBODY, expected=stale),
    ]
    for change in changes:
        with pytest.raises(RecordMovedOn):
            change()
    assert not AuditEvent.objects.exists()
    store_setting("routing.currency", "EUR", author=SOMEBODY, expected=version_of(None))
    assert SettingValue.objects.get().value == "EUR"
