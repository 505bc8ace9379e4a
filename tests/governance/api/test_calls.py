"""Recorded calls: an application reads its own, why this model without what others have measured, and says whether the
answer was of use."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import orjson
import pytest

from budgets.limits import admit
from governance.access.directory import find_caller
from governance.gateway.service import standing_now
from governance.models import AccessKey
from governance.questions import Question, ask
from governance.shared_state import shared_state
from routing.core.vocabulary import Operation
from telemetry.models import Call, Outcome, WrittenOnceError
from telemetry.outcomes import MOST, Judgement
from tests.factories import (
    RECENTLY,
    AccessKeyFactory,
    ApplicationFactory,
    AttemptFactory,
    CallFactory,
    ConfigurationFactory,
    DecisionRecordFactory,
    EvaluationResultFactory,
    LanguageModelFactory,
    UsageDayFactory,
    UsageHourFactory,
)
from tests.governance.api.program import Program, complaints


@pytest.fixture
def others(db: None) -> Program:
    """An application that is not the first one."""
    _, secret = AccessKeyFactory.create(application=ApplicationFactory.create(identifier="web-shop"))
    return Program(secret)


# --- Records --------------------------------------------------------------------------------------------------------


def test_an_application_reads_its_own_calls_alone(key_holder: Program, others: Program, operator: Program) -> None:
    mine = [str(CallFactory.create(started_at=RECENTLY + timedelta(seconds=at)).pk) for at in range(3)]
    theirs = str(CallFactory.create(application="web-shop").pk)
    assert [each["id"] for each in key_holder.get("calls").json()["items"]] == list(reversed(mine))
    assert [each["id"] for each in others.get("calls").json()["items"]] == [theirs]
    assert len(operator.get("calls").json()["items"]) == 4
    assert len(operator.get("calls?application=web-shop").json()["items"]) == 1
    assert key_holder.get("calls?application=web-shop").json()["items"] == []
    for path in (f"calls/{theirs}", f"calls/{theirs}/explanation", f"calls/{uuid4()}"):
        answer = key_holder.get(path)
        assert (answer.status_code, answer.json()["type"]) == (404, "not_found")
    assert key_holder.post(f"calls/{theirs}/outcomes", {"judgement": "helpful"}).status_code == 404


def test_a_call_is_told_with_what_belongs_together(key_holder: Program) -> None:
    call = CallFactory.create(
        fallback_attempts=1, rejection_reasons="inactive,notPermitted", routing_signal_call_cost=True
    )
    AttemptFactory.create(call=call, index=0, failure_kind="rate_limited")
    AttemptFactory.create(call=call, index=1, provider="prod-west", cost_nanos=6_400_000, cost_currency="USD")
    told = key_holder.get(f"calls/{call.pk}").json()["record"]
    assert told["served"] == {
        "configuration": "support-chat", "provider": "prod-east", "model": "fast", "model_id": "gpt-x-mini",
    }  # fmt: skip
    assert told["tokens"] == {"input": 1200, "cache_read": 0, "cache_write": 0, "output": 340, "reasoning": 0}
    assert told["cost"] == {"amount": "0.0064", "currency": "USD"}
    assert (told["rejection_reasons"], told["signals_used"]) == (["inactive", "notPermitted"], ["callCost"])
    assert [(each["route"]["provider"], each["failure_kind"]) for each in told["attempts"]] == [
        ("prod-east", "rate_limited"), ("prod-west", ""),
    ]  # fmt: skip
    assert told["attempts"][1]["cost"] == {"amount": "0.0064", "currency": "USD"}
    listed = key_holder.get("calls").json()["items"][0]
    assert listed == {name: value for name, value in told.items() if name not in ("attempts", "outcomes")}


def test_a_hit_names_the_call_whose_answer_it_was(key_holder: Program) -> None:
    made = CallFactory.create()
    given = CallFactory.create(cache_hit=True, replay_of=made.pk)
    told = [key_holder.get(f"calls/{call.pk}").json()["record"] for call in (made, given)]
    assert [(each["cache_hit"], each["replay_of"]) for each in told] == [(False, None), (True, str(made.pk))]


def test_what_is_not_known_is_null_and_never_zero(key_holder: Program) -> None:
    call = CallFactory.create(
        success=False, served_model="", first_model="", actual_input_tokens=None, actual_output_tokens=None,
        actual_cost_nanos=None, cost_currency="", usage_coverage="absent", candidates=None,
    )  # fmt: skip
    told = key_holder.get(f"calls/{call.pk}").json()["record"]
    assert [told[name] for name in ("served", "first", "tokens", "cost", "candidates", "first_token_ms")] == [None] * 6


def test_calls_are_chosen(key_holder: Program) -> None:
    CallFactory.create(started_at=RECENTLY - timedelta(days=2), success=False, failure_kind="timeout")
    CallFactory.create(started_at=RECENTLY, requested="plain-chat", operation="embed", served_model="wise")

    def chosen(query: str) -> int:
        return len(key_holder.get(f"calls?{query}").json()["items"])

    moment = RECENTLY.isoformat().replace("+", "%2B")
    assert chosen(f"since={moment}") == chosen(f"until={moment}") == 1
    assert chosen("success=false") == chosen("success=true") == 1
    assert chosen("requested=plain-chat") == chosen("operation=embed") == chosen("model=wise") == 1
    assert chosen("model=gpt-x-mini") == 0
    assert list(complaints(key_holder.get("calls?operation=dance&success=maybe"))) == ["operation", "success"]


def test_a_list_of_calls_is_one_query_and_pages_go_through_it_once(
    key_holder: Program, django_assert_num_queries: Any
) -> None:
    for at in range(7):
        CallFactory.create(started_at=RECENTLY + timedelta(microseconds=at // 3))
    with django_assert_num_queries(2):  # the key, where no directory is kept, and the calls
        page = key_holder.get("calls?limit=3").json()
    walked = [each["id"] for each in page["items"]]
    while page["next"] is not None:
        page = key_holder.get(page["next"]).json()
        walked += [each["id"] for each in page["items"]]
    assert walked == [str(pk) for pk in Call.objects.order_by("-started_at", "-id").values_list("pk", flat=True)]


# --- Why this model -------------------------------------------------------------------------------------------------


def decided() -> Call:
    """A call whose decision ranked two models by quality, refused none, and is recorded."""
    for identifier, score in (("fast", 0.8), ("wise", 0.6)):
        model = LanguageModelFactory.create(identifier=identifier, model_id=f"gpt-{identifier}", priced=True)
        EvaluationResultFactory.create(model=model, mean_score=score)
    ConfigurationFactory.create(policy_mode="quality")
    question = Question(configuration="support-chat", operation=Operation.CHAT)
    ruling = ask(standing_now(), question, now=datetime.now(UTC)).ruling
    record = DecisionRecordFactory.create(digest=ruling.digest, document=orjson.loads(ruling.document))
    call: Call = CallFactory.create(decision=record)
    return call


def test_an_operator_reads_every_figure(operator: Program) -> None:
    told = operator.get(f"calls/{decided().pk}/explanation").json()
    assert [each["route"] for each in told["candidates"]] == ["prod-east/fast", "prod-east-2/wise"]
    assert told["candidates"][0]["score"] > told["candidates"][1]["score"]
    quality = {each["name"]: each for each in told["candidates"][0]["signals"]}["quality"]
    assert (quality["raw"], quality["value"], quality["status"]) == ({"mean_score": 0.8}, 0.8, "counted")
    assert told["signals_used"] == ["quality"]
    assert told["others"] == 0


def test_a_key_is_told_neither_of_models_it_may_not_use_nor_of_what_others_have_measured(key_holder: Program) -> None:
    call = decided()
    AccessKey.objects.get().delete()
    _, key_holder.secret = AccessKeyFactory.create(
        application=ApplicationFactory.create(identifier="helpdesk-2"), allowed_models=["wise"]
    )
    mine = CallFactory.create(application="helpdesk-2", decision=call.decision)
    answer = key_holder.get(f"calls/{mine.pk}/explanation")
    told = answer.json()
    assert [each["route"] for each in told["candidates"]] == ["prod-east-2/wise"]
    assert told["others"] == 1
    assert b"prod-east/fast" not in answer.content
    assert b"gpt-fast" not in answer.content
    assert told["candidates"][0]["score"] is None
    for signal in told["candidates"][0]["signals"]:
        if signal["name"] in ("health", "latency", "callCost"):
            assert (signal["raw"], signal["value"], signal["counted"]) == (None, None, None)
        if signal["name"] == "cost":
            assert Decimal(signal["raw"]["input_rate"]) == Decimal("2.5")


def test_a_call_for_which_nothing_was_decided_says_so(key_holder: Program) -> None:
    call = CallFactory.create(decision=None)
    assert "Nothing was decided" in key_holder.get(f"calls/{call.pk}/explanation").json()["detail"]
    other = CallFactory.create(decision=DecisionRecordFactory.create())
    assert "another version" in key_holder.get(f"calls/{other.pk}/explanation").json()["detail"]


# --- Outcomes -------------------------------------------------------------------------------------------------------


def test_the_latest_report_stands_and_none_is_lost(key_holder: Program, key: AccessKey) -> None:
    call = CallFactory.create()
    for judgement in ("helpful", "helpful", "notHelpful", "edited"):
        answer = key_holder.post(f"calls/{call.pk}/outcomes", {"judgement": judgement})
        assert (answer.status_code, answer.json()["judgement"]) == (201, judgement)
    told = key_holder.get(f"calls/{call.pk}").json()["record"]["outcomes"]
    assert [each["judgement"] for each in told] == ["edited", "notHelpful", "helpful"]
    assert set(Outcome.objects.values_list("key", flat=True)) == {str(key.pk)}


def test_reports_of_a_call_have_an_end(key_holder: Program) -> None:
    call = CallFactory.create()
    words = [Judgement.HELPFUL.value, Judgement.NOT_HELPFUL.value]
    for number in range(MOST):
        assert key_holder.post(f"calls/{call.pk}/outcomes", {"judgement": words[number % 2]}).status_code == 201
    answer = key_holder.post(f"calls/{call.pk}/outcomes", {"judgement": "helpful"})
    assert (answer.status_code, answer.json()["type"]) == (409, "conflict")
    assert Outcome.objects.count() == MOST


def test_what_is_no_report(key_holder: Program) -> None:
    call = CallFactory.create()
    for sent in ({"judgement": "great"}, {}, {"judgement": "helpful", "answer": "The answer was 42."}):
        assert key_holder.post(f"calls/{call.pk}/outcomes", sent).status_code == 400
    assert not Outcome.objects.exists()


@pytest.mark.django_db
def test_a_report_is_written_once() -> None:
    outcome = Outcome(call=CallFactory.create(), judgement="helpful", key="", reported_at=RECENTLY)
    outcome.save()
    with pytest.raises(WrittenOnceError):
        outcome.save()


# --- Usage ----------------------------------------------------------------------------------------------------------


def test_usage_is_an_applications_own_and_broken_down(key_holder: Program, operator: Program) -> None:
    day = RECENTLY.date()
    UsageDayFactory.create(day=day, model="fast")
    UsageDayFactory.create(day=day - timedelta(days=1), model="wise", cost_nanos=1_000_000_000, currency="EUR")
    UsageDayFactory.create(day=day, application="web-shop", requests=100)
    days = f"since={day - timedelta(days=6)}&until={day}"
    told = key_holder.get(f"usage?{days}").json()
    assert [(each["value"], each["requests"]) for each in told["items"]] == [
        (str(day - timedelta(days=1)), 4), (str(day), 4),
    ]  # fmt: skip
    assert told["total"]["costs"] == [
        {"amount": "1", "currency": "EUR"}, {"amount": "0.0256", "currency": "USD"},
    ]  # fmt: skip
    assert told["total"]["tokens"]["input"] == 9600
    by_model = key_holder.get(f"usage?{days}&by=model").json()
    assert [each["value"] for each in by_model["items"]] == ["fast", "wise"]
    assert list(complaints(key_holder.get(f"usage?{days}&application=web-shop"))) == ["application"]
    everybody = operator.get(f"usage?{days}&by=application").json()
    assert [(each["value"], each["requests"]) for each in everybody["items"]] == [("web-shop", 100), ("helpdesk", 8)]
    assert operator.get(f"usage?{days}&by=model&application=helpdesk&limit=1").json()["is_cut"] is True


def test_usage_of_a_zones_days_and_of_hours(key_holder: Program) -> None:
    hour = datetime.now(UTC).replace(hour=23, minute=0, second=0, microsecond=0) - timedelta(days=1)
    UsageHourFactory.create(hour=hour, requests=7)
    UsageHourFactory.create(hour=hour - timedelta(hours=2), requests=2)
    told = key_holder.get("usage?zone=Europe/Berlin").json()
    assert told["zone"] == "Europe/Berlin"
    assert [(each["value"], each["requests"]) for each in told["items"]] == [
        (str(hour.date()), 2), (str(hour.date() + timedelta(days=1)), 7),
    ]  # fmt: skip
    hours = key_holder.get(f"usage?by=hour&since={hour.date()}&until={hour.date()}").json()
    assert [each["value"] for each in hours["items"]] == [f"{hour.date()}T21:00+00:00", f"{hour.date()}T23:00+00:00"]


def test_a_key_is_told_what_is_left_of_its_limits(key_holder: Program, key: AccessKey, operator: Program) -> None:
    assert key_holder.get("usage").json()["limits"] == []
    key.requests_per_day = 10
    key.save()
    key.application.tokens_per_minute = 6000
    key.application.save()
    caller = find_caller(key_holder.secret, now=datetime.now(UTC))
    assert caller is not None
    admit(shared_state(), caller.limits, tokens=600, now=datetime.now(UTC))
    day, minute = key_holder.get("usage").json()["limits"]
    assert 0 < day.pop("resets_in") <= 86_400
    assert day == {"scope": "key", "counted": "requests", "per": "day", "limit": 10, "left": 9}
    assert (minute["scope"], minute["counted"], minute["per"]) == ("application", "tokens", "minute")
    assert 5400 <= minute["left"] < 6000  # it comes back at a hundred a second
    assert operator.get("usage").json()["limits"] is None


def test_usage_as_a_table(key_holder: Program) -> None:
    UsageDayFactory.create(day=datetime.now(UTC).date(), cost_nanos=1_500_000_000)
    answer = key_holder.get("usage.csv?by=model", headers={"Accept": "text/csv"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/csv")
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="usage-model-')
    assert answer.content.decode().splitlines() == [
        "model,requests,failures,unpriced,input_tokens,cache_read_tokens,cache_write_tokens,output_tokens,"
        "reasoning_tokens,cost,currency",
        "fast,4,0,0,4800,0,0,1360,0,1.5,USD",
    ]


def test_usage_costs_the_same_however_much_there_is(key_holder: Program, django_assert_num_queries: Any) -> None:
    for number in range(10):
        UsageDayFactory.create(model=f"model-{number}", day=datetime.now(UTC).date())
    with django_assert_num_queries(4):  # the key, usage twice, and the budgets in force
        assert len(key_holder.get("usage?by=model").json()["items"]) == 10


def test_nothing_used_is_no_tokens(key_holder: Program) -> None:
    told = key_holder.get("usage").json()
    assert (told["items"], told["total"]["tokens"], told["total"]["costs"]) == ([], None, [])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=2026-02-30", "since"),
        ("since=2026-11-02&until=2026-11-01", "since"),
        ("since=2024-01-01&until=2026-01-01", "since"),
        ("until=0001-01-02", "until"),
        ("by=colour", "by"),
        ("zone=Nowhere/Land", "zone"),
        ("zone=Asia/Kolkata", "zone"),
        ("zone=Europe/Berlin&since=2026-01-01&until=2026-01-02", "since"),
        ("key=7", "key"),
    ],
)
def test_days_that_are_none(key_holder: Program, query: str, field: str) -> None:
    answer = key_holder.get(f"usage?{query}")
    assert (answer.status_code, list(complaints(answer))) == (400, [field])
