"""Content at rest is sealed, opens where it belongs and nowhere else, and goes when its time is over."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection
from pytest_django import DjangoAssertNumQueries, Settings

from governance import safekeeping
from governance.models import CONTENT_LABELS, ContentKind, StoredContent
from governance.project.settings import installation
from routing.vault import VaultError

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 30, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
SAID = '{"messages": [{"content": "zanzibarquokka, 数, \\u0000"}]}'.encode()


def kept(content: bytes = SAID, *, now: datetime = NOW) -> StoredContent:
    row = safekeeping.seal(content, kind=ContentKind.REQUEST, owner="helpdesk", now=now, kept=HOUR)
    row.save()
    return StoredContent.objects.get(pk=row.pk)


def test_it_comes_back_byte_for_byte() -> None:
    assert safekeeping.read(kept(), now=NOW) == SAID
    assert safekeeping.read(kept(b""), now=NOW) == b""


def test_nothing_of_it_is_in_the_database() -> None:
    kept()
    with connection.cursor() as cursor:
        cursor.execute('SELECT * FROM "governance_storedcontent"')
        (row,) = cursor.fetchall()
    assert b"zanzibar" not in b"".join(
        bytes(each) if isinstance(each, memoryview | bytes) else str(each).encode() for each in row
    )


def test_it_opens_in_its_own_row_alone() -> None:
    row, other = kept(), kept(b"something else")
    other.sealed = row.sealed
    with pytest.raises(VaultError, match="belongs to another record"):
        safekeeping.read(other, now=NOW)
    row.id = uuid4()
    with pytest.raises(VaultError, match="belongs to another record"):
        safekeeping.read(row, now=NOW)


def test_a_key_that_was_taken_from_the_ring_is_named(settings: Settings) -> None:
    row = kept()
    settings.SIGNALBOX_ENCRYPTION_KEYS = (("other", bytes(32)),)
    with pytest.raises(VaultError, match="add that key at the end of the ring"):
        safekeeping.read(row, now=NOW)
    settings.SIGNALBOX_ENCRYPTION_KEYS = (("other", bytes(32)), *_ring())
    assert safekeeping.read(row, now=NOW) == SAID


def _ring() -> tuple[tuple[str, bytes], ...]:
    from_environment: tuple[tuple[str, bytes], ...] = installation.SIGNALBOX_ENCRYPTION_KEYS
    return from_environment


def test_its_time_ends_at_the_moment_whether_or_not_somebody_removes_it() -> None:
    row = kept()
    assert safekeeping.read(row, now=NOW + HOUR - timedelta(microseconds=1)) == SAID
    assert safekeeping.read(row, now=NOW + HOUR) is None


def test_what_has_expired_is_removed_and_nothing_else() -> None:
    gone = [kept(), kept()]
    stays = kept(now=NOW + timedelta(seconds=1))
    assert safekeeping.remove_expired(now=NOW + HOUR) == 2
    assert list(StoredContent.objects.values_list("pk", flat=True)) == [stays.pk]
    assert safekeeping.remove_expired(now=NOW + HOUR) == 0
    assert gone


def test_sealed_bytes_are_not_read_to_be_removed(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    kept()
    with django_assert_num_queries(7) as captured:  # ids, twice; the rows, who names them, their removal
        safekeeping.remove_expired(now=NOW + HOUR)
    assert not any("sealed" in each["sql"] for each in captured.captured_queries)


def test_every_kind_has_words() -> None:
    assert set(CONTENT_LABELS) == set(ContentKind)
