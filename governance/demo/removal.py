"""Takes the demo out of a database again: every row that is marked as its own.

Catalogue records are otherwise retired and never deleted, because rows name them and a name must not be used again.
This is the documented exception: the rows that name the demo's records are the demo's too, and go with them. So the
deletions below go past the refusals of those records, and raise the versions themselves. What each record was stays in
its revision, and the audit trail says that it was removed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from django.contrib.auth.models import User
from django.db import models, transaction
from django.db.models import F, ProtectedError, Q, QuerySet, Sum

from budgets.crossings import percent_of
from budgets.models import Account, Crossing, Entry, Hold
from governance.audit.actions import AuditAction, Author, Channel, RecordKind
from governance.changes.descriptions import describe
from governance.changes.door import begin, keep
from governance.changes.keys import name_of_key
from governance.changes.records import name_of_evaluation
from governance.demo.cast import SOURCE
from governance.demo.operator import EMAILS
from governance.models import (
    AccessKey,
    AlertDelivery,
    Application,
    Batch,
    Budget,
    BudgetTier,
    StoredContent,
    Submission,
    Webhook,
)
from routing.models import Configuration, EvaluationResult, FallbackLink, LanguageModel, Provider
from telemetry.models import Attempt, Call, DecisionRecord, UsageDay, UsageHour

_BATCH = 1000

AUTHOR = Author("manage.py remove_demo", Channel.COMMAND)

KINDS: Mapping[type[models.Model], RecordKind] = MappingProxyType(
    {
        AccessKey: RecordKind.KEY,
        Budget: RecordKind.BUDGET,
        Webhook: RecordKind.WEBHOOK,
        Application: RecordKind.APPLICATION,
        Configuration: RecordKind.CONFIGURATION,  # with its list
        EvaluationResult: RecordKind.EVALUATION,
        LanguageModel: RecordKind.MODEL,  # with its prices
        Provider: RecordKind.PROVIDER,
    }
)
"""Records with a ``source``, in an order in which nothing is still named when it goes."""

RECORDS: tuple[type[models.Model], ...] = tuple(KINDS)

ROWS: tuple[type[models.Model], ...] = (Call, UsageDay, UsageHour, Submission, Batch)
"""Rows with a ``source``."""


_BLOCKED = "records that are not the demo's refer to it: {}. Change or remove them, then try again"


class RemovalBlocked(Exception):
    """Records that are not the demo's refer to records that are."""


def remove_demo() -> dict[str, int]:
    """Remove everything of the demo; gives how many rows of each kind went.

    All of it or nothing: one transaction, within which rows go in batches.

    Raises:
        RemovalBlocked: somebody else's records refer to the demo's.
    """
    try:
        with transaction.atomic():
            begin()
            _refuse_if_named()
            _tell()
            removed = {
                "submitted calls": _remove_submissions(),
                "accounts": _remove_accounts(),
                "calls": _remove_calls(),
                "usage days": _remove_usage(),
            }
            QuerySet(FallbackLink).filter(configuration__source=SOURCE).delete()
            for kind in RECORDS:
                removed[str(kind._meta.verbose_name_plural)] = _delete(_marked(kind))
            removed["log-ins"] = _delete(QuerySet(User).filter(email__in=EMAILS))
    except ProtectedError as error:
        named = "; ".join(sorted({f"{each._meta.verbose_name} {each}" for each in error.protected_objects}))
        raise RemovalBlocked(_BLOCKED.format(named)) from error
    return removed


def _refuse_if_named() -> None:
    """Ladders name models by their identifiers, so no key of a table protects those."""
    models = _marked(LanguageModel).values_list("identifier", flat=True)
    tiers = BudgetTier.objects.exclude(budget__source=SOURCE).filter(budget__retired_at=None, model__in=list(models))
    pairs = set(tiers.values_list("budget__identifier", "model"))
    named = sorted(f"budget {budget}: tier of {model}" for budget, model in pairs)
    if named:
        raise RemovalBlocked(_BLOCKED.format("; ".join(named)))


def _tell() -> None:
    """Say in the trail what goes, while it is still there to be described."""
    for model, kind in KINDS.items():
        for record in _marked(model):
            before = describe(kind, record.pk)
            keep(kind=kind, name=_name(record), before=before, after=None, action=AuditAction.REMOVED, author=AUTHOR)


def _name(record: models.Model) -> str:
    match record:
        case AccessKey():
            return name_of_key(record)
        case EvaluationResult():
            return name_of_evaluation(record)
    return str(record)


def _marked(kind: type[models.Model]) -> QuerySet[Any]:
    """The demo's records of a kind, by a plain query that knows no refusals."""
    return QuerySet(kind).filter(source=SOURCE)


def _delete(records: QuerySet[Any]) -> int:
    """Delete records with what hangs on them; gives the number of the records themselves."""
    _, by_kind = records.delete()
    return by_kind.get(records.model._meta.label, 0)


def _key_ids() -> list[str]:
    return [str(pk) for pk in QuerySet(AccessKey).filter(source=SOURCE).values_list("pk", flat=True)]


def _demos_own() -> Q:
    """Rows marked as the demo's, made with its keys, or for its applications (a task names no key)."""
    applications = list(_marked(Application).values_list("identifier", flat=True))
    return Q(source=SOURCE) | Q(key__in=_key_ids()) | Q(application__in=applications)


def _remove_submissions() -> int:
    """Submitted calls with what they hold of content, then the batches they came in."""
    removed = 0
    for ids in _batches(QuerySet(Submission).filter(_demos_own())):
        rows: QuerySet[Submission] = QuerySet(Submission).filter(pk__in=ids)
        contents = {content for row in rows.values_list("request", "outcome") for content in row}
        removed += _delete(rows)
        QuerySet(StoredContent).filter(pk__in=contents - {None}).delete()
    _delete(QuerySet(Batch).filter(_demos_own()))
    return removed


def _remove_calls() -> int:
    """Calls of the demo; decisions go with the last call that pointed to them."""
    calls: QuerySet[Call] = QuerySet(Call).filter(_demos_own())
    removed = 0
    for ids in _batches(calls):
        _unbook(ids)
        batch: QuerySet[Call] = QuerySet(Call).filter(pk__in=ids)
        decisions = set(batch.exclude(decision=None).order_by().values_list("decision", flat=True))
        QuerySet(Attempt).filter(call__in=ids).delete()
        removed += _delete(batch)
        QuerySet(DecisionRecord).filter(pk__in=decisions, calls=None).delete()
    return removed


def _unbook(calls: Sequence[Any]) -> None:
    """Take the spending of calls out of the ledger, also where an account counts those of others besides: what they
    have cost was never spent."""
    entries: QuerySet[Entry] = QuerySet(Entry).filter(call__in=calls)
    parts = ("spent", "reserved", "uncertain", "unmeasured")
    sums = entries.order_by("account").values_list("account").annotate(*(Sum(part) for part in parts))
    accounts = []
    for account, *moved in sums:
        accounts.append(account)
        changes = {part: F(part) - amount for part, amount in zip(parts, moved, strict=True)}
        QuerySet(Account).filter(pk=account).update(**changes)
    QuerySet(Hold).filter(call__in=calls).delete()
    entries.delete()
    crossings: QuerySet[Crossing] = QuerySet(Crossing).filter(account__in=accounts).select_related("account")
    undone = [each.pk for each in crossings if _is_undone(each)]
    _remove_crossings(undone)
    QuerySet(Account).filter(pk__in=accounts, entries=None, carryover=None, holds=None, crossings=None).delete()


def _remove_accounts() -> int:
    """Accounts that count nothing but the demo's calls, recorded ones or not."""
    named = {
        "application": _marked(Application).values_list("identifier", flat=True),
        "configuration": _marked(Configuration).values_list("identifier", flat=True),
        "provider": _marked(Provider).values_list("identifier", flat=True),
        "key": _key_ids(),
    }
    is_demos = Q()
    for part, names in named.items():
        is_demos |= Q(**{f"scope__{part}__in": list(names)})
    accounts = list(QuerySet(Account).filter(is_demos).values_list("pk", flat=True))
    QuerySet(Hold).filter(account__in=accounts).delete()
    _remove_crossings(QuerySet(Crossing).filter(account__in=accounts).values_list("pk", flat=True))
    QuerySet(Entry).filter(account__in=accounts).delete()
    return _delete(QuerySet(Account).filter(pk__in=accounts))


def _is_undone(crossing: Crossing) -> bool:
    """Whether an account does not come as far any more as it had come."""
    spent, uncertain = crossing.account.spent, crossing.account.uncertain
    if crossing.threshold is not None:
        return percent_of(spent, uncertain, limit=crossing.limit) < crossing.threshold
    return spent + uncertain + (1 if crossing.needed is None else crossing.needed) <= crossing.limit


def _remove_crossings(crossings: Iterable[int]) -> None:
    """Crossings, and what anybody was told of them."""
    ids = list(crossings)
    AlertDelivery.objects.filter(crossing__in=ids).delete()
    QuerySet(Crossing).filter(pk__in=ids).delete()


def _remove_usage() -> int:
    removed = 0
    for ids in _batches(QuerySet(UsageDay).filter(_demos_own())):
        removed += _delete(QuerySet(UsageDay).filter(pk__in=ids))
    for ids in _batches(QuerySet(UsageHour).filter(_demos_own())):
        _delete(QuerySet(UsageHour).filter(pk__in=ids))  # the same usage again
    return removed


def _batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Primary keys of rows that are about to be deleted, a batch at a time."""
    while ids := list(rows.order_by().values_list("pk", flat=True)[:_BATCH]):
        yield ids
