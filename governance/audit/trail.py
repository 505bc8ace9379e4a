"""The audit trail: appended to inside the transaction of the change it tells of, and verified as a chain.

Each entry's digest covers the entry and the digest before it, and a row of its own remembers the last. So an entry that
was changed, removed, added in between or taken from the end is found, and named.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connections, router

from governance.audit.actions import AuditAction, Author, RecordKind
from governance.models import AuditEvent, ChainHead, Revision

_PAGE = 2000


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that does not fit: the entry's number, and what is wrong there."""

    number: int
    what: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a verification found.

    ``digest`` is the last entry's: kept somewhere else, it also finds a trail that was written anew as a whole.
    """

    entries: int
    digest: str
    flaws: tuple[Flaw, ...]


def append(
    *,
    action: AuditAction,
    kind: RecordKind,
    record: str,
    author: Author,
    reason: str = "",
    revision: Revision | None = None,
) -> AuditEvent:
    """Add an entry. Must be called inside the transaction of the change, and commits or fails with it."""
    if not connections[router.db_for_write(AuditEvent)].in_atomic_block:
        raise RuntimeError("the audit trail is written inside the transaction of the change")
    if revision is not None:
        # As the database gives them back: it may spell a number in another way than it was handed.
        revision.refresh_from_db(fields=["before", "after"])
    ChainHead.objects.get_or_create(id=1)
    head = ChainHead.objects.select_for_update().get(id=1)
    event = AuditEvent(
        number=head.number + 1,
        at=datetime.now(UTC),
        action=action.value,
        kind=kind.value,
        record=record,
        author=author.name,
        channel=author.channel.value,
        address=author.address,
        correlation=author.correlation,
        reason=reason,
        revision=revision,
        previous=head.digest,
    )
    event.digest = digest_of(event)
    event.save(force_insert=True)
    head.number, head.digest = event.number, event.digest
    head.save(update_fields=["number", "digest"])
    return event


def verify() -> Verdict:
    """Read the whole trail and compare every entry with its digest, its neighbour and the record of the last one.

    Nothing is locked: entries that are added meanwhile are read too.
    """
    flaws: list[Flaw] = []
    entries, last, previous = 0, 0, ""
    for event in _events():
        entries += 1
        if event.number != last + 1:
            missing = (
                f"entry {last + 1} is" if event.number == last + 2 else f"entries {last + 1} to {event.number - 1} are"
            )
            flaws.append(Flaw(last + 1, f"{missing} missing"))
        elif event.previous != previous:
            flaws.append(Flaw(event.number, f"entry {event.number} does not continue the entry before it"))
        if digest_of(event) != event.digest:
            flaws.append(Flaw(event.number, f"entry {event.number} was changed after it was written"))
        last, previous = event.number, event.digest
    number, digest = _head()
    if number != last:
        where = min(number, last) + 1
        flaws.append(Flaw(where, f"the last entry written is number {number}, the last one found is number {last}"))
    elif digest != previous:
        flaws.append(Flaw(number, f"entry {number}, the last, is not the one that was written"))
    return Verdict(entries=entries, digest=previous, flaws=tuple(flaws))


def _events() -> Iterator[AuditEvent]:
    """Every entry in order, read a page at a time, up to the last one that was written by then."""
    number = -1
    while True:
        page = list(AuditEvent.objects.filter(number__gt=number).order_by("number").select_related("revision")[:_PAGE])
        yield from page
        number = page[-1].number if page else number
        if not page or (len(page) < _PAGE and _head()[0] <= number):
            return


def _head() -> tuple[int, str]:
    """Number and digest of the entry that was written last."""
    head = ChainHead.objects.filter(id=1).first()
    return (0, "") if head is None else (head.number, head.digest)


def digest_of(event: AuditEvent) -> str:
    """The digest an entry must have: over every column but the digest itself, and its revision's documents."""
    revision = event.revision
    content = [
        event.number,
        event.at.astimezone(UTC).isoformat(timespec="microseconds"),
        event.action,
        event.kind,
        event.record,
        event.author,
        event.channel,
        event.address,
        event.correlation,
        event.reason,
        None if revision is None else [revision.number, revision.before, revision.after],
        event.previous,
    ]
    spelled = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(spelled.encode()).hexdigest()
