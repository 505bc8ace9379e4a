import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.core.failures import FAILURES, Failure, FailureKind, Retry
from routing.core.retry import RetryPolicy, wait_before

BUSY = Failure(FailureKind.TRANSIENT, "busy")
NEARLY_ONE = 0.999999999
TEN = RetryPolicy(attempts=10)


def wait(
    attempt: int,
    failure: Failure = BUSY,
    *,
    policy: RetryPolicy = TEN,
    repeats_timeouts: bool = False,
    lot: float = 0.0,
) -> float | None:
    return wait_before(attempt, failure=failure, policy=policy, repeats_timeouts=repeats_timeouts, lot=lot)


def test_the_policy_unless_somebody_says_otherwise() -> None:
    """Two attempts, the first included; 250 ms doubling to 30 s."""
    assert RetryPolicy() == RetryPolicy(attempts=2, first_wait=0.25, longest_wait=30.0)
    assert wait(2, policy=RetryPolicy()) is not None
    assert wait(3, policy=RetryPolicy()) is None


@pytest.mark.parametrize(
    ("attempt", "least", "most"),
    [(2, 0.125, 0.25), (3, 0.25, 0.5), (4, 0.5, 1.0), (8, 8.0, 16.0), (9, 15.0, 30.0), (10, 15.0, 30.0)],
)
def test_half_of_the_doubling_wait_is_by_lot(attempt: int, least: float, most: float) -> None:
    assert wait(attempt, lot=0.0) == least
    assert wait(attempt, lot=0.5) == (least + most) / 2
    assert wait(attempt, lot=NEARLY_ONE) == pytest.approx(most)


@given(
    st.integers(2, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.001, 60),
    st.floats(0.001, 600),
)
def test_a_wait_of_our_own_has_its_bounds(attempt: int, lot: float, first: float, longest: float) -> None:
    policy = RetryPolicy(attempts=10_000, first_wait=first, longest_wait=longest)
    found = wait(attempt, policy=policy, lot=lot)
    assert found is not None
    assert min(first, longest) / 2 <= found <= longest


@pytest.mark.parametrize("advice", [0.0, 0.001, 7.0, 42.0, 86_400.0])
@pytest.mark.parametrize("kind", [FailureKind.RATE_LIMITED, FailureKind.TRANSIENT])
def test_advice_is_kept_to_exactly(kind: FailureKind, advice: float) -> None:
    """Neither spread out nor bounded, however short our own waits are."""
    policy = RetryPolicy(attempts=2, first_wait=0.001, longest_wait=0.001)
    assert wait(2, Failure(kind, "slow down", retry_after=advice), policy=policy, lot=0.7) == advice


@pytest.mark.parametrize("kind", FailureKind)
def test_which_failures_are_repeated(kind: FailureKind) -> None:
    repeated = {
        FailureKind.RATE_LIMITED: (True, True),
        FailureKind.TRANSIENT: (True, True),
        FailureKind.TIMEOUT: (False, True),
    }.get(kind, (False, False))
    for advice in (None, 3.0):
        failure = Failure(kind, "no", retry_after=advice)
        found = tuple(wait(2, failure, repeats_timeouts=each) is not None for each in (False, True))
        assert found == repeated
    assert (FAILURES[kind].retry is not Retry.NEVER) == repeated[1]


@pytest.mark.parametrize("attempts", [0, 1])
def test_one_attempt_is_no_repetition(attempts: int) -> None:
    assert wait(2, policy=RetryPolicy(attempts=attempts)) is None
