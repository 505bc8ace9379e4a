"""Keys in the admin: shown on one page, once, and kept nowhere."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from governance.access.directory import load_directory
from governance.access.keys import digest_of
from governance.models import AccessKey, AccessVersion
from tests.factories import AccessKeyFactory, ApplicationFactory, ConfigurationFactory, LanguageModelFactory
from tests.governance.admin.pages import column, complaints, sent_by, text_of

LIST = reverse("admin:governance_accesskey_changelist")
ADD = reverse("admin:governance_accesskey_add")


def page_of(key: AccessKey) -> str:
    return reverse("admin:governance_accesskey_change", args=[key.pk])


def add(operator: Client, **values: Any) -> Any:
    defaults = {"application": ApplicationFactory.create().pk, "name": "Ticket robot"}
    return operator.post(ADD, sent_by(operator.get(ADD), **{**defaults, **values}))


def secret_in(page: str) -> str:
    start = page.index("The key is sb-") + len("The key is ")
    return page[start : page.index(":", start)]


def test_a_key_is_shown_once(operator: Client) -> None:
    answer = add(operator)
    assert answer.status_code == 200
    page = text_of(answer)
    secret = secret_in(page)
    assert page.count(secret) == 1
    assert "no-store" in answer.headers["Cache-Control"]
    key = AccessKey.objects.get()
    assert key.secret_digest == digest_of(secret)
    assert load_directory().recognise(secret, now=timezone.now()) is not None

    # It is neither carried along in a cookie, nor in the session's row, nor in any other.
    assert secret not in repr(operator.cookies)
    assert all(secret not in repr(session.get_decoded()) for session in Session.objects.all())
    rows = repr([list(model._base_manager.values()) for model in apps.get_models()])
    assert secret not in rows
    assert secret[9:] not in rows

    history = reverse("admin:governance_accesskey_history", args=[key.pk])
    for later in (LIST, page_of(key), history, ADD, reverse("admin:index")):
        source = text_of(operator.get(later))
        assert secret not in source
        assert secret[9:] not in source
    assert f"{key.prefix}…" in text_of(operator.get(LIST))
    assert f"{key.prefix}…" in text_of(operator.get(page_of(key)))


def test_a_new_key_allows_everything_unless_told_otherwise(operator: Client) -> None:
    add(operator)
    key = AccessKey.objects.get()
    assert (key.allowed_configurations, key.allowed_models, key.may_name_models) == (None, None, False)
    assert key.expires_at is None


def test_what_is_ticked_is_allowed_and_nothing_ticked_is_nothing(operator: Client) -> None:
    for identifier in ("support-chat", "plain-chat"):
        ConfigurationFactory.create(identifier=identifier)
    add(
        operator,
        every_configuration=None,
        allowed_configurations=["support-chat"],
        every_model=None,
        may_name_models="on",
    )
    key = AccessKey.objects.get()
    assert key.allowed_configurations == ["support-chat"]
    assert key.allowed_models == []
    assert key.may_name_models is True
    page = operator.get(LIST)
    assert column(page, "configurations") == ["support-chat"]
    assert column(page, "models") == ["none"]


def test_everything_and_something_exclude_each_other(operator: Client) -> None:
    LanguageModelFactory.create()
    answer = add(operator, allowed_models=["fast"])
    assert list(complaints(answer)) == ["every_model"]
    assert sent_by(answer)["allowed_models"] == ["fast"]
    assert not AccessKey.objects.exists()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "name"),
        ({"application": ""}, "application"),
        ({"every_configuration": None, "allowed_configurations": ["nothing"]}, "allowed_configurations"),
        ({"expires_at_0": "tomorrow", "expires_at_1": "12:00"}, "expires_at"),
    ],
)
def test_bad_input_names_its_field_and_issues_nothing(operator: Client, values: dict[str, Any], field: str) -> None:
    answer = add(operator, **values)
    assert list(complaints(answer)) == [field]
    assert "The key is" not in text_of(answer)
    assert not AccessKey.objects.exists()


def test_a_key_is_changed_without_a_new_secret(operator: Client) -> None:
    ConfigurationFactory.create()
    record, secret = AccessKeyFactory.create()
    before = AccessVersion.read()
    sent = sent_by(
        operator.get(page_of(record)),
        name="Other robot",
        every_configuration=None,
        allowed_configurations=["support-chat"],
    )
    answer = operator.post(page_of(record), sent, follow=True)
    assert "The key is" not in text_of(answer)
    changed = AccessKey.objects.get()
    assert (changed.name, changed.allowed_configurations) == ("Other robot", ["support-chat"])
    assert changed.secret_digest == digest_of(secret)
    assert AccessVersion.read() > before
    # And back to everything.
    sent = sent_by(operator.get(page_of(record)), every_configuration="on", allowed_configurations=None)
    operator.post(page_of(record), sent)
    assert AccessKey.objects.get().allowed_configurations is None


def test_what_a_key_allows_comes_back_as_it_is(operator: Client) -> None:
    ConfigurationFactory.create()
    for allowed in (None, [], ["support-chat"], ["retired-chat"]):
        record, _ = AccessKeyFactory.create(allowed_configurations=allowed)
        sent = sent_by(operator.get(page_of(record)))
        assert ("every_configuration" in sent) is (allowed is None)
        assert sent.get("allowed_configurations", []) == (allowed or [])
        before = AccessVersion.read()
        assert operator.post(page_of(record), sent).status_code == 302
        assert AccessKey.objects.get(pk=record.pk).allowed_configurations == allowed
        assert AccessVersion.read() == before


def test_the_application_of_a_key_stays(operator: Client) -> None:
    record, _ = AccessKeyFactory.create()
    other = ApplicationFactory.create(identifier="web-shop")
    operator.post(page_of(record), sent_by(operator.get(page_of(record)), application=other.pk, name="Robot"))
    changed = AccessKey.objects.get()
    assert (changed.application.identifier, changed.name) == ("helpdesk", "Robot")


def act(operator: Client, *keys: AccessKey, **values: str) -> Any:
    return operator.post(
        LIST, {"action": "revoke", "_selected_action": [str(key.pk) for key in keys], **values}, follow=True
    )


def test_revoking_asks_first_and_is_for_good(operator: Client) -> None:
    record, secret = AccessKeyFactory.create()
    other, _ = AccessKeyFactory.create(name="Other robot")
    asked = act(operator, record)
    assert "Revoke keys for good?" in text_of(asked)
    assert "Other robot" not in text_of(asked)
    assert AccessKey.objects.get(pk=record.pk).revoked_at is None

    sent = {**sent_by(asked), "action": ["revoke"]}
    answer = operator.post(LIST, sent, follow=True)
    assert f"Revoked: Ticket robot ({record.prefix}…)." in text_of(answer)
    assert AccessKey.objects.get(pk=record.pk).revoked_at is not None
    assert AccessKey.objects.get(pk=other.pk).revoked_at is None
    assert load_directory().recognise(secret, now=timezone.now()) is None
    assert "revoked on" in text_of(operator.get(LIST))

    assert 'name="_save"' not in text_of(operator.get(page_of(record)))
    assert operator.post(page_of(record), {"name": "x"}).status_code == 403
    assert "nothing was changed" in text_of(act(operator, record, confirmed="yes"))


def test_a_key_says_why_it_opens_nothing(operator: Client) -> None:
    now = timezone.now()
    AccessKeyFactory.create(expires_at=now - timedelta(days=1))
    AccessKeyFactory.create(application=ApplicationFactory.create(identifier="off-app", is_active=False))
    AccessKeyFactory.create(
        application=ApplicationFactory.create(identifier="old-app", is_active=False, retired_at=now)
    )
    AccessKeyFactory.create(expires_at=now + timedelta(days=1))
    states = column(operator.get(LIST), "state")
    assert len(states) == 4
    for state in ("expired on", "application switched off", "application retired", "in force"):
        assert any(each.startswith(state) for each in states)


def test_an_application_shows_its_keys(operator: Client) -> None:
    record, _ = AccessKeyFactory.create()
    page = text_of(operator.get(reverse("admin:governance_application_change", args=[record.application.pk])))
    assert f"{record.prefix}…" in page
    assert page_of(record) in page


def test_a_key_is_found_by_its_beginning(operator: Client) -> None:
    record, secret = AccessKeyFactory.create()
    other, _ = AccessKeyFactory.create()
    page = text_of(operator.get(LIST, {"q": secret[:9]}))
    assert page_of(record) in page
    assert page_of(other) not in page


def test_somebody_who_may_not_issue_keys_issues_none(auditor: Client) -> None:
    application = ApplicationFactory.create()
    sent = {"application": [str(application.pk)], "name": ["x"], "every_model": ["on"]}
    assert auditor.post(ADD, sent).status_code == 403
    record, _ = AccessKeyFactory.create(application=application)
    act(auditor, record, confirmed="yes")
    assert AccessKey.objects.get().revoked_at is None
