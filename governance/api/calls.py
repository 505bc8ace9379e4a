"""Calls: handed in, waited for, and read with what is recorded of them. An application has its own."""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

import orjson
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_200_OK, HTTP_202_ACCEPTED

from governance import tasks
from governance.access.directory import Caller
from governance.api.authentication import caller_of
from governance.api.awaited import AwaitedView, cross
from governance.api.call_records import (
    CallSerializer,
    RecordSerializer,
    call_document,
    detailed_calls,
    no_such_call,
    own_calls,
    record_document,
)
from governance.api.exceptions import ProblemType, wrong_field
from governance.api.pagination import PageQuery, page_of
from governance.api.parsers import CallParser
from governance.api.permissions import KEYS, both
from governance.api.serializers import StrictSerializer
from governance.api.submissions import (
    CallOrderSerializer,
    SubmissionSerializer,
    caller_who_submits,
    find_submission,
    order_of,
    own_submissions,
)
from governance.api.views import IDEMPOTENCY_KEY, Operation
from governance.models import OPEN, SubmissionState
from governance.submissions.readouts import SubmissionNotFound, read_result
from routing.core.failures import Failure
from routing.core.vocabulary import Operation as CallOperation

MOST_SECONDS = 30
"""How long a request may wait for a call."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 0.5
"""Seconds between two looks at a call that is waited for."""


class CallQuery(PageQuery):
    """Which calls."""

    since = serializers.DateTimeField(required=False, help_text="Begun at this moment or later.")
    until = serializers.DateTimeField(required=False, help_text="Begun before this moment.")
    requested = serializers.CharField(required=False, max_length=300, help_text="What was asked for.")
    operation = serializers.ChoiceField([each.value for each in CallOperation], required=False)
    success = serializers.BooleanField(required=False, allow_null=True, default=None)
    application = serializers.CharField(required=False, max_length=100, help_text="For those who are logged in.")
    model = serializers.CharField(required=False, max_length=100, help_text="Identifier of the model that served.")


class FailureSerializer(StrictSerializer):
    """Why a call that was handed in has no answer, or that the model declined."""

    kind = serializers.CharField()
    message = serializers.CharField()
    code = serializers.CharField()
    field = serializers.CharField(help_text="Of the request, if one is at fault.")
    retry_after = serializers.FloatField(allow_null=True, help_text="Seconds to wait before another try.")


class CallDocumentSerializer(StrictSerializer):
    """A call: how far it is, what came of it, what is recorded of it."""

    id = serializers.UUIDField()
    state = serializers.ChoiceField([each.value for each in SubmissionState])
    is_over = serializers.BooleanField(help_text="Whether nothing more will come of it.")
    submission = SubmissionSerializer(allow_null=True, help_text="Of a call that was handed in; null of any other.")
    answer = serializers.DictField(
        allow_null=True, help_text="Of a call that was handed in: what /v1/chat/completions would have answered."
    )
    failure = FailureSerializer(allow_null=True)
    kept_until = serializers.DateTimeField(allow_null=True, help_text="When answer and failure will be removed.")
    record = RecordSerializer(allow_null=True, help_text="What is recorded, a moment after its end.")


class WaitQuery(StrictSerializer):
    """How long somebody waits."""

    wait = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=MOST_SECONDS, help_text="Seconds to wait for the call's end."
    )


class CallsView(AwaitedView):
    """All calls, the latest first; and calls to be made by a worker."""

    parser_classes = (CallParser,)
    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="list_calls",
            summary="List recorded calls",
            about="A virtual key reads its application's calls. A call is recorded a moment after its end; those that "
            "are handed in and not made yet are listed by submissions.",
            permit=both("telemetry.view_call"),
            query=CallQuery,
            answer=CallSerializer,
            is_page=True,
        ),
        "POST": Operation(
            name="submit_call",
            summary="Hand a call in, to be made by a worker",
            about="Answered at once, or after as many seconds as one waits; 200 if it is over by then. The address in "
            "Location has what becomes of it.",
            permit=KEYS,
            query=WaitQuery,
            body=CallOrderSerializer,
            answer=CallDocumentSerializer,
            status=HTTP_202_ACCEPTED,
            other_status=HTTP_200_OK,
            is_repeatable=True,
            problems=(ProblemType.CONFLICT,),
        ),
    }

    async def get(self, request: Request) -> HttpResponseBase:
        return Response(await cross(self._list, request))

    async def post(self, request: Request) -> HttpResponseBase:
        call, caller = await cross(self._hand_in, request)
        await _wait(call, caller, seconds=self.query["wait"])
        document = await cross(_read, call, caller)
        status = HTTP_200_OK if document["is_over"] else HTTP_202_ACCEPTED
        return Response(document, status=status, headers={"Location": f"/api/v1/calls/{call}"})

    def _list(self, request: Request) -> dict[str, Any]:
        query = self.query
        rows = own_calls(caller_of(request))
        columns = {"since": "started_at__gte", "until": "started_at__lt", "model": "served_model"}
        for name in ("since", "until", "requested", "operation", "success", "application", "model"):
            if query.get(name) is not None:
                rows = rows.filter(**{columns.get(name, name): query[name]})
        page = page_of(request, rows, order=("-started_at", "-id"), query=query)
        items = [call_document(row) for row in page.items]
        return {"items": CallSerializer(items, many=True).data, "next": page.next}

    def _hand_in(self, request: Request) -> tuple[UUID, Caller]:
        sent, caller = self.read_body(request), caller_who_submits(request)
        return tasks.submit(order_of(sent), caller=caller, again=_own_name(request)), caller


class CallView(AwaitedView):
    """One call."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="read_call",
            summary="Read a call",
            about="Its id is in the header x-signalbox-call of an answer, or in the answer to handing it in. What was "
            "answered is told to its application alone.",
            permit=both("telemetry.view_call"),
            query=WaitQuery,
            answer=CallDocumentSerializer,
        )
    }

    async def get(self, request: Request, call: UUID) -> HttpResponseBase:
        caller = caller_of(request)
        await _wait(call, caller, seconds=self.query["wait"])
        return Response(await cross(_read, call, caller))


async def _wait(call: UUID, caller: Caller | None, *, seconds: int) -> None:
    """Wait until a call that was handed in is over, or for so long: one short look at a time."""
    ends = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while (left := ends - time.monotonic()) > 0 and not await cross(_is_over, call, caller):
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)


def _is_over(call: UUID, caller: Caller | None) -> bool:
    """Whether there is nothing to wait for, also because there is no such call."""
    state = own_submissions(caller).filter(pk=call).values_list("state", flat=True).first()
    return state is None or SubmissionState(state) not in OPEN


def _read(call: UUID, caller: Caller | None) -> dict[str, Any]:
    """A call as it stands, with what is recorded of it.

    Raises:
        ApiProblem: there is none.
    """
    row = detailed_calls(caller).filter(pk=call).first()
    record = None if row is None else record_document(row)
    document: dict[str, Any] = {"id": call, "submission": None, "answer": None, "failure": None, "kept_until": None}
    try:
        if caller is None:
            status = find_submission(call, None)  # what was said is its application's
        else:
            result = read_result(call, application=caller.application)
            status = result.status
            document |= {"kept_until": result.kept_until, "failure": _failure(result.failure)}
            document["answer"] = None if result.answer is None else orjson.loads(result.answer)
        document |= {"submission": status, "state": status.state.value, "is_over": status.is_over}
    except SubmissionNotFound:
        if row is None:
            raise no_such_call(call) from None
        ended = SubmissionState.DONE if row.success else SubmissionState.FAILED
        document |= {"state": ended.value, "is_over": True}
    written: dict[str, Any] = CallDocumentSerializer({**document, "record": record}).data
    return written


def _failure(failure: Failure | None) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "kind": failure.kind.value,
        "message": failure.message,
        "code": failure.code,
        "field": failure.parameter,
        "retry_after": failure.retry_after,
    }


def _own_name(request: Request) -> str:
    """The name that a request gives itself; empty if it has none."""
    name = request.headers.get(IDEMPOTENCY_KEY, "")
    if name and not re.fullmatch(r"[!-~]{1,100}", name):
        raise wrong_field(IDEMPOTENCY_KEY, "At most 100 characters are needed, without blanks: letters, digits, signs.")
    return name
