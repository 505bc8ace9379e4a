"""Who a secret belongs to: read once for all keys, and asked without a query."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from governance.access.directory import directory_poll, load_directory
from governance.changes.keys import revoke_key
from governance.models import Application
from tests.authors import SOMEBODY
from tests.factories import AccessKeyFactory, ApplicationFactory, IssuedKey

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def issued(**values: Any) -> IssuedKey:
    issued: IssuedKey = AccessKeyFactory.create(**values)
    return issued


def test_a_secret_is_recognised_by_all_of_it() -> None:
    record, secret = issued(may_name_models=True, source="demo")
    issued(application=ApplicationFactory.create(identifier="web-shop"))
    directory = load_directory()
    caller = directory.recognise(secret, now=NOW)
    assert caller is not None
    assert (caller.key, caller.application, caller.source) == (str(record.pk), "helpdesk", "demo")
    assert caller.may_name_models is True
    for wrong in ("", secret[:-1], secret + "x", secret.upper(), record.prefix, record.secret_digest, "sb-"):
        assert directory.recognise(wrong, now=NOW) is None


def test_an_empty_installation_recognises_nobody() -> None:
    assert load_directory().recognise("sb-anything", now=NOW) is None


def test_a_revoked_key_is_nobodys() -> None:
    record, secret = issued()
    revoke_key(record, author=SOMEBODY)
    assert load_directory().recognise(secret, now=NOW) is None


def test_a_key_expires_at_its_moment_without_anything_being_read_again() -> None:
    _, secret = issued(expires_at=NOW)
    directory = load_directory()
    assert directory.recognise(secret, now=NOW - timedelta(microseconds=1)) is not None
    assert directory.recognise(secret, now=NOW) is None
    assert directory.recognise(secret, now=NOW + timedelta(days=1)) is None


@pytest.mark.parametrize("off", [{"is_active": False}, {"retired_at": NOW}], ids=["inactive", "retired"])
def test_the_keys_of_an_application_that_is_off_open_nothing(off: dict[str, Any]) -> None:
    _, secret = issued(application=ApplicationFactory.create(**off))
    _, other = issued(application=ApplicationFactory.create(identifier="web-shop"))
    directory = load_directory()
    assert directory.recognise(secret, now=NOW) is None
    assert directory.recognise(other, now=NOW) is not None


def test_all_is_not_none_of_them() -> None:
    _, everything = issued()
    _, nothing = issued(allowed_configurations=[], allowed_models=[])
    _, some = issued(allowed_configurations=["support-chat"], allowed_models=["fast"])
    directory = load_directory()
    allowed = {}
    for name, secret in (("everything", everything), ("nothing", nothing), ("some", some)):
        caller = directory.recognise(secret, now=NOW)
        assert caller is not None
        allowed[name] = (
            caller.may_ask_for("support-chat"),
            caller.may_ask_for("plain-chat"),
            caller.allowed_models,
        )
    assert allowed == {
        "everything": (True, True, None),
        "nothing": (False, False, frozenset()),
        "some": (True, False, frozenset({"fast"})),
    }


def test_the_caller_of_a_call_handed_in_earlier_is_found_by_the_id_of_its_key() -> None:
    record, _ = issued(expires_at=NOW + timedelta(hours=1), allowed_models=["fast"])
    directory = load_directory()
    key = str(record.pk)
    found = directory.find(application="helpdesk", key=key, now=NOW)
    assert found is not None
    assert (found.key, found.application, found.allowed_models) == (key, "helpdesk", frozenset({"fast"}))
    assert directory.find(application="helpdesk", key=key, now=NOW + timedelta(hours=1)) is None
    revoke_key(record, author=SOMEBODY)
    assert load_directory().find(application="helpdesk", key=key, now=NOW) is None


def test_without_a_key_an_application_calls_if_it_may_run_tasks() -> None:
    ApplicationFactory.create(identifier="nightly", may_run_tasks=True, source="demo")
    ApplicationFactory.create(identifier="helpdesk")
    ApplicationFactory.create(identifier="asleep", may_run_tasks=True, is_active=False)
    ApplicationFactory.create(identifier="gone", may_run_tasks=True, retired_at=NOW)
    directory = load_directory()
    found = directory.find(application="nightly", key="", now=NOW)
    assert found is not None
    assert (found.key, found.application, found.source) == ("", "nightly", "demo")
    assert (found.may_ask_for("support-chat"), found.allowed_models, found.may_name_models) == (True, None, False)
    for other in ("helpdesk", "asleep", "gone", "nonesuch", ""):
        assert directory.find(application=other, key="", now=NOW) is None, other
    # A key is not replaced by its application's permission: one that was revoked stays so.
    assert directory.find(application="nightly", key="5f0c7c0e", now=NOW) is None


@pytest.mark.parametrize("number", [0, 1, 30])
def test_the_directory_takes_two_queries(number: int, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    secrets = [issued(application=ApplicationFactory.create(may_run_tasks=True)).secret for _ in range(number)]
    with django_assert_num_queries(2):
        directory = load_directory()
        recognised = [directory.recognise(secret, now=NOW) for secret in secrets]
    assert len({caller.application for caller in recognised if caller is not None}) == number


def test_a_process_follows_keys_and_applications() -> None:
    poll = directory_poll()
    poll.refresh()
    record, secret = issued()
    assert poll.refresh() is True
    assert poll.current.recognise(secret, now=NOW) is not None
    application = Application.objects.get()
    application.is_active = False
    application.save()
    assert poll.refresh() is True
    assert poll.current.recognise(secret, now=NOW) is None
    application.is_active = True
    application.save()
    poll.refresh()
    assert poll.current.recognise(secret, now=NOW) is not None
    revoke_key(record, author=SOMEBODY)
    assert poll.refresh() is True
    assert poll.current.recognise(secret, now=NOW) is None
    assert poll.refresh() is False
