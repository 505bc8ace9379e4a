"""Calls that are handed in and made later by a worker: what is sent and answered, and the rows behind it."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_202_ACCEPTED

from governance import tasks
from governance.access.directory import Caller
from governance.api.authentication import KeyHolder, author_of, caller_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.pagination import PageQuery, page_of
from governance.api.parsers import CallParser
from governance.api.permissions import KEYS, both
from governance.api.serializers import RateField, Reason, StrictSerializer
from governance.api.views import ApiView, Operation
from governance.audit.actions import Author
from governance.calls import CallOptions
from governance.models import Batch, Submission, SubmissionState
from governance.submissions.intake import CallOrder, cancel, cancel_batch
from governance.submissions.readouts import BatchProgress, SubmissionNotFound, SubmissionStatus, progress_of, status_of

Document = dict[str, Any]

_STATES = [each.value for each in SubmissionState]
_READ = both("governance.view_submission")
_WITHDRAW = both("governance.change_submission")


# --- What is sent ---------------------------------------------------------------------------------------------------


@extend_schema_field(
    {
        "type": "object",
        "required": ["model", "messages"],
        "properties": {
            "model": {"type": "string", "minLength": 1, "description": "Identifier of a configuration."},
            "messages": {"type": "array", "minItems": 1, "items": {"type": "object"}},
        },
        "additionalProperties": True,
    }
)
class ChatRequestField(serializers.Field[Document, Document, Document, Any]):
    """A request as it would be posted to ``/v1/chat/completions``, without ``stream``. It is read where calls are."""

    def to_internal_value(self, data: Any) -> Document:
        """An object; the rest is said by whoever reads calls."""
        if not isinstance(data, dict):
            raise serializers.ValidationError("Give the object that would be posted to /v1/chat/completions.")
        return data

    def to_representation(self, value: Document) -> Document:
        """As it is."""
        return value


class CallOrderSerializer(StrictSerializer):
    """A call to be made later."""

    request = ChatRequestField(help_text="What would be posted to /v1/chat/completions, without stream.")
    user = serializers.CharField(
        required=False, default="", allow_blank=True, max_length=128, help_text="The end user, for attribution."
    )
    source = serializers.CharField(  # type: ignore[assignment]  # the class has it as a word of its own
        required=False, default="", allow_blank=True, max_length=64, help_text="The calling feature."
    )
    on_device = serializers.BooleanField(
        required=False, default=False, help_text="Whether only models on our own machines may serve it."
    )
    max_cost = RateField(
        required=False,
        allow_null=True,
        default=None,
        help_text="The most it may cost, in the currency of the installation.",
    )


class BatchOrderSerializer(StrictSerializer):
    """Calls to be made later, all of them or none."""

    calls = CallOrderSerializer(many=True, allow_empty=False)


def order_of(sent: Mapping[str, Any]) -> CallOrder:
    """What was sent, as it is handed in."""
    options = CallOptions(
        user=sent["user"], source=sent["source"], on_device=sent["on_device"], max_cost_nanos=sent["max_cost"]
    )
    return CallOrder(body=orjson.dumps(sent["request"]), options=options)


# --- What is answered -----------------------------------------------------------------------------------------------


class SubmissionSerializer(StrictSerializer):
    """Where a call that was handed in stands."""

    id = serializers.UUIDField(help_text="The call's own id.")
    application = serializers.CharField()
    requested = serializers.CharField(help_text="What it names as the model.")
    state = serializers.ChoiceField(_STATES)
    is_over = serializers.BooleanField(help_text="Whether nothing more will come of it.")
    batch = serializers.UUIDField(allow_null=True)
    position = serializers.IntegerField(allow_null=True, help_text="Its place in the batch, from 0.")
    submitted_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True, help_text="When a worker took it up, the last time.")
    sent_at = serializers.DateTimeField(
        allow_null=True, help_text="When a request to a provider was about to be sent. It is never sent again."
    )
    ended_at = serializers.DateTimeField(allow_null=True)
    deliveries = serializers.IntegerField(
        help_text="How often a worker has taken it up, but for the times that it then waited for a limit."
    )
    waits = serializers.IntegerField(help_text="How often it has waited for a rate or a quota that was used up.")
    waits_until = serializers.DateTimeField(allow_null=True, help_text="Until when it waits for one, if it does.")
    failure_kind = serializers.CharField(allow_null=True)
    failure_code = serializers.CharField()


class BatchSerializer(StrictSerializer):
    """How far a batch is."""

    id = serializers.UUIDField()
    application = serializers.CharField()
    size = serializers.IntegerField()
    submitted_at = serializers.DateTimeField()
    ended = serializers.IntegerField(help_text="Calls of which nothing more will come.")
    is_over = serializers.BooleanField()
    ended_at = serializers.DateTimeField(allow_null=True, help_text="When the last of them ended.")
    states = serializers.DictField(
        child=serializers.IntegerField(), source="counts", help_text="How many calls are in which state."
    )


class SubmissionQuery(PageQuery):
    """Which calls."""

    state = serializers.ChoiceField(_STATES, required=False)
    batch = serializers.UUIDField(required=False, help_text="Those of one batch, in its order.")
    application = serializers.CharField(required=False, max_length=100, help_text="For those who are logged in.")


class BatchQuery(PageQuery):
    """Which batches."""

    application = serializers.CharField(required=False, max_length=100, help_text="For those who are logged in.")


class SubmissionsView(ApiView):
    """Calls that were handed in, the latest first."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_submissions",
            summary="List calls that were handed in",
            about="A virtual key reads its application's.",
            permit=_READ,
            query=SubmissionQuery,
            answer=SubmissionSerializer,
            is_page=True,
        )
    }

    def get(self, request: Request) -> HttpResponseBase:
        query = self.query
        rows = own_submissions(caller_of(request))
        for name in ("state", "batch", "application"):
            if name in query:
                rows = rows.filter(**{name: query[name]})
        order = ("position",) if "batch" in query else ("-id",)
        page = page_of(request, rows, order=order, query=query)
        items = [status_of(row) for row in page.items]
        return Response({"items": SubmissionSerializer(items, many=True).data, "next": page.next})


class CancelCallView(ApiView):
    """Withdraws a call."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="cancel_call",
            summary="Withdraw a call that no worker has taken up",
            about="A call that is being made is not stopped, since it may have been sent.",
            permit=_WITHDRAW,
            body=Reason,
            answer=SubmissionSerializer,
            problems=(ProblemType.CONFLICT,),
        )
    }

    def post(self, request: Request, call: UUID) -> HttpResponseBase:
        reason = self.read_body(request)["reason"]
        status = find_submission(call, caller_of(request))
        if not cancel(call, author=_author(request), reason=reason) and status.state is not SubmissionState.CANCELLED:
            now = find_submission(call, caller_of(request))
            raise ApiProblem(ProblemType.CONFLICT, f"Nothing was done: the call is {now.state.value}, and not queued.")
        return Response(SubmissionSerializer(find_submission(call, caller_of(request))).data)


class BatchesView(ApiView):
    """Batches of calls."""

    parser_classes = (CallParser,)
    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_batches",
            summary="List batches",
            permit=_READ,
            query=BatchQuery,
            answer=BatchSerializer,
            is_page=True,
        ),
        "POST": Operation(
            name="submit_batch",
            summary="Hand many calls in together",
            about="All of them or none; the setting calls.maxBatchCalls says how many at the most.",
            permit=KEYS,
            body=BatchOrderSerializer,
            answer=BatchSerializer,
            status=HTTP_202_ACCEPTED,
            problems=(ProblemType.CONFLICT,),
        ),
    }

    def get(self, request: Request) -> HttpResponseBase:
        rows = _own_batches(caller_of(request))
        if "application" in self.query:
            rows = rows.filter(application=self.query["application"])
        page = page_of(request, rows, order=("-id",), query=self.query)
        progress = progress_of(list(page.items))
        items = [_batch(progress[row.pk]) for row in page.items]
        return Response({"items": BatchSerializer(items, many=True).data, "next": page.next})

    def post(self, request: Request) -> HttpResponseBase:
        orders = [order_of(each) for each in self.read_body(request)["calls"]]
        batch = tasks.submit_batch(orders, caller=caller_who_submits(request))
        headers = {"Location": f"/api/v1/batches/{batch}"}
        return Response(_read_batch(batch, caller_of(request)), status=HTTP_202_ACCEPTED, headers=headers)


class BatchView(ApiView):
    """One batch."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="read_batch",
            summary="Say how far a batch is",
            about="Its calls are listed by submissions?batch=ID.",
            permit=_READ,
            answer=BatchSerializer,
        )
    }

    def get(self, request: Request, batch: UUID) -> HttpResponseBase:
        return Response(_read_batch(batch, caller_of(request)))


class CancelBatchView(ApiView):
    """Withdraws the calls of a batch."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="cancel_batch",
            summary="Withdraw the calls of a batch that no worker has taken up",
            permit=_WITHDRAW,
            body=Reason,
            answer=BatchSerializer,
        )
    }

    def post(self, request: Request, batch: UUID) -> HttpResponseBase:
        reason = self.read_body(request)["reason"]
        _read_batch(batch, caller_of(request))
        cancel_batch(batch, author=_author(request), reason=reason)
        return Response(_read_batch(batch, caller_of(request)))


def caller_who_submits(request: Request) -> Caller:
    """In whose name a call is handed in; the permit has seen to it that there is somebody."""
    caller = caller_of(request)
    if caller is None:
        raise TypeError("calls are handed in by applications")
    return caller


def own_submissions(caller: Caller | None) -> "QuerySet[Submission]":
    """The calls that whoever asks may read: an application's own; those of everybody for who is logged in."""
    rows: QuerySet[Submission] = Submission.objects.all()
    return rows if caller is None else rows.filter(application=caller.application)


def find_submission(call: UUID, caller: Caller | None) -> SubmissionStatus:
    """One of them.

    Raises:
        SubmissionNotFound: there is none. Of another application's nobody hears that it is there.
    """
    row = own_submissions(caller).filter(pk=call).first()
    if row is None:
        raise SubmissionNotFound(f"there is no submitted call {call}")
    return status_of(row)


def _own_batches(caller: Caller | None) -> "QuerySet[Batch]":
    rows: QuerySet[Batch] = Batch.objects.all()
    return rows if caller is None else rows.filter(application=caller.application)


def _read_batch(batch: UUID, caller: Caller | None) -> Document:
    row = _own_batches(caller).filter(pk=batch).first()
    if row is None:
        raise SubmissionNotFound(f"there is no batch {batch}")
    document: Document = BatchSerializer(_batch(progress_of([row])[row.pk])).data
    return document


def _batch(progress: BatchProgress) -> Document:
    return {
        "id": progress.id,
        "application": progress.application,
        "size": progress.size,
        "submitted_at": progress.submitted_at,
        "ended": progress.ended,
        "is_over": progress.is_over,
        "ended_at": progress.ended_at,
        "counts": {state.value: count for state, count in progress.counts.items()},
    }


def _author(request: Request) -> Author | None:
    """The operator who withdraws something, for the trail; an application's own wish is no change of anybody's."""
    return None if isinstance(request.user, KeyHolder) else author_of(request)
