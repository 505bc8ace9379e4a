import pytest

from routing.core.failures import (
    FAILURES,
    CallFailed,
    CircuitEffect,
    Failure,
    FailureKind,
    NextRoute,
    OutOfTime,
    Retry,
    RouteUnusable,
    internal_failure,
)

TABLE = {
    # kind: (retry, next route, circuit, evidence about the provider)
    "rate_limited": (Retry.AFTER_STATED_WAIT, NextRoute.YES, CircuitEffect.STATED_WAIT, True),
    "quota_exhausted": (Retry.NEVER, NextRoute.YES, CircuitEffect.SETTLED, True),
    "transient": (Retry.BACKING_OFF, NextRoute.YES, CircuitEffect.BACKS_OFF, True),
    "timeout": (Retry.IF_CONFIGURED, NextRoute.YES, CircuitEffect.BACKS_OFF, True),
    "auth": (Retry.NEVER, NextRoute.YES, CircuitEffect.SETTLED, True),
    "not_found": (Retry.NEVER, NextRoute.YES, CircuitEffect.SETTLED, True),
    "unreadable": (Retry.NEVER, NextRoute.YES, CircuitEffect.NONE, True),
    "invalid_request": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
    "context_exceeded": (Retry.NEVER, NextRoute.LARGER_CONTEXT, CircuitEffect.NONE, False),
    "unsupported": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
    "refused": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
    "over_budget": (Retry.NEVER, NextRoute.AFFORDABLE, CircuitEffect.NONE, False),
    "rate_exceeded": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
    "forbidden": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
    "cancelled": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
    "internal_error": (Retry.NEVER, NextRoute.NO, CircuitEffect.NONE, False),
}


@pytest.mark.parametrize("kind", FailureKind)
def test_the_table_row_by_row(kind: FailureKind) -> None:
    rule = FAILURES[kind]
    assert (rule.retry, rule.next_route, rule.circuit, rule.provider_fault) == TABLE[kind.value]


def test_the_table_is_complete() -> None:
    assert set(FAILURES) == set(FailureKind) == set(TABLE)


def test_a_failure_knows_its_row_and_travels_as_an_exception() -> None:
    failure = Failure(FailureKind.RATE_LIMITED, "slow down", retry_after=42.0)
    assert failure.rule is FAILURES[FailureKind.RATE_LIMITED]
    raised = CallFailed(failure)
    assert raised.failure is failure
    assert str(raised) == "slow down"


def test_what_a_failed_call_says_about_its_route() -> None:
    """Circuits hear of the evidence: what failed here, or ran out of the call's own time, is none."""
    busy, late = Failure(FailureKind.TRANSIENT, "busy"), Failure(FailureKind.TIMEOUT, "late")
    assert CallFailed(busy).evidence is busy
    assert RouteUnusable(busy).evidence is None
    assert OutOfTime(late).evidence is None
    assert OutOfTime(late, evidence=busy).evidence is busy


def test_an_error_of_our_own_is_told_by_its_class_alone() -> None:
    failure = internal_failure(LookupError("what nobody may read"))
    assert (failure.kind, failure.code) == (FailureKind.INTERNAL, "LookupError")
    assert "nobody" not in failure.message
