"""A key is made and shown once; only a digest of it is kept; a revoked one stays revoked."""

import json
from hashlib import sha256

import pytest
from django.core import serializers
from django.core.exceptions import ValidationError
from django.db import connection

from governance.access.keys import digest_of
from governance.changes.keys import issue_key, revoke_key
from governance.models import AccessKey, AccessVersion
from tests.authors import SOMEBODY
from tests.factories import (
    AccessKeyFactory,
    ApplicationFactory,
    ConfigurationFactory,
    IssuedKey,
    LanguageModelFactory,
)

pytestmark = pytest.mark.django_db


def issued() -> IssuedKey:
    issued: IssuedKey = AccessKeyFactory.create()
    return issued


def test_a_secret_is_long_random_and_recognisable() -> None:
    secrets = {issued().secret for _ in range(20)}
    assert len(secrets) == 20
    for secret in secrets:
        assert secret.startswith("sb-")
        assert len(secret) == 3 + 43  # 256 bits in base64
        assert secret.isascii()


def test_only_the_digest_and_the_beginning_are_kept() -> None:
    record, secret = issued()
    assert record.secret_digest == sha256(secret.encode()).hexdigest() == digest_of(secret)
    assert record.prefix == secret[:9]
    assert secret[:9] in str(record)
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM governance_accesskey")
        row = repr(cursor.fetchall())
    for text in (row, str(record), repr(record), repr(vars(record)), serializers.serialize("json", [record])):
        assert secret not in text
        assert secret[9:] not in text
        assert secret[3:] not in text


@pytest.mark.parametrize("allowed", [None, [], ["support-chat"], ["b", "a"]])
def test_all_none_and_some_are_told_apart_in_the_row(allowed: list[str] | None) -> None:
    for identifier in allowed or []:
        ConfigurationFactory.create(identifier=identifier)
        LanguageModelFactory.create(identifier=identifier)
    record = AccessKey(
        application=ApplicationFactory.create(), name="Robot", allowed_configurations=allowed, allowed_models=allowed
    )
    issue_key(record, author=SOMEBODY)
    stored = AccessKey.objects.get(pk=record.pk)
    assert stored.allowed_configurations == allowed
    assert stored.allowed_models == allowed
    assert AccessKey.objects.filter(allowed_configurations__isnull=True).exists() is (allowed is None)


def test_a_key_needs_a_name() -> None:
    with pytest.raises(ValidationError) as refused:
        issue_key(AccessKey(application=ApplicationFactory.create(), name=""), author=SOMEBODY)
    assert list(refused.value.message_dict) == ["name"]
    assert not AccessKey.objects.exists()


def test_revoking_is_counted_once_and_keeps_its_moment() -> None:
    record, _ = issued()
    before = AccessVersion.read()
    revoke_key(record, author=SOMEBODY)
    after, revoked_at = AccessVersion.read(), AccessKey.objects.get(pk=record.pk).revoked_at
    assert after > before
    assert revoked_at is not None
    revoke_key(record, author=SOMEBODY)
    assert AccessKey.objects.get(pk=record.pk).revoked_at == revoked_at
    assert AccessVersion.read() == after


def test_a_key_lives_in_json_without_its_secret() -> None:
    record, secret = issued()
    dumped = json.loads(serializers.serialize("json", [record]))[0]["fields"]
    assert "secret" not in dumped
    assert secret not in json.dumps(dumped)
