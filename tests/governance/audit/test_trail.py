"""The trail is a chain: what was changed, removed or added by anybody else is found, and named."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections, transaction
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from governance.audit import trail
from governance.audit.actions import AuditAction, RecordKind
from governance.audit.trail import append, verify
from governance.changes.settings import store_setting
from governance.models import AuditEvent, ChainHead, Revision
from telemetry.models import WrittenOnceError
from tests.authors import SOMEBODY


def add(record: str = "prod-east", **changes: Any) -> AuditEvent:
    arguments: dict[str, Any] = {"action": AuditAction.CHANGED, "kind": RecordKind.PROVIDER, "author": SOMEBODY}
    return append(record=record, **{**arguments, **changes})


def execute(statement: str, *parameters: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def flaws() -> list[str]:
    return [flaw.what for flaw in verify().flaws]


@pytest.fixture
def five(db: None) -> None:
    """Five entries, each with a revision."""
    for value in (True, False, True, False, True):
        store_setting("routing.callHistory", value, author=SOMEBODY)


@pytest.mark.usefixtures("five")
def test_a_trail_that_nobody_touched_is_whole() -> None:
    verdict = verify()
    assert (verdict.entries, verdict.flaws) == (5, ())
    assert verdict.digest == AuditEvent.objects.get(number=5).digest == ChainHead.objects.get().digest
    assert [event.number for event in AuditEvent.objects.order_by("number")] == [1, 2, 3, 4, 5]


@pytest.mark.django_db
def test_no_trail_is_whole_too() -> None:
    assert (verify().entries, verify().flaws) == (0, ())


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize("number", [1, 3, 5])
@pytest.mark.parametrize(
    "column", ["action", "kind", "record", "author", "channel", "address", "correlation", "reason"]
)
def test_a_changed_column_is_found(column: str, number: int) -> None:
    execute(f"UPDATE governance_auditevent SET {column} = 'x' WHERE number = %s", number)  # noqa: S608
    assert flaws() == [f"entry {number} was changed after it was written"]


@pytest.mark.usefixtures("five")
def test_a_changed_moment_is_found() -> None:
    execute("UPDATE governance_auditevent SET at = %s WHERE number = 2", "2020-01-01 00:00:00+00:00")
    assert flaws() == ["entry 2 was changed after it was written"]


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(("column", "value"), [("after", '{"value": "x"}'), ("before", "null"), ("number", 77)])
def test_a_changed_revision_is_found(column: str, value: Any) -> None:
    revision = AuditEvent.objects.get(number=2).revision
    assert revision is not None
    execute(f"UPDATE governance_revision SET {column} = %s WHERE id = %s", value, revision.pk)  # noqa: S608
    assert flaws() == ["entry 2 was changed after it was written"]


@pytest.mark.usefixtures("five")
def test_another_revision_is_found() -> None:
    other = AuditEvent.objects.get(number=1).revision_id
    execute("UPDATE governance_auditevent SET revision_id = %s WHERE number = 3", other)
    assert flaws() == ["entry 3 was changed after it was written"]


@pytest.mark.usefixtures("five")
@pytest.mark.parametrize(
    ("removed", "said"), [((1,), "entry 1 is"), ((3,), "entry 3 is"), ((2, 3), "entries 2 to 3 are")]
)
def test_a_removed_entry_is_found(removed: tuple[int, ...], said: str) -> None:
    for number in removed:
        execute("DELETE FROM governance_auditevent WHERE number = %s", number)
    assert flaws() == [f"{said} missing"]


@pytest.mark.usefixtures("five")
def test_a_removed_last_entry_is_found() -> None:
    execute("DELETE FROM governance_auditevent WHERE number = 5")
    assert flaws() == ["the last entry written is number 5, the last one found is number 4"]


@pytest.mark.usefixtures("five")
def test_a_trail_that_was_emptied_is_found() -> None:
    execute("DELETE FROM governance_auditevent")
    assert flaws() == ["the last entry written is number 5, the last one found is number 0"]


@pytest.mark.usefixtures("five")
def test_a_last_entry_with_a_digest_that_fits_is_found() -> None:
    """Whoever edits the last entry and its digest as well has not written the record of the last one."""
    event = AuditEvent.objects.get(number=5)
    event.author = "nobody"
    execute("UPDATE governance_auditevent SET author = 'nobody', digest = %s WHERE number = 5", trail.digest_of(event))
    assert flaws() == ["entry 5, the last, is not the one that was written"]


@pytest.mark.usefixtures("five")
def test_an_entry_in_between_with_a_digest_that_fits_is_found_by_its_neighbour() -> None:
    event = AuditEvent.objects.get(number=3)
    event.author = "nobody"
    execute("UPDATE governance_auditevent SET author = 'nobody', digest = %s WHERE number = 3", trail.digest_of(event))
    assert flaws() == ["entry 4 does not continue the entry before it"]


@pytest.mark.usefixtures("five")
def test_an_added_entry_is_found() -> None:
    last = AuditEvent.objects.get(number=5)
    forged = AuditEvent(
        number=6, at=last.at, action="changed", kind="provider", record="x", author="y", channel="admin",
        previous=last.digest,
    )  # fmt: skip
    forged.digest = trail.digest_of(forged)
    forged.save()
    assert flaws() == ["the last entry written is number 5, the last one found is number 6"]


@pytest.mark.usefixtures("five")
def test_several_flaws_are_all_named() -> None:
    execute("UPDATE governance_auditevent SET reason = 'x' WHERE number = 1")
    execute("DELETE FROM governance_auditevent WHERE number IN (3, 5)")
    assert [flaw.number for flaw in verify().flaws] == [1, 3, 5]


@pytest.mark.usefixtures("five")
def test_a_trail_longer_than_a_page_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 2, 5):
        monkeypatch.setattr(trail, "_PAGE", size)
        assert (verify().entries, verify().flaws) == (5, ())


# --- Adding ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_an_entry_outside_of_a_transaction_is_refused() -> None:
    with pytest.raises(RuntimeError, match="inside the transaction of the change"):
        add()
    assert not AuditEvent.objects.exists()


@pytest.mark.django_db
def test_what_is_rolled_back_leaves_no_entry() -> None:
    with transaction.atomic():
        add("first")
    with transaction.atomic():
        add("second")
        transaction.set_rollback(True)
    with transaction.atomic():
        add("third")
    assert [event.record for event in AuditEvent.objects.order_by("number")] == ["first", "third"]
    assert verify().flaws == ()


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [AuditEvent, Revision])
def test_entries_and_revisions_are_written_once(kind: type[AuditEvent] | type[Revision]) -> None:
    store_setting("routing.callHistory", True, author=SOMEBODY)
    row = kind.objects.get()
    row.author = "nobody"
    attempts: list[Callable[[], Any]] = [
        row.save,
        row.delete,
        lambda: kind.objects.update(author="nobody"),
        lambda: kind.objects.filter(author="somebody").delete(),
        lambda: kind.objects.bulk_update([row], ["author"]),
    ]
    for attempt in attempts:
        with pytest.raises(WrittenOnceError):
            attempt()
    assert kind.objects.get().author == "somebody"


@pytest.mark.django_db(transaction=True)
def test_entries_that_are_added_at_once_form_a_line() -> None:
    start = threading.Barrier(4)
    failures: list[Exception] = []

    def work(name: str) -> None:
        try:
            start.wait(10)
            for number in range(10):
                with transaction.atomic():
                    add(f"{name}-{number}")
        except Exception as error:  # noqa: BLE001  # a thread's failure is the test's
            failures.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    verdict = verify()
    assert (verdict.entries, verdict.flaws) == (40, ())


@pytest.mark.django_db(transaction=True)
def test_changes_of_several_kinds_at_once_end_in_no_deadlock() -> None:
    start = threading.Barrier(2)
    failures: list[Exception] = []

    def work(key: str, values: tuple[Any, Any]) -> None:
        try:
            start.wait(10)
            for number in range(10):
                store_setting(key, values[number % 2], author=SOMEBODY)
        except Exception as error:  # noqa: BLE001  # a thread's failure is the test's
            failures.append(error)
        finally:
            connections.close_all()

    pairs = [("routing.callHistory", (True, False)), ("routing.currency", ("EUR", "USD"))]
    threads = [threading.Thread(target=work, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert (verify().entries, verify().flaws) == (20, ())


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)


@pytest.mark.django_db
@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    record=TEXT,
    reason=TEXT,
    document=st.dictionaries(
        TEXT,
        st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT | st.none() | st.booleans(),
        max_size=4,
    ),
)
def test_whatever_is_written_verifies(record: str, reason: str, document: dict[str, Any]) -> None:
    """Also where the database spells a document in another way than it was handed."""
    with transaction.atomic():
        number = Revision.objects.filter(record=record).count() + 1
        revision = Revision(kind="setting", record=record, number=number, after=document, author="somebody")
        revision.at = add(record).at
        revision.save()
        add(record, reason=reason, revision=revision)
    assert verify().flaws == ()
