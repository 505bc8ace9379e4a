"""A breakdown as a table of text, for programs that calculate: a line for each value and currency."""

import csv
from io import StringIO

from routing.core.money import format_nanos
from telemetry.readouts.breakdowns import COUNTED, Breakdown, Share

_RISKY = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
    "\n",
    "\uff1d",
    "\uff0b",
    "\uff0d",
    "\uff20",
)  # what a spreadsheet would take for a formula


def write_csv(breakdown: Breakdown) -> str:
    """The breakdown as CSV (RFC 4180). Counts and tokens stand in a value's first line alone, so that every column can
    be summed; a cost is an exact decimal, and empty where nothing was priced."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow([breakdown.dimension.value, "requests", "failures", "unpriced", *COUNTED, "cost", "currency"])
    for share in breakdown.shares:
        writer.writerows(_lines(share))
    return out.getvalue()


def _lines(share: Share) -> list[list[str]]:
    value = f"'{share.value}" if share.value.startswith(_RISKY) else share.value
    tokens = ["" if share.tokens is None else str(share.tokens[each.removesuffix("_tokens")]) for each in COUNTED]
    counts = [str(share.requests), str(share.failures), str(share.unpriced), *tokens]
    costs = [[format_nanos(each.nanos), each.currency] for each in share.costs] or [["", ""]]
    return [[value, *(counts if index == 0 else [""] * len(counts)), *cost] for index, cost in enumerate(costs)]
