"""A recorded decision as a page shows it: every candidate with rank, score, each signal's raw figure and value, and
the reason of each refused one.

It shows the numbers of the document, which are those that decided; nothing is computed again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from governance.admin.fields import ABSENT, capability_words, spell_cost, spell_rate
from routing.core.decision import Candidate, Decision
from routing.core.ranking import contributions
from routing.core.signals import MIN_CALLS
from routing.core.transcript import restore
from routing.core.vocabulary import LABELS, Selection, SignalName

NO_DATA = "no data"
NOT_COLLECTED = "not collected in this mode"

SIGNALS = (
    SignalName.QUALITY,
    SignalName.HEALTH,
    SignalName.COST,
    SignalName.LATENCY,
    SignalName.CALL_COST,
)


@dataclass(frozen=True, slots=True)
class SignalCell:
    """One signal of one candidate: what was measured, what it was worth, and how much that counted."""

    raw: str
    value: str
    counted: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate. A refused one has a reason; it has no rank and no score."""

    rank: int | None
    route: str
    name: str
    model_id: str
    priority: int
    score: str
    cells: Sequence[SignalCell]
    reason: str
    detail: str
    observed: str

    @property
    def labelled(self) -> list[tuple[str, SignalCell]]:
        """Each cell with the name of its column, for screens on which rows are cards."""
        return [(LABELS[name], cell) for name, cell in zip(SIGNALS, self.cells, strict=True)]


@dataclass(frozen=True, slots=True)
class DecisionTable:
    """A decision: what was asked, and how every candidate fared. ``facts`` are pairs of name and text."""

    state: str
    facts: Sequence[tuple[str, str]]
    signals: Sequence[str]
    rows: Sequence[CandidateRow]
    ranked: bool


def decision_table(document: Mapping[str, Any]) -> DecisionTable | None:
    """The table of a decision document; ``None`` if this version cannot read it."""
    try:
        return table_of(restore(document))
    except (ValueError, LookupError, TypeError, AttributeError):  # an older, a newer or a damaged document
        return None


def table_of(decision: Decision) -> DecisionTable:
    """The table of a decision."""
    eligible = [_row(each, decision, rank=rank) for rank, each in enumerate(decision.eligible, start=1)]
    refused = [_row(each, decision, rank=None) for each in decision.refused]
    return DecisionTable(
        state=LABELS[decision.state],
        facts=_facts(decision),
        signals=[LABELS[name] for name in SIGNALS],
        rows=[*eligible, *refused],
        ranked=decision.mode is not None,
    )


def _facts(decision: Decision) -> list[tuple[str, str]]:
    criteria = decision.criteria
    asked = [
        ("capabilities", capability_words(criteria.capabilities)),
        ("adapter types", ", ".join(criteria.adapter_types)),
        ("context of at least", f"{criteria.min_context_length:,}" if criteria.min_context_length else ""),
        (
            "input price up to",
            f"{spell_rate(criteria.max_cost_input)} {decision.currency}" if criteria.max_cost_input else "",
        ),
        ("lowest cost preferred", "yes" if criteria.prefer_lowest_cost else ""),
    ]
    used = ", ".join(LABELS[name] for name in decision.signals_used)
    facts = [
        ("Configuration", decision.configuration or "none: the caller named the model"),
        ("Selection", LABELS[decision.selection]),
        ("Mode", "" if decision.mode is None else decision.mode.value),
        ("Order", "" if decision.order is None else LABELS[decision.order]),
        ("Operation", "none chosen" if decision.operation is None else LABELS[decision.operation]),
        ("Needs", ", ".join(sorted(decision.needs)) or "nothing in particular"),
        (
            "Criteria",
            ("; ".join(f"{name} {text}" for name, text in asked if text) or "none")
            if decision.selection is Selection.CRITERIA
            else "",
        ),
        ("Call history", "read" if decision.history_read else "not read"),
        ("Cost compared by", "" if decision.basis is None else LABELS[decision.basis]),
        ("Signals that moved it", used or "none"),
        ("Not in service", ", ".join(decision.unavailable)),
    ]
    return [(name, text) for name, text in facts if text]


def _row(candidate: Candidate, decision: Decision, *, rank: int | None) -> CandidateRow:
    model, rejection = candidate.model, candidate.rejection
    counted: Mapping[SignalName, tuple[float, float]] = (
        {}
        if rejection is not None
        else contributions(candidate.signals, weights=decision.weights, neutral_for_absent=decision.neutral_for_absent)
    )
    return CandidateRow(
        rank=rank,
        route=model.route,
        name=model.name,
        model_id=model.model_id,
        priority=model.provider.priority,
        score=ABSENT if candidate.score is None else f"{candidate.score:.4f}",
        cells=[_cell(name, candidate, decision, counted) for name in SIGNALS],
        reason="" if rejection is None else LABELS[rejection.reason],
        detail="" if rejection is None else rejection.detail,
        observed=", ".join(candidate.observed),
    )


def _cell(
    name: SignalName, candidate: Candidate, decision: Decision, counted: Mapping[SignalName, tuple[float, float]]
) -> SignalCell:
    raw = _raw(name, candidate)
    if candidate.rejection is not None:
        return SignalCell(raw=raw, value=ABSENT, counted="")
    if name not in candidate.signals:
        return SignalCell(raw=raw, value=NOT_COLLECTED, counted="")
    value = candidate.signals[name]
    pair = counted.get(name)
    return SignalCell(
        raw=raw,
        value=NO_DATA if value is None else f"{value:.4f}",
        counted="carries no weight" if pair is None else f"counted as {pair[1]:.4f}, weight {pair[0]:g}",
    )


def _raw(name: SignalName, candidate: Candidate) -> str:
    reading = candidate.reading
    history = reading.history
    match name:
        case SignalName.QUALITY:
            return NO_DATA if reading.quality is None else f"mean score {reading.quality:.3f}"
        case SignalName.HEALTH:
            health = reading.health
            if health is None:
                return NO_DATA
            latency = "" if health.mean_latency_ms is None else f", mean {health.mean_latency_ms:,.0f} ms"
            return f"{health.successes} of {health.samples} first attempts{latency}"
        case SignalName.COST:
            price = reading.price
            if price is None:
                return "unpriced"
            rates = f"{spell_rate(price.rates.input)} + {spell_rate(price.rates.output)}"
            return f"{rates} {price.currency} per million tokens"
        case SignalName.LATENCY:
            if history is None or history.mean_latency_ms is None:
                return NO_DATA
            return f"mean {history.mean_latency_ms:,.0f} ms of {_calls(history.calls)}"
    if history is None or history.mean_cost is None:
        return NO_DATA
    cost = spell_cost(history.mean_cost.nanos, history.mean_cost.currency)
    return f"mean {cost} of {_calls(history.priced_calls, 'priced ')}"


def _calls(number: int, kind: str = "") -> str:
    few = f" (fewer than {MIN_CALLS})" if number < MIN_CALLS else ""
    return f"{number} {kind}call{'' if number == 1 else 's'}{few}"
