"""The rates and quotas of keys and applications, as the values that calls are admitted by."""

from budgets.limits import Counted, Limit
from governance.models import LIMIT_FIELDS, LimitedRecord
from routing.core.meters import Pace


def limits_of(record: LimitedRecord, *, scope: str, holder: str) -> tuple[Limit, ...]:
    """The limits that a record sets."""
    return tuple(
        Limit(scope=scope, holder=holder, counted=counted, pace=pace, most=most)
        for field, (counted, pace) in _MEANT.items()
        if (most := getattr(record, field)) is not None
    )


_MEANT = {f"{counted.value}_per_{pace.value}": (counted, pace) for pace in Pace for counted in Counted}

if tuple(_MEANT) != LIMIT_FIELDS:
    raise TypeError("the limits that calls are admitted by are not those that records hold")
