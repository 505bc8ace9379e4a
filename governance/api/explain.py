"""A question nobody has called with: which model would serve it now, and why. Nothing is executed or recorded."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseBase
from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from governance.access.directory import Caller
from governance.api.authentication import caller_of
from governance.api.exceptions import ApiProblem, ProblemType
from governance.api.explained import ExplanationSerializer, explanation_document
from governance.api.permissions import both
from governance.api.serializers import StrictSerializer, words_field
from governance.api.views import ApiView, Operation
from governance.gateway.service import standing_now
from governance.models import Application
from governance.questions import Answer, Question, UnknownConfiguration, ask
from routing.circuits import Circuits
from routing.core.policy import PolicyMode
from routing.core.vocabulary import Capability, SkipReason
from routing.core.vocabulary import Operation as CallOperation

_OF_A_CONFIGURATION = frozenset(
    {SkipReason.CONFIGURATION_MISSING, SkipReason.CONFIGURATION_INACTIVE, SkipReason.CONFIGURATION_FORBIDDEN}
)
"""Reasons to pass over a whole configuration, which a key that may not ask for it is not told of."""


class QuestionSerializer(StrictSerializer):
    """What is asked."""

    configuration = serializers.CharField(max_length=100, help_text="Identifier of a configuration.")
    operation = serializers.ChoiceField(
        [each.value for each in CallOperation], required=False, allow_null=True, default=None,
        help_text="What kind of answer. Without one no call history is read.",
    )  # fmt: skip
    needs = words_field(Capability, help_text="What the request needs besides what its operation says.")
    mode = serializers.ChoiceField(
        [each.value for each in PolicyMode], required=False, allow_null=True, default=None,
        help_text="Decide as if this were the mode of every configuration.",
    )  # fmt: skip
    history = serializers.BooleanField(
        required=False, allow_null=True, default=None,
        help_text="Decide as if routing.callHistory were on or off.",
    )  # fmt: skip
    application = serializers.CharField(
        max_length=100, required=False, allow_blank=True, default="",
        help_text="Identifier of the application that asks, for the tiers of its budgets. A key asks for its own.",
    )  # fmt: skip


class StepSerializer(StrictSerializer):
    """A route that a call would walk, and the configuration it stands for."""

    configuration = serializers.CharField()
    route = serializers.CharField()
    rests = serializers.CharField(
        allow_blank=True, help_text="Why a call that came now would pass it over; empty if it would not."
    )


class PassedOverSerializer(StrictSerializer):
    """What would be passed over."""

    name = serializers.CharField()
    reason = serializers.ChoiceField([each.value for each in SkipReason])
    detail = serializers.CharField()


class AnswerSerializer(StrictSerializer):
    """How the question is decided now."""

    asked_at = serializers.DateTimeField()
    is_active = serializers.BooleanField(help_text="Whether the configuration is switched on; calls for others fail.")
    plan = StepSerializer(many=True, help_text="The routes a call would walk, fallback configurations included.")
    passed_over = PassedOverSerializer(many=True)
    kept_for_seconds = serializers.IntegerField(
        allow_null=True,
        help_text="For how long a deterministic request gets the answer that its application had to the same one "
        "before, without any route being asked; null if it never does.",
    )
    explanation = ExplanationSerializer()


class ExplainView(ApiView):
    """Explains a decision that nobody made."""

    operations: Mapping[str, Operation] = {
        "POST": Operation(
            name="explain",
            summary="Say which model would serve a call, and why",
            about="Decided by what is in force, as for a call; nothing is sent or recorded. A virtual key asks about "
            "the configurations it may use, within its own limits, and is told of the models it may use; of what other "
            "applications' calls have measured it is told nothing.",
            permit=both("routing.view_configuration"),
            body=QuestionSerializer,
            answer=AnswerSerializer,
            problems=(ProblemType.NOT_FOUND, ProblemType.FORBIDDEN),
        )
    }

    def post(self, request: Request) -> HttpResponseBase:
        sent, caller = self.read_body(request), caller_of(request)
        question = Question(
            configuration=sent["configuration"],
            operation=None if sent["operation"] is None else CallOperation(sent["operation"]),
            mode=None if sent["mode"] is None else PolicyMode(sent["mode"]),
            history=sent["history"],
            needs=frozenset(sent.get("needs", ())),
            application=sent["application"],
        )
        unknown = ApiProblem(ProblemType.NOT_FOUND, f"There is no configuration {question.configuration} to ask about.")
        if caller is not None and not caller.may_ask_for(question.configuration):
            raise unknown  # whoever may not use it does not learn that it is there
        _check_application(question.application, caller)
        try:
            standing = standing_now()
            answer = ask(standing, question, now=timezone.now(), caller=caller)
        except UnknownConfiguration:
            raise unknown from None
        return Response(_document(answer, caller, standing.circuits))


def _check_application(named: str, caller: Caller | None) -> None:
    if caller is not None and named not in ("", caller.application):
        raise ApiProblem(ProblemType.FORBIDDEN, "A key asks for its own application: leave out application.")
    if caller is None and named and not Application.objects.filter(identifier=named).exists():
        raise ApiProblem(ProblemType.NOT_FOUND, f"There is no application {named} to ask for.")


def _document(answer: Answer, caller: Caller | None, circuits: Circuits) -> dict[str, Any]:
    decision = answer.ruling.decision
    allowed = None if caller is None else caller.allowed_models
    told = answer.explanation.refusal and decision.refusal(allowed_models=allowed)
    return {
        "asked_at": serializers.DateTimeField().to_representation(answer.asked_at),
        "is_active": answer.configuration.is_active,
        "plan": [
            {
                "configuration": each.configuration,
                "route": each.model.route,
                "rests": circuits.state(each.model.identifier).told,
            }
            for each in answer.plan.steps
        ],
        "passed_over": [
            {"name": each.name, "reason": each.reason.value, "detail": each.detail}
            for each in answer.plan.skips
            if caller is None or each.reason not in _OF_A_CONFIGURATION or caller.may_ask_for(each.name)
        ],
        "kept_for_seconds": None if answer.kept_for is None else int(answer.kept_for.total_seconds()),
        "explanation": explanation_document(answer.explanation, caller=caller, refusal=told),
    }
