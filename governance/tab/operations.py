"""*Operations*: for each operation who would be chosen right now, and what every candidate did over the history window.

Who would be chosen is asked as *Why this model?* asks it. What candidates did is read from calls, each column over the
population that makes it true; the populations are told on the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest
from django.utils import timezone

from governance.decisions import Standing
from governance.explanations import Explanation
from governance.gateway.service import standing_now
from governance.questions import Question, ask
from governance.spelling import ABSENT, spell_mean, spell_milliseconds, spell_share
from governance.tab.addresses import address_of
from governance.tab.choices import Choice, NextStep, address, next_step
from governance.tab.explained import WORDS
from governance.tab.panels import Content, Panel
from governance.tab.words import WHOSE
from routing.core.vocabulary import LABELS, Operation, Selection
from telemetry.history import WINDOW
from telemetry.readouts.operations import OperationReadout, Route, RouteFigures, read_operations

SLUG = "operations"

POPULATIONS = (
    ("Calls", "answered by the candidate, rescues of other candidates included; a cache's answers are nobody's."),
    ("Share", "of the calls of this operation that any candidate answered."),
    (
        "Mean, median, 95th percentile",
        "of the time the whole call took, over calls that the candidate was the first to be sent and answered itself, "
        "as for call history. A percentile is the nearest rank: the time that so many in a hundred do not exceed.",
    ),
    ("Mean cost", "of those among them whose usage the provider reported exactly, each currency by itself."),
    (
        "First attempts",
        "answered, of the calls that the candidate was the first to be sent and either answered or failed by its own "
        "fault, as for health. Faults of callers, refusals and callers who left say nothing of it.",
    ),
)
"""Which calls each column counts."""


@dataclass(frozen=True, slots=True)
class ChosenRow:
    """Which model one configuration would choose. ``by`` is what puts it first; ``is_served`` if there is one."""

    configuration: str
    url: str
    route: str
    is_served: bool
    by: str
    signals: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """What one candidate did for the operation. ``chosen_by`` are the configurations for which it goes first."""

    route: str
    is_in_service: bool
    chosen_by: str
    answered: int
    shown: str
    share: str
    mean: str
    median: str
    p95: str
    costs: Sequence[str]
    success: str
    attempts: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One candidate over all operations: calls answered, and their share of the operation's."""

    route: str
    cells: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class OperationsPanel:
    """The panel: one operation in full, all of them at a glance."""

    url: str
    operations: Sequence[Choice]
    operation: str
    since: datetime
    percentiles_since: datetime | None
    answered: int
    chosen: Sequence[ChosenRow]
    whose: str
    rows: Sequence[CandidateRow]
    columns: Sequence[str]
    matrix: Sequence[MatrixRow]
    populations: Sequence[tuple[str, str]]
    step: NextStep


def answer(request: HttpRequest) -> Content:
    """One operation, that which most calls were of unless the address names another."""
    now, standing = timezone.now(), standing_now()
    readout = read_operations(since=now - WINDOW, now=now)
    answered = {each: sum(figures.answered for figures in readout.of(each.value)) for each in Operation}
    operation = _operation(request.GET.get("operation", ""), answered)
    chosen = _chosen(standing, operation, now)
    panel = OperationsPanel(
        url=PANEL.url,
        operations=[
            Choice(f"{LABELS[each]} ({answered[each]:,})", address(SLUG, operation=each.value), each is operation)
            for each in Operation
        ],
        operation=LABELS[operation],
        since=readout.since,
        percentiles_since=readout.percentiles_since,
        answered=answered[operation],
        chosen=chosen,
        whose=WHOSE if standing.budgets.has_tiers_of_some else "",
        rows=_candidates(standing, readout, operation, chosen),
        columns=[LABELS[each] for each in Operation],
        matrix=_matrix(readout),
        populations=POPULATIONS,
        step=next_step(standing, request.user),
    )
    return Content(panel, f"{LABELS[operation]}: {answered[operation]:,} answered calls in seven days.")


def _operation(asked: str, answered: Mapping[Operation, int]) -> Operation:
    """The operation asked for; without one that there is, the busiest, and chat where nothing was answered."""
    named = next((each for each in Operation if each.value == asked), None)
    return named or max(Operation, key=lambda each: (answered[each], each is Operation.CHAT))


def _chosen(standing: Standing, operation: Operation, now: datetime) -> list[ChosenRow]:
    """Every configuration in service, asked as *Why this model?* asks."""
    names = sorted(name for name, spec in standing.snapshot.configurations.items() if spec.is_active)
    return [_chosen_by(standing, Question(name, operation), now) for name in names]


def _chosen_by(standing: Standing, question: Question, now: datetime) -> ChosenRow:
    explanation = ask(standing, question, now=now).explanation
    first = explanation.selected
    return ChosenRow(
        configuration=question.configuration,
        url=address_of(question),
        route=LABELS[explanation.state] if first is None else first.model.route,
        is_served=first is not None,
        by=_ahead_by(explanation),
        signals=", ".join(LABELS[signal] for signal in explanation.signals_used),
    )


def _ahead_by(explanation: Explanation) -> str:
    first = explanation.selected
    if first is None:
        return ""
    if explanation.selection is Selection.FIXED and not explanation.tiers:
        return "the only one named"
    return "the only one that may serve" if first.leads_by is None else WORDS[first.leads_by]


def _candidates(
    standing: Standing, readout: OperationReadout, operation: Operation, chosen: Sequence[ChosenRow]
) -> list[CandidateRow]:
    """Whoever has figures, the busiest first, and then whoever is in service without any."""
    in_service = {Route(model.provider.identifier, model.identifier) for model in standing.snapshot.catalogue.models}
    figures = list(readout.of(operation.value))
    silent = sorted(in_service - {each.route for each in figures}, key=_spell)
    figures += [RouteFigures(operation=operation.value, route=route) for route in silent]
    by_route: dict[str, list[str]] = {}
    for row in chosen:
        by_route.setdefault(row.route, []).append(row.configuration)
    return [_candidate(each, each.route in in_service, by_route.get(_spell(each.route), [])) for each in figures]


def _candidate(figures: RouteFigures, is_in_service: bool, chosen_by: Sequence[str]) -> CandidateRow:
    percentiles = figures.percentiles
    return CandidateRow(
        route=_spell(figures.route),
        is_in_service=is_in_service,
        chosen_by=", ".join(chosen_by),
        answered=figures.answered,
        shown=f"{figures.answered:,}",
        share=spell_share(figures.share),
        mean=ABSENT if figures.mean_ms is None else spell_milliseconds(figures.mean_ms),
        median=ABSENT if percentiles is None else spell_milliseconds(percentiles.p50_ms),
        p95=ABSENT if percentiles is None else spell_milliseconds(percentiles.p95_ms),
        costs=[spell_mean(each.mean) for each in figures.costs] or [ABSENT],
        success=spell_share(figures.success_rate),
        attempts=f"{figures.successes:,} of {figures.attempts:,}" if figures.attempts else "none",
    )


def _matrix(readout: OperationReadout) -> list[MatrixRow]:
    """Candidates by operations, the busiest first."""
    cells: dict[Route, dict[str, RouteFigures]] = {}
    for each in readout.figures:
        cells.setdefault(each.route, {})[each.operation] = each
    busiest = sorted(cells, key=lambda route: (-sum(each.answered for each in cells[route].values()), _spell(route)))
    return [
        MatrixRow(_spell(route), [_cell(each, cells[route].get(each.value)) for each in Operation]) for route in busiest
    ]


def _cell(operation: Operation, figures: RouteFigures | None) -> tuple[str, str, str]:
    if figures is None:
        return LABELS[operation], "", ""
    return LABELS[operation], f"{figures.answered:,}", spell_share(figures.share)


def _spell(route: Route) -> str:
    return f"{route.provider}/{route.model}"


PANEL = Panel(
    slug=SLUG,
    title="Operations",
    template="governance/_operations.html",
    permissions=("routing.view_configuration", "routing.view_languagemodel", "telemetry.view_call"),
    answer=answer,
)
