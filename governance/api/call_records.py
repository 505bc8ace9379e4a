"""What is recorded of calls: sizes, costs, routes and attempts, why this model, and whether the answer was of use. An
application has its own, and there is nothing of what was asked or answered."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db.models import Prefetch, QuerySet
from django.http import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_201_CREATED

from governance.access.directory import Caller
from governance.api.authentication import caller_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.explained import ExplanationSerializer, explanation_document
from governance.api.permissions import KEYS, both
from governance.api.serializers import MoneySerializer, StrictSerializer
from governance.api.usage import UsageTokensSerializer
from governance.api.views import ApiView, Operation
from governance.explanations import explain
from governance.origins import Origin, Recognition, origin_of
from routing.core.money import Money
from routing.core.transcript import TranscriptError, restore
from telemetry.models import Attempt, Call
from telemetry.models import Outcome as OutcomeRow
from telemetry.outcomes import Judgement, TooManyReports, report

_SIGNALS = ("quality", "health", "cost", "latency", "call_cost")


class RouteSerializer(StrictSerializer):
    """A route, by identifiers; null in a call where there was none."""

    configuration = serializers.CharField(allow_null=True, help_text="The one it stood for; null if not recorded.")
    provider = serializers.CharField()
    model = serializers.CharField()
    model_id = serializers.CharField(help_text="The id sent to the provider.")


class CallSerializer(StrictSerializer):
    """What is recorded of a call. There is nothing of what was asked or answered; null is never zero."""

    id = serializers.UUIDField()
    started_at = serializers.DateTimeField()
    requested = serializers.CharField(help_text="What the caller named as the model.")
    operation = serializers.CharField()
    streamed = serializers.BooleanField()
    application = serializers.CharField()
    key = serializers.CharField(help_text="Id of the key; empty for a task.")
    user = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # the class has it as a word of its own
    success = serializers.BooleanField()
    failure_kind = serializers.CharField()
    error_class = serializers.CharField()
    served = RouteSerializer(allow_null=True, help_text="What answered.")
    first = RouteSerializer(allow_null=True, help_text="What was sent to first.")
    response_model = serializers.CharField(help_text="The model that the provider names in its answer.")
    requested_tier = serializers.CharField(help_text="The class of service asked for, in the caller's word.")
    served_tier = serializers.CharField(help_text="The class that the provider says it served, in its word.")
    latency_ms = serializers.FloatField()
    first_token_ms = serializers.FloatField(allow_null=True, help_text="Until the first token; null unless streamed.")
    cache_hit = serializers.BooleanField(help_text="Whether the answer is one that was there: nothing was sent.")
    replay_of = serializers.UUIDField(allow_null=True, help_text="The call whose answer was given again.")
    fallback_attempts = serializers.IntegerField(help_text="Routes sent to before the one that served.")
    retries = serializers.IntegerField()
    requests_sent = serializers.IntegerField()
    tokens = UsageTokensSerializer(allow_null=True)
    usage_coverage = serializers.CharField(help_text="How well they are known: exact, estimated, partial or absent.")
    cost = MoneySerializer(allow_null=True, help_text="At the price in force; null if it is not known.")
    policy_mode = serializers.CharField(help_text="Empty where nothing was decided.")
    candidates = serializers.IntegerField(allow_null=True)
    rejection_reasons = serializers.ListField(child=serializers.CharField())
    signals_used = serializers.ListField(child=serializers.CharField(), help_text="Signals that moved the decision.")


class AttemptSerializer(StrictSerializer):
    """One request sent to a provider, or a route that could not be used."""

    index = serializers.IntegerField()
    route = RouteSerializer()
    started_at = serializers.DateTimeField()
    waited_ms = serializers.FloatField()
    latency_ms = serializers.FloatField()
    failure_kind = serializers.CharField(help_text="Empty if it answered.")
    error_code = serializers.CharField()
    output_tokens = serializers.IntegerField(allow_null=True)
    cost = MoneySerializer(allow_null=True)


class OutcomeSerializer(StrictSerializer):
    """What became of the answer."""

    judgement = serializers.ChoiceField([each.value for each in Judgement])
    reported_at = serializers.DateTimeField()


class RecordSerializer(CallSerializer):
    """What is recorded of a call, with what is behind it."""

    attempts = AttemptSerializer(many=True, help_text="Of a call that needed more than one.")
    outcomes = OutcomeSerializer(many=True, help_text="Reports on the answer, the latest first, which stands.")


class OutcomeReport(StrictSerializer):
    """A report on an answer."""

    judgement = serializers.ChoiceField(
        [each.value for each in Judgement],
        help_text="helpful and notHelpful are somebody's word; acceptedUnchanged, edited and discarded what was seen.",
    )


class OriginSerializer(StrictSerializer):
    """The call whose answer was given again."""

    recognition = serializers.ChoiceField(
        [each.value for each in Recognition], help_text="By what the call was recognised as one answered before."
    )
    call = serializers.UUIDField()
    explanation = serializers.CharField(help_text="Where the decision is that led to the answer.")


class CallExplanationSerializer(ExplanationSerializer):
    """Why this model. No model was asked for a call that was given an answer again."""

    call = serializers.UUIDField(
        help_text="The call that was decided so: the one asked about, or the one whose answer it was given before "
        "anything was decided."
    )
    given_again = OriginSerializer(allow_null=True, help_text="Whose answer the call was given; null if its own.")


class CallExplanationView(ApiView):
    """Why this model."""

    operations: Mapping[str, Operation] = {
        "GET": Operation(
            name="explain_call",
            summary="Say why this model served a call",
            about="By the figures that decided it then. Of a call that was given an answer again it says whose; a "
            "repetition of a named call was not decided itself, and has the decision of that one. A virtual key is "
            "told of the models it may use, and of nothing that other applications' calls have measured.",
            permit=both("telemetry.view_call"),
            answer=CallExplanationSerializer,
        )
    }

    def get(self, request: Request, call: UUID) -> HttpResponseBase:
        caller = caller_of(request)
        row = find_call(call, caller)
        origin = origin_of(row)
        if origin is not None and row.decision is None:
            row = detailed_calls(caller).filter(pk=origin.call).first() or row
        if row.decision is None:
            whose = "" if origin is None else f" It was given the answer of the call {origin.call}."
            raise ApiProblem(
                ProblemType.NOT_FOUND, f"Nothing was decided for this call, or it was not recorded.{whose}"
            )
        try:
            decision = restore(row.decision.document)
        except TranscriptError:
            raise ApiProblem(
                ProblemType.NOT_FOUND, "The decision was recorded by another version, and cannot be read by this one."
            ) from None
        explanation = explain(decision)
        allowed = None if caller is None else caller.allowed_models
        refusal = explanation.refusal and decision.refusal(allowed_models=allowed)
        document = explanation_document(explanation, caller=caller, refusal=refusal)
        return Response({**document, "call": str(row.pk), "given_again": _origin_document(origin)})


def _origin_document(origin: Origin | None) -> dict[str, str] | None:
    if origin is None:
        return None
    call = str(origin.call)
    return {
        "recognition": origin.recognition.value,
        "call": call,
        "explanation": f"/api/v1/calls/{call}/explanation",
    }


class OutcomesView(ApiView):
    """What became of an answer."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="report_outcome",
            summary="Report whether an answer was of use",
            about="The latest report stands; to say the same again adds nothing. Nothing is decided by it.",
            permit=KEYS,
            body=OutcomeReport,
            answer=OutcomeSerializer,
            status=HTTP_201_CREATED,
            problems=(ProblemType.CONFLICT,),
        )
    }

    def post(self, request: Request, call: UUID) -> HttpResponseBase:
        judgement = Judgement(self.read_body(request)["judgement"])
        caller = caller_of(request)
        row = find_call(call, caller)
        try:
            outcome, _ = report(row, judgement, key="" if caller is None else caller.key, now=timezone.now())
        except TooManyReports as refused:
            raise ApiProblem(ProblemType.CONFLICT, f"Nothing was kept: {refused}.") from None
        return Response(OutcomeSerializer(outcome).data, status=HTTP_201_CREATED)


def own_calls(caller: Caller | None) -> "QuerySet[Call]":
    """The calls that whoever asks may read: an application's own; those of everybody for who is logged in."""
    rows: QuerySet[Call] = Call.objects.all()
    return rows if caller is None else rows.filter(application=caller.application)


def find_call(call: UUID, caller: Caller | None) -> Call:
    """One of them, with what is behind it.

    Raises:
        ApiProblem: there is none. Of another application's call nobody hears that it is there.
    """
    row = detailed_calls(caller).filter(pk=call).first()
    if row is None:
        raise no_such_call(call)
    return row


def detailed_calls(caller: Caller | None) -> "QuerySet[Call]":
    return (
        own_calls(caller)
        .select_related("decision")
        .prefetch_related(
            Prefetch("attempts", Attempt.objects.order_by("index")),
            Prefetch("outcomes", OutcomeRow.objects.order_by("-pk")),
        )
    )


def no_such_call(call: UUID) -> ApiProblem:
    return ApiProblem(
        ProblemType.NOT_FOUND, f"There is no call {call}. What was asked at /v1/ is recorded a moment after its end."
    )


def call_document(row: Call) -> dict[str, Any]:
    """A row, with what belongs together put together."""
    columns = {field.name: getattr(row, field.attname) for field in row._meta.concrete_fields}
    return {
        **columns,
        "served": _route(row, "served", row.served_configuration),
        "first": _route(row, "first", None),
        "tokens": _tokens(row),
        "cost": _money(row.actual_cost_nanos, row.cost_currency),
        "rejection_reasons": [each for each in row.rejection_reasons.split(",") if each],
        "signals_used": [_camel(each) for each in _SIGNALS if getattr(row, f"routing_signal_{each}")],
    }


def record_document(row: Call) -> dict[str, Any]:
    attempts = [
        {
            **{field.name: getattr(each, field.attname) for field in each._meta.concrete_fields},
            "route": each,
            "cost": _money(each.cost_nanos, each.cost_currency),
        }
        for each in row.attempts.all()
    ]
    return {**call_document(row), "attempts": attempts, "outcomes": row.outcomes.all()}


def _route(row: Call, which: str, configuration: str | None) -> dict[str, str | None] | None:
    if not getattr(row, f"{which}_model"):
        return None
    parts = {name: getattr(row, f"{which}_{name}") for name in ("provider", "model", "model_id")}
    return {"configuration": configuration, **parts}


def _tokens(row: Call) -> dict[str, int] | None:
    names = ("input", "cache_read", "cache_write", "output", "reasoning")
    counts = {name: getattr(row, f"actual_{name}_tokens") for name in names}
    return None if counts["input"] is None else counts


def _money(nanos: int | None, currency: str) -> Money | None:
    return None if nanos is None else Money(nanos, currency)


def _camel(name: str) -> str:
    return "callCost" if name == "call_cost" else name
