"""Calls to hand in, and the ways to move one along."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from governance.access.directory import Caller, task_caller
from governance.models import Submission
from governance.submissions.claims import Claim, take_up
from governance.submissions.intake import CallOrder, submit

HELPDESK = task_caller("helpdesk")
WEB_SHOP = task_caller("web-shop")

PROMPT = "zanzibarquokka"
"""A word that is nowhere but in prompts."""


def body(text: str = PROMPT, **members: Any) -> bytes:
    """A request."""
    return orjson.dumps({"model": "support-chat", "messages": [{"role": "user", "content": text}], **members})


def order(text: str = PROMPT, **members: Any) -> CallOrder:
    """A call to hand in."""
    return CallOrder(body=body(text, **members))


def handed_in(*, caller: Caller = HELPDESK, task: str = "") -> UUID:
    """A call that waits for a worker."""
    return submit(order(), caller=caller, task=task)


def taken_up(submission: UUID, *, worker: str = "worker-1", now: datetime | None = None) -> Claim:
    """A delivery of it."""
    claim = take_up(submission, worker=worker, now=now or datetime.now(UTC))
    assert claim is not None
    return claim


def row(submission: UUID) -> Submission:
    """The row as it stands."""
    return Submission.objects.get(pk=submission)


def later(**by: float) -> datetime:
    """A moment to come."""
    return datetime.now(UTC) + timedelta(**by)
