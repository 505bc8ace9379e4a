"""*Signals used*: what moved the decisions of a period, in all and by configuration and operation."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone

from governance.explanations import SIGNALS
from governance.gateway.service import standing_now
from governance.questions import Question
from governance.spelling import ABSENT, spell_share
from governance.tab.addresses import address_of
from governance.tab.choices import Choice, NextStep, address, next_step, period_choices
from governance.tab.panels import Content, Panel
from governance.tab.words import mode_words, operation_of, operation_words
from routing.core.vocabulary import LABELS
from telemetry.readouts.periods import Period
from telemetry.readouts.signals import SignalCounts, SignalUse, read_signals

SLUG = "signals"
UNMOVED = "No signal: priority and ties"
BY_LIST = "The order of the list"


@dataclass(frozen=True, slots=True)
class Bar:
    """How many decided calls something moved, with their share of all."""

    label: str
    count: int
    shown: str
    share: str


@dataclass(frozen=True, slots=True)
class Cell:
    """One column of one row; ``column`` is its name. ``share`` is empty for none, which needs no share."""

    column: str
    share: str
    count: str


@dataclass(frozen=True, slots=True)
class UseRow:
    """The decisions of one configuration for one operation."""

    configuration: str
    url: str
    operation: str
    modes: str
    decided: str
    calls_url: str
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class SignalsPanel:
    """The panel. ``step`` is what to do where nothing was decided, or nothing is recorded."""

    url: str
    periods: Sequence[Choice]
    period: str
    since: datetime
    decided: int
    heading: str
    bars: Sequence[Bar]
    columns: Sequence[str]
    rows: Sequence[UseRow]
    is_recorded: bool
    step: NextStep


def answer(request: HttpRequest) -> Content:
    """What moved the decisions of a period, seven days unless the address says otherwise: one query for figures."""
    now, standing = timezone.now(), standing_now()
    period = Period.read(request.GET.get("period", ""))
    since = period.starts(now)[0]
    readout = read_signals(since=since, now=now)
    total = readout.total
    panel = SignalsPanel(
        url=PANEL.url,
        periods=period_choices(SLUG, period),
        period=period.label,
        since=since,
        decided=total.decided,
        heading=f"What moved {total.decided:,} decision{'' if total.decided == 1 else 's'}",
        bars=_bars(total),
        columns=[*(LABELS[signal] for signal in SIGNALS), UNMOVED],
        rows=[_row(use) for use in readout.uses],
        is_recorded=standing.settings.routing.telemetry,
        step=next_step(standing, request.user),
    )
    return Content(panel, f"{total.decided:,} decided calls in {period.label}.")


def _bars(total: SignalCounts) -> list[Bar]:
    counted = [(LABELS[signal], total.moved[signal]) for signal in SIGNALS]
    counted += [(UNMOVED, total.unmoved), (BY_LIST, total.listed)]
    return [Bar(label, count, f"{count:,}", _share(count, total.decided)) for label, count in counted]


def _row(use: SignalUse) -> UseRow:
    counts, operation = use.counts, operation_of(use.operation)
    counted = [(LABELS[signal], counts.moved[signal]) for signal in SIGNALS]
    counted.append((UNMOVED, counts.unmoved))
    return UseRow(
        configuration=use.configuration,
        url=address_of(Question(use.configuration, operation)),
        operation=operation_words(use.operation),
        modes=", ".join(mode_words(mode) for mode in use.modes),
        decided=f"{counts.decided:,}",
        calls_url=address("routed-calls", configuration=use.configuration, operation=use.operation),
        cells=[_cell(label, count, counts.ranked) for label, count in counted],
    )


def _cell(column: str, count: int, ranked: int) -> Cell:
    """Of ranked decisions. Where a list's order decides, no signal takes part, which is not the same as none."""
    if not ranked:
        return Cell(column, "", ABSENT)
    return Cell(column, _share(count, ranked) if count else "", f"{count:,}")


def _share(count: int, whole: int) -> str:
    return spell_share(count / whole) if whole else ABSENT


PANEL = Panel(
    slug=SLUG,
    title="Signals used",
    template="governance/_signals.html",
    permissions=("telemetry.view_call",),
    answer=answer,
)
