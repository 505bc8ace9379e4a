"""May a failed request be repeated at the same route, and how long is waited before?

Which failures are worth repeating is read from the table of failures; how often, and how long without advice, is the
installation's policy. Formula: the first wait doubles up to the longest, and half of it is drawn by lot ("equal
jitter"), so that callers that failed together do not come back together.
"""

from dataclasses import dataclass

from routing.core.failures import Failure, Retry

_MOST_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a route is asked for one call, the first time included, and how long is waited of our own accord.

    Waits are in seconds. They do not bound what a provider asks for, which is kept to exactly.
    """

    attempts: int = 2
    first_wait: float = 0.25
    longest_wait: float = 30.0


def wait_before(
    attempt: int, *, failure: Failure, policy: RetryPolicy, repeats_timeouts: bool, lot: float
) -> float | None:
    """The seconds to wait before a route is asked once more; ``None`` where it is not asked again.

    Args:
        attempt: which attempt it would be, from 2.
        failure: how the attempt before it ended.
        policy: how often, and how long.
        repeats_timeouts: whether a provider that did not answer in time is asked again: it may be at work on the
            prompt still, which is then paid for twice.
        lot: at least 0 and less than 1, by chance.
    """
    if attempt > policy.attempts or failure.rule.retry is Retry.NEVER:
        return None
    if failure.rule.retry is Retry.IF_CONFIGURED and not repeats_timeouts:
        return None
    if failure.retry_after is not None:
        return failure.retry_after
    doubled = policy.first_wait * 2.0 ** min(max(attempt - 2, 0), _MOST_DOUBLINGS)
    longest = min(doubled, policy.longest_wait)
    return longest / 2 + lot * longest / 2
