"""Results of golden sets: what measured quality is made of."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponseBase
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.status import HTTP_204_NO_CONTENT

from governance.api.authentication import author_of
from governance.api.pagination import PageQuery
from governance.api.records import Filled, Kind, RecordView
from governance.api.serializers import IdentifierField, ReasonedSerializer, ReasonQuery
from governance.api.versions import expected_version
from governance.api.views import Operation
from governance.audit.actions import RecordKind
from governance.changes.records import remove_evaluation, save_evaluation
from routing.models import EvaluationResult, LanguageModel


class EvaluationQuery(PageQuery):
    """Which results."""

    model = serializers.CharField(required=False, max_length=100, help_text="Identifier of a model.")


class EvaluationSerializer(ReasonedSerializer):
    """The result of one run of a golden set against one model."""

    model = IdentifierField(LanguageModel, help_text="Identifier of the model.")

    class Meta:
        model = EvaluationResult
        fields: tuple[str, ...] = (
            "id",
            "model",
            "golden_set",
            "grader",
            "prompt_count",
            "mean_score",
            "run_at",
            "source",
            "reason",
        )
        read_only_fields: tuple[str, ...] = ("id", "source")


class EvaluationChange(EvaluationSerializer):
    """A correction of a result: of what it says, not of what it is about."""

    class Meta(EvaluationSerializer.Meta):
        read_only_fields: tuple[str, ...] = ("golden_set", *EvaluationSerializer.Meta.read_only_fields)

    model = IdentifierField(LanguageModel, read_only=True)


class EvaluationKind(Kind):
    model = EvaluationResult
    record = RecordKind.EVALUATION
    word, words = "evaluation", "evaluations"
    serializer, change = EvaluationSerializer, EvaluationChange
    query = EvaluationQuery
    order = ("-id",)
    key = "id"

    def rows(self) -> "QuerySet[Any]":
        return EvaluationResult.objects.select_related("model")

    def chosen(self, query: Mapping[str, Any]) -> "QuerySet[Any]":
        return self.rows().filter(model__identifier=query["model"]) if "model" in query else self.rows()

    def store(self, filled: Filled) -> dict[str, Any]:
        columns = filled.fill()
        save_evaluation(
            filled.record, author=filled.author, reason=filled.reason, only=columns, expected=filled.expected
        )
        return {}


class EvaluationView(RecordView):
    """One result. No row names it, so a wrong one can go."""

    @property
    def operations(self) -> Mapping[str, Operation]:
        return {
            **super().operations,
            "DELETE": Operation(
                name="remove_evaluation",
                summary="Take a result away",
                permit=self.of.permit("delete"),
                query=ReasonQuery,
                status=HTTP_204_NO_CONTENT,
                names_version=True,
            ),
        }

    def delete(self, request: Request, name: object) -> HttpResponseBase:
        expected = expected_version(request)
        result = self.of.find(name)
        remove_evaluation(result, author=author_of(request), reason=self.query["reason"], expected=expected)
        return Response(status=HTTP_204_NO_CONTENT)
