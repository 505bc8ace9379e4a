"""What an answer cost, said to the caller inside its stream: a member ``signalbox`` of one of the frames."""

import orjson

from governance.gateway.protocols.base import Head
from routing.core.money import Money


def charge(head: Head, cost: Money) -> dict[str, str]:
    """What the member holds: the call's id, the amount as a decimal, its currency."""
    return {"call": head.call, "cost": cost.amount, "currency": cost.currency}


def with_charge(raw: bytes, *, head: Head, cost: Money) -> bytes:
    """A provider's frame, which holds an object, with the member added; as it is where it cannot be taken apart."""
    prefix, _, data = raw.partition(b"data:")
    try:
        said = {**orjson.loads(data.strip()), "signalbox": charge(head, cost)}
        return prefix + b"data: " + orjson.dumps(said) + b"\n\n"
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return raw  # several data lines, or numbers that are none: rare, and not worth taking apart
