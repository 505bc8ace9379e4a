"""Charts of bars, as the theme's library draws them, each with a sentence for those who do not see it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from routing.core.money import NANOS, Money

_BAR_COLOUR, _TICK_COLOUR = "#2a86c5", "#737d8c"  # each legible on the theme's light and dark ground


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart of bars: a title, a sentence for those who do not see it, and what the library draws."""

    title: str
    summary: str
    data: str
    options: str


def amount_in(costs: Sequence[Money], currency: str) -> float | None:
    """An amount for drawing only: no bar where nothing was priced."""
    return next((each.nanos / NANOS for each in costs if each.currency == currency), None)


def draw_bars(title: str, labels: Sequence[str], values: Sequence[float | None], *, whole: bool) -> Chart:
    """A bar for each label; none where there is no value. ``whole`` where values are counts."""
    known = [(value, label) for value, label in zip(values, labels, strict=True) if value is not None]
    most, when = max(known, default=(0, ""))
    peak = f"{most:,.0f}" if whole else f"{most:,.4g}"
    dataset = {
        "label": title,
        "data": list(values),
        "backgroundColor": _BAR_COLOUR,
        "hoverBackgroundColor": _BAR_COLOUR,
        "borderRadius": 3,
        "maxBarThickness": 28,
    }
    ticks = {"color": _TICK_COLOUR, "maxRotation": 0, "autoSkip": True, "maxTicksLimit": 8}
    options = {
        "animation": False,
        "responsive": True,
        "maintainAspectRatio": False,
        "plugins": {"legend": {"display": False}},
        "scales": {
            "x": {"grid": {"display": False}, "ticks": ticks},
            "y": {
                "beginAtZero": True,
                "border": {"display": False},
                "ticks": {"color": _TICK_COLOUR, "maxTicksLimit": 5, **({"precision": 0} if whole else {})},
                "grid": {"drawTicks": False},
            },
        },
    }
    return Chart(
        title=title,
        summary=f"{title}, {len(labels)} bars; the highest is {peak} ({when}). The table below has every figure.",
        data=json.dumps({"labels": list(labels), "datasets": [dataset]}),
        options=json.dumps(options),
    )
