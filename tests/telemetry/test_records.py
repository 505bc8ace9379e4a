"""What a row can hold, and that it is written once."""

import time
from uuid import UUID

import pytest
from django.db import models

from telemetry.models import Attempt, Call, DecisionRecord, UsageDay, WrittenOnceError
from telemetry.records import new_call_id
from tests.factories import AttemptFactory, CallFactory, DecisionRecordFactory

LONGEST_TEXT = 300
DOCUMENTS = {(DecisionRecord, "document")}  # what a decision looked at, and nothing of any call


def test_call_ids_sort_by_time_and_are_never_the_same() -> None:
    first = [new_call_id() for _ in range(1000)]
    time.sleep(0.002)
    later = new_call_id()
    assert len(set(first)) == 1000
    assert all(each < later for each in first)
    for each in first:
        assert (each.version, each.variant) == (7, "specified in RFC 4122")
        assert abs((each.int >> 80) / 1000 - time.time()) < 60
        assert isinstance(each, UUID)


@pytest.mark.parametrize("model", [Call, Attempt, DecisionRecord, UsageDay])
def test_no_column_could_hold_a_prompt(model: type[models.Model]) -> None:
    for field in model._meta.get_fields():
        if not isinstance(field, models.Field) or (model, field.name) in DOCUMENTS:
            continue
        assert not isinstance(field, models.TextField | models.JSONField | models.BinaryField), field
        if isinstance(field, models.CharField):
            assert field.max_length is not None
            assert field.max_length <= LONGEST_TEXT


@pytest.mark.django_db
def test_rows_are_written_once() -> None:
    call = CallFactory()
    for row in (call, AttemptFactory(call=call), DecisionRecordFactory()):
        assert str(row)
        with pytest.raises(WrittenOnceError):
            row.save()
        with pytest.raises(WrittenOnceError):
            type(row).objects.get(pk=row.pk).save()


@pytest.mark.django_db
def test_questions_by_name() -> None:
    served = CallFactory(success=True, fallback_attempts=0, cache_hit=False)
    decided = CallFactory(fallback_attempts=1)
    CallFactory(cache_hit=True, policy_mode="")
    CallFactory(success=False, policy_mode="")
    assert list(Call.objects.self_served()) == [served]
    assert set(Call.objects.decided()) == {served, decided}
    assert Call.objects.since(served.started_at).count() == 4
