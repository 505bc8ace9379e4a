"""What callers are told of their rates and quotas, in the headers that clients know.

Of several limits on one thing the one that is reached first is told. OpenAI's clients read ``x-ratelimit-…``;
Anthropic's have names of their own.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from budgets.limits import Counted, Standing, tightest


def rate_headers(standings: Sequence[Standing], *, now: datetime, anthropic: bool) -> dict[str, str]:
    """Headers of limits as they stood when the call was admitted, or refused; none where there is no limit."""
    headers: dict[str, str] = {}
    for counted in Counted:
        found = tightest(standings, counted)
        if found is None:
            continue
        limit, level, word = found.limit, found.level, counted.value
        headers[f"x-ratelimit-limit-{word}"] = str(limit.most)
        headers[f"x-ratelimit-remaining-{word}"] = str(level.left)
        headers[f"x-ratelimit-reset-{word}"] = spell_duration(level.reset_ms)
        if anthropic:
            reset = (now + timedelta(milliseconds=level.reset_ms)).strftime("%Y-%m-%dT%H:%M:%SZ")
            headers[f"anthropic-ratelimit-{word}-limit"] = str(limit.most)
            headers[f"anthropic-ratelimit-{word}-remaining"] = str(level.left)
            headers[f"anthropic-ratelimit-{word}-reset"] = reset
    return headers


def spell_duration(milliseconds: int) -> str:
    """A time as OpenAI's headers have it: ``250ms``, ``59s``, ``6m0s``, ``1h0m0s``."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, seconds = divmod(-(-milliseconds // 1000), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
