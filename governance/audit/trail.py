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


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something that does not fit: the entry's number, and what is wrong there."""

    number: int
    what: str


def verify() -> Iterator[Flaw]:
    """Every flaw of the trail, in order; nothing for a trail that is whole."""
    expected, previous = 1, ""
    while page := list(
        AuditEvent.objects.filter(number__gte=expected).order_by("number").select_related("revision")[:_PAGE]
    ):
        for event in page:
            if event.number != expected:
                yield Flaw(expected, f"entries {expected} to {event.number - 1} are missing")
            elif event.previous != previous:
                yield Flaw(event.number, "does not continue the entry before it")
            if digest_of(event) != event.digest:
                yield Flaw(event.number, "was changed after it was written")
            expected, previous = event.number + 1, event.digest
    head = ChainHead.objects.filter(id=1).first()
    number, digest = (0, "") if head is None else (head.number, head.digest)
    if number != expected - 1:
        yield Flaw(expected, f"the trail should end with entry {number}, but ends with {expected - 1}")
    elif digest != previous:
        yield Flaw(number, "the last entry is not the one that was written")


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
