"""What is asked under one name is done once: the claim of a name, and the answer that is given again.

A name is what a caller calls its call: it belongs to an access key and is bound to what was asked. Who comes second
while the first is under way waits; who asks for something else under the same name is refused. Or a name is the mark of
a request by which the cache recognises it: then nobody waits. An answer is sealed, and kept no longer than content is.
A call that failed gives its name back.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from django.db import transaction

from governance import safekeeping
from governance.models import ContentKind, NamedCall


class OtherRequest(Exception):
    """The name was given to a request that asked for something else."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The name is this call's until it ends."""

    key: str
    token: UUID


@dataclass(frozen=True, slots=True)
class Kept:
    """The call that had the name before has ended. ``answer`` is what its caller got, if it can be given again."""

    call: UUID | None
    answer: bytes | None = field(repr=False)


def claim(*, key: str, request: str, now: datetime, lease: timedelta, kept: timedelta) -> Claim | Kept | None:
    """Take a name; or what became of the call that has it; ``None`` while that is under way.

    Args:
        key: the mark of access key and name.
        request: the mark of what is asked.
        now: this moment.
        lease: for how long the call may hold the name without ending, which has to be longer than it may take: after
            that its process is taken for lost.
        kept: for how long the name and its answer are kept, but the name at least for the lease.

    Raises:
        OtherRequest: the name was given to another request.
        VaultError: the answer does not open.
    """
    NamedCall.objects.filter(key=key, expires_at__lte=now).delete()
    row = NamedCall(key=key, request=request, claim=uuid4(), due_at=now + lease, expires_at=now + max(lease, kept))
    NamedCall.objects.bulk_create([row], ignore_conflicts=True)  # whoever comes second finds the first
    there = NamedCall.objects.select_related("answer").filter(key=key).first()
    if there is None:
        return None  # it was given back this moment
    if there.claim == row.claim:
        return Claim(key, row.claim)
    if there.request != request:
        raise OtherRequest(key)
    if there.due_at is None:
        return Kept(there.call, None if there.answer is None else safekeeping.read(there.answer, now=now))
    lost = NamedCall.objects.filter(key=key, claim=there.claim, due_at__lte=now)
    if lost.update(claim=row.claim, due_at=row.due_at, expires_at=row.expires_at):
        return Claim(key, row.claim)
    return None


def keep(
    held: Claim, *, call: UUID, answer: bytes | None, kind: ContentKind, owner: str, now: datetime, kept: timedelta
) -> bool:
    """Note that the call has ended, with the answer that may be given again; tells whether the name was still its."""
    with transaction.atomic():
        content = None
        if answer is not None:
            content = safekeeping.seal(answer, kind=kind, owner=owner, now=now, kept=kept)
            content.save(force_insert=True)
        mine = NamedCall.objects.filter(key=held.key, claim=held.token)
        is_mine = mine.update(due_at=None, call=call, answer=content, expires_at=now + kept)
        if not is_mine:
            transaction.set_rollback(True)
    return bool(is_mine)


def release(held: Claim) -> None:
    """Give a name back that came to nothing."""
    NamedCall.objects.filter(key=held.key, claim=held.token, due_at__isnull=False).delete()


def remove_expired(*, now: datetime) -> int:
    """Remove names that are free again; gives how many."""
    removed, _ = NamedCall.objects.filter(expires_at__lte=now).delete()
    return removed
