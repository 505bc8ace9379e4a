"""A decision as lines of text for a terminal: what was decided, by what, and a table of candidates.

Kept beside the commands because words and widths are a matter of where they are shown; every figure comes from the
decision. Any command that has a ``Decision`` (fresh or restored from a record) can print these lines.
"""

from collections.abc import Sequence

from routing.core.decision import Candidate, Decision
from routing.core.fields import printable
from routing.core.money import format_nanos
from routing.core.policy import MODE_LABELS
from routing.core.ranking import Reading
from routing.core.signals import MIN_CALLS
from routing.core.vocabulary import LABELS, DecisionState, Enforcement, ListedOrder, SignalName

NO_DATA = "no data"


def describe(decision: Decision) -> list[str]:
    """The decision in lines: the outcome, what it was decided by, the candidates, and what was left out."""
    lines = [_outcome(decision), *_basis(decision), ""]
    lines += _table(_rows(decision))
    lines += [f"  {printable(name)}: not in service" for name in decision.unavailable]
    return [line.rstrip() for line in lines]


def _outcome(decision: Decision) -> str:
    selected = decision.selected
    if selected is None and decision.refused and decision.state is DecisionState.FIXED:
        return f"{LABELS[decision.state]}. It was refused."
    named = "No model is selected." if selected is None else f"Selected: {printable(selected.model.identifier)}."
    return f"{LABELS[decision.state]}. {named}"


def _basis(decision: Decision) -> list[str]:
    """What the decision went by, one sentence each."""
    lines = [f"{printable(tier.told)}: {printable(tier.meaning)}." for tier in decision.tiers]
    if decision.mode is not None:
        lines.append(f"Mode {decision.mode.value}: {MODE_LABELS[decision.mode].lower()}.")
    if decision.order is not None:
        lines.append(f"Order {decision.order.value}: {LABELS[decision.order].lower()}.")
    lines.append(_operation(decision))
    if decision.enforcement is Enforcement.OBSERVE:
        lines.append("Capabilities that the call needs are observed, not enforced.")
    if decision.mode is not None and decision.mode.is_measured:
        lines.append(f"Call history is {'read' if decision.history_read else 'not read'}.")
        basis = "cost takes no part" if decision.basis is None else f"{LABELS[decision.basis].lower()}"
        lines.append(f"Cost basis: {basis}.")
        used = ", ".join(f"{name.value} ({decision.weights[name]:g})" for name in decision.signals_used)
        lines.append(f"Signals used, with their weights: {used or 'none'}.")
        missing = [name.value for name in SignalName if name not in _collected(decision)]
        if missing and decision.eligible:
            lines.append(f"Not collected in this mode: {', '.join(missing)}.")
    return lines


def _operation(decision: Decision) -> str:
    needs = ", ".join(sorted(decision.needs))
    if decision.operation is None:
        return f"No operation chosen, history not read{f'; the call needs {needs}' if needs else ''}."
    return f"Operation {decision.operation.value} needs {needs or 'no capability'}."


def _rows(decision: Decision) -> list[list[str]]:
    collected = _collected(decision)
    extra = _listed_heading(decision)
    head = ["#", "model", *extra, *(["score"] if decision.mode is not None else [])]
    rows = [[*head, *(_heading(name, decision) for name in collected)]]
    for rank, each in enumerate(decision.eligible, start=1):
        cells = [str(rank), _name(each)]
        cells += [_listed_cell(each.reading, decision)] * len(extra)
        if each.score is not None:
            cells.append(f"{each.score:.6f}")
        rows.append([*cells, *(_cell(name, each) for name in collected)])
    rows += [["-", _name(each), _refusal(each)] for each in decision.refused]
    return rows if len(rows) > 1 else []


def _collected(decision: Decision) -> list[SignalName]:
    first = decision.selected
    return [] if first is None else [name for name in SignalName if name in first.signals]


def _heading(name: SignalName, decision: Decision) -> str:
    weight = decision.weights.get(name)
    return f"{name.value} (no weight)" if weight is None else f"{name.value} ({weight:g})"


def _name(candidate: Candidate) -> str:
    name = printable(candidate.model.identifier)
    return f"{name} (lacks {', '.join(candidate.observed)})" if candidate.observed else name


def _refusal(candidate: Candidate) -> str:
    rejection = candidate.rejection
    return "" if rejection is None else f"{rejection.reason.value}: {printable(rejection.detail)}"


def _cell(name: SignalName, candidate: Candidate) -> str:
    """The value and the raw figure behind it. A figure that does not count is shown as what it is: no data."""
    value, figure = candidate.signals.get(name), _FIGURES[name](candidate.reading)
    shown = NO_DATA if value is None else f"{value:.4f}"
    return f"{shown} ({figure})" if figure else shown


def _quality(reading: Reading) -> str:
    return "" if reading.quality is None else f"{reading.quality:g}"


def _health(reading: Reading) -> str:
    health = reading.health
    if health is None:
        return ""
    latency = "" if health.mean_latency_ms is None else f", {health.mean_latency_ms:g} ms"
    return f"{health.successes} of {health.samples}{latency}"


def _list_price(reading: Reading) -> str:
    price = reading.price
    if price is None:
        return ""
    rates = price.rates
    return f"{format_nanos(rates.input)} + {format_nanos(rates.output)} {price.currency}"


def _latency(reading: Reading) -> str:
    history = reading.history
    if history is None or history.mean_latency_ms is None:
        return ""
    return f"{history.mean_latency_ms:g} ms, {_calls(history.calls)}"


def _call_cost(reading: Reading) -> str:
    history = reading.history
    if history is None or history.mean_cost is None:
        return ""
    return f"{history.mean_cost}, {_calls(history.priced_calls)}"


def _calls(count: int) -> str:
    return f"{count} calls" if count >= MIN_CALLS else f"{count} of {MIN_CALLS} calls"


_FIGURES = {
    SignalName.QUALITY: _quality,
    SignalName.HEALTH: _health,
    SignalName.COST: _list_price,
    SignalName.LATENCY: _latency,
    SignalName.CALL_COST: _call_cost,
}


def _listed_heading(decision: Decision) -> list[str]:
    """The figure a listed order goes by, if it goes by any."""
    if decision.order is ListedOrder.CHEAPEST:
        return ["published price"]
    return ["failures in a row"] if decision.order is ListedOrder.HEALTHIEST else []


def _listed_cell(reading: Reading, decision: Decision) -> str:
    if decision.order is ListedOrder.HEALTHIEST:
        return str(reading.failures_in_a_row or 0)
    return _list_price(reading) or NO_DATA


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows in columns. A refused candidate's reason is one long cell, which widens no column."""
    full = [row for row in rows if row[0] != "-"]
    widths = [max(len(cell) for cell in column) for column in zip(*full, strict=True)]
    if rows:
        widths[1] = max(len(row[1]) for row in rows)
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=False)) for row in rows]
