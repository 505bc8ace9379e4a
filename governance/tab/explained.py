"""An explanation in words, for every page that shows one: a call's, a configuration's, the tab's.

Here figures become texts; nothing is computed, compared or left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from governance.explanations import (
    SIGNALS,
    BasisReason,
    ExplainedCandidate,
    ExplainedSignal,
    Explanation,
    HistoryUse,
    Lead,
    ListPrice,
    MeanCost,
    MeanLatency,
    MeanScore,
    OpenNeed,
    RawFigure,
    Shortfall,
    SignalStatus,
    explain,
)
from governance.origins import Recognition, origin_of
from governance.questions import Question
from governance.spelling import ABSENT, capability_words, spell_cost, spell_rate
from governance.tab.addresses import address_of
from routing.core.decision import Decision
from routing.core.signals import MIN_CALLS, HealthFigure
from routing.core.transcript import restore
from routing.core.vocabulary import LABELS, OPERATION_CAPABILITY, Labels, Selection, SignalName
from telemetry.models import Call

NO_DATA = "no data"
NOT_COLLECTED = "not collected in this mode"
NOT_READ = "not collected: history not read"
UNPRICED = "unpriced"

WORDS = Labels(
    {
        SignalStatus.COUNTED: "counted",
        SignalStatus.NO_DATA: NO_DATA,
        SignalStatus.NO_WEIGHT: "carries no weight",
        SignalStatus.NOT_COLLECTED: NOT_COLLECTED,
        SignalStatus.NOT_COMPARED: "not compared",
    },
    {
        HistoryUse.READ: "read",
        HistoryUse.NOTHING_RANKED: "not read: nothing is ranked",
        HistoryUse.MODE_MEASURES_NOTHING: "not read: this mode measures nothing",
        HistoryUse.NO_OPERATION: "not read: no operation was chosen",
        HistoryUse.UNAVAILABLE: "not read: telemetry is off, or it could not be read",
        HistoryUse.SWITCHED_OFF: "not read: routing.callHistory is off",
    },
    {
        BasisReason.NOTHING_RANKED: "nothing is ranked",
        BasisReason.MODE_MEASURES_NOTHING: "this mode measures nothing",
        BasisReason.COST_TAKES_NO_PART: "it takes no part in this mode, and the criteria do not prefer the lowest",
        BasisReason.HISTORY_NOT_READ: "what calls cost is not read",
        BasisReason.NOBODY_MEASURED: f"no candidate has {MIN_CALLS} priced calls of this operation",
        BasisReason.SOMEBODY_MERELY_LISTED: "somebody with a list price has no measured cost, and units are not mixed",
        BasisReason.ALL_MEASURED: "every candidate with any cost figure has a measured one",
    },
    {
        Lead.BUDGET_TIER: "a tier of a budget",
        Lead.PRIORITY: "provider priority",
        Lead.SCORE: "score",
        Lead.COST: "lower cost",
        Lead.FAILURES: "fewer failures in a row",
        Lead.DEFAULT: "being the default",
        Lead.SORTING: "sorting",
        Lead.CANDIDATE_ORDER: "name",
        Lead.LISTED_ORDER: "its place in the list",
    },
    {
        Shortfall.TOO_FEW: f"fewer than {MIN_CALLS}",
        Shortfall.OTHER_CURRENCY: "not in the currency of routing",
    },
    {
        OpenNeed.OPERATION: "An operation: without one no capability is needed and no call history is read",
        OpenNeed.TOOLS: "Tools, if it offers any",
        OpenNeed.VISION: "Vision, if it carries images",
        OpenNeed.STRUCTURED_OUTPUT: "Structured output, if it asks for a schema",
        OpenNeed.REASONING: "Reasoning, if it asks for it",
        OpenNeed.PROMPT_CACHING: "Prompt caching, if it marks a part for it",
        OpenNeed.CONTEXT_LENGTH: "A context that holds its prompt",
        OpenNeed.KEY: "A key that allows the models and the fallback configurations, and has no budget past a tier",
        OpenNeed.COST_CEILING: "A cost below the ceiling that the caller may send",
    },
    {
        Recognition.RESPONSE_CACHE: "its configuration keeps answers, and its application had asked the same before",
        Recognition.IDEMPOTENCY_KEY: "its caller had made it before, under the same Idempotency-Key",
    },
)
"""Every member of every enumeration of explanations, and of where answers come from, in words. A test fails when one is
missing."""


_OF_HISTORY = frozenset({SignalName.LATENCY, SignalName.CALL_COST})
_UNREADABLE = (ValueError, LookupError, TypeError, AttributeError)  # of another version, or damaged


@dataclass(frozen=True, slots=True)
class SignalCell:
    """One signal of one candidate: its column, what was measured, what it was worth, how much that counted. ``bar`` is
    the value as a number, if there is one."""

    column: str
    raw: str
    value: str
    bar: str
    weighs: bool
    counted: str


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate. A refused one has a reason; it has no rank and no score. ``leads_by`` is empty for the last,
    ``moved`` where it stands as in the explanation compared with."""

    rank: int | None
    moved: str
    route: str
    name: str
    model_id: str
    priority: int
    score: str
    leads_by: str
    cells: Sequence[SignalCell]
    failures: str
    reason: str
    detail: str
    observed: str
    lacking: str
    context: str


@dataclass(frozen=True, slots=True)
class ExplanationPage:
    """A decision in words. ``tiers`` are those of budgets that were in force, each with what follows from it. ``facts``
    are pairs of name and text, ``open_needs`` sentences. ``ask_url`` asks the same of what is in force now; it is empty
    where the caller named a model, which no question can."""

    state: str
    tiers: Sequence[str]
    refusal: str
    facts: Sequence[tuple[str, str]]
    signals: Sequence[str]
    rows: Sequence[CandidateRow]
    open_needs: Sequence[str]
    ranked: bool
    ask_url: str


@dataclass(frozen=True, slots=True)
class GivenAgain:
    """Whose answer a call was given instead of a model's, and why. ``url`` is the page of the call that was made, where
    the decision is that led to the answer."""

    why: str
    call: str
    url: str


def given_again(call: Call) -> GivenAgain | None:
    """Whose answer a call was given, without asking whether that one's row is still there; ``None`` if its own."""
    origin = origin_of(call)
    if origin is None:
        return None
    page = reverse("admin:telemetry_call_change", args=[origin.call])
    return GivenAgain(WORDS[origin.recognition], str(origin.call), f"{page}#why-this-model")


def recorded_page(document: Mapping[str, Any], *, application: str = "") -> ExplanationPage | None:
    """The page of a recorded decision, made for a call of an application; ``None`` if this version cannot read it."""
    try:
        return page_of(explain(restore(document)), application=application)
    except _UNREADABLE:
        return None


def recorded_decision(document: Mapping[str, Any]) -> Decision | None:
    """A recorded decision; ``None`` if this version cannot read it."""
    try:
        return restore(document)
    except _UNREADABLE:
        return None


def page_of(
    explanation: Explanation, *, compared_with: Explanation | None = None, application: str = ""
) -> ExplanationPage:
    """An explanation in words; compared with another one, each row says where that has its candidate.

    ``application`` is who is to ask the same of what is in force now.
    """
    before = {} if compared_with is None else {each.model.route: each.rank for each in compared_with.candidates}
    return ExplanationPage(
        state=LABELS[explanation.state],
        tiers=[f"{tier.told}: {tier.meaning}." for tier in explanation.tiers],
        refusal=f"{explanation.refusal[:1].upper()}{explanation.refusal[1:]}",
        facts=[(name, text) for name, text in _facts(explanation) if text],
        signals=[LABELS[name] for name in SIGNALS],
        rows=[_row(each, explanation, before) for each in explanation.candidates],
        open_needs=[WORDS[each] for each in explanation.open_needs],
        ranked=explanation.mode is not None,
        ask_url=_ask_url(explanation, application),
    )


def _ask_url(explanation: Explanation, application: str) -> str:
    if not explanation.configuration:
        return ""
    operation = explanation.operation
    own = None if operation is None else OPERATION_CAPABILITY[operation]
    needs = frozenset(each for each in explanation.needs if each != own)
    return address_of(Question(explanation.configuration, operation, needs=needs, application=application))


def spell_value(value: float) -> str:
    """A ratio between 0 and 1: a signal's value, or a score."""
    return f"{value:.4f}"


def spell_raw(name: SignalName, raw: RawFigure | None) -> str:
    """A raw figure with its unit and what stands behind it."""
    match raw:
        case None:
            return UNPRICED if name is SignalName.COST else NO_DATA
        case MeanScore(score):
            return f"mean score {score:.3f}"
        case HealthFigure(samples, successes, mean_latency_ms):
            latency = "" if mean_latency_ms is None else f", mean {mean_latency_ms:,.0f} ms"
            return f"{successes} of {samples} first attempts{latency}"
        case ListPrice(input=price, output=output):
            rates = f"{spell_rate(price.nanos)} + {spell_rate(output.nanos)} {price.currency}"
            return f"{rates} per million tokens{_short(raw.shortfall)}"
        case MeanLatency(milliseconds, calls, shortfall):
            return f"mean {milliseconds:,.0f} ms of {_calls(calls)}{_short(shortfall)}"
        case MeanCost(cost, calls, shortfall):
            return f"mean {spell_cost(cost.nanos, cost.currency)} of {_calls(calls, 'priced ')}{_short(shortfall)}"


def _facts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    yield "Configuration", explanation.configuration or "none: the caller named the model"
    yield "Selection", LABELS[explanation.selection]
    yield "Mode", "" if explanation.mode is None else explanation.mode.value
    yield "Order", "" if explanation.order is None else LABELS[explanation.order]
    yield "Operation", "none chosen" if explanation.operation is None else LABELS[explanation.operation]
    unknown = "not known without an operation" if explanation.operation is None else "nothing in particular"
    yield "Needs", capability_words(explanation.needs) or unknown
    yield "Criteria", _criteria(explanation) if explanation.selection is Selection.CRITERIA else ""
    yield "Call history", WORDS[explanation.history]
    yield "Cost compared by", _basis(explanation)
    used = ", ".join(LABELS[name] for name in explanation.signals_used)
    yield "Signals that moved it", used or ("none" if explanation.mode is None else "none: priority and ties decided")
    yield "Not in service", ", ".join(explanation.unavailable)


def _criteria(explanation: Explanation) -> str:
    criteria = explanation.criteria
    asked = (
        ("capabilities", capability_words(criteria.capabilities)),
        ("adapter types", ", ".join(criteria.adapter_types)),
        ("context of at least", f"{criteria.min_context_length:,}" if criteria.min_context_length else ""),
        (
            "input price up to",
            f"{spell_rate(criteria.max_cost_input)} {explanation.currency}" if criteria.max_cost_input else "",
        ),
        ("lowest cost preferred", "yes" if criteria.prefer_lowest_cost else ""),
    )
    return "; ".join(f"{name} {text}" for name, text in asked if text) or "none"


def _basis(explanation: Explanation) -> str:
    if explanation.mode is None:
        return ""
    why = WORDS[explanation.basis_reason]
    if explanation.holding_back:
        why = f"{why} ({', '.join(explanation.holding_back)})"
    return f"nothing: {why}" if explanation.basis is None else f"{LABELS[explanation.basis]}: {why}"


def _row(candidate: ExplainedCandidate, explanation: Explanation, before: Mapping[str, int | None]) -> CandidateRow:
    model, rejection, failures = candidate.model, candidate.rejection, candidate.failures_in_a_row
    return CandidateRow(
        rank=candidate.rank,
        moved=_moved(candidate, before),
        route=model.route,
        name=model.name,
        model_id=model.model_id,
        priority=model.provider.priority,
        score=ABSENT if candidate.score is None else spell_value(candidate.score),
        leads_by="" if candidate.leads_by is None else WORDS[candidate.leads_by],
        cells=[_cell(each, explanation) for each in candidate.signals],
        failures="" if failures is None else f"{failures:,} in a row",
        reason="" if rejection is None else LABELS[rejection.reason],
        detail="" if rejection is None else rejection.detail,
        observed=", ".join(candidate.observed),
        lacking=capability_words(candidate.lacking),
        context="unknown" if model.context_length is None else f"{model.context_length:,} tokens",
    )


def _moved(candidate: ExplainedCandidate, before: Mapping[str, int | None]) -> str:
    """Where a candidate stood before, if that was elsewhere."""
    if candidate.model.route not in before or before[candidate.model.route] == candidate.rank:
        return ""
    rank = before[candidate.model.route]
    return "refused in force" if rank is None else f"{rank} in force"


def _cell(signal: ExplainedSignal, explanation: Explanation) -> SignalCell:
    return SignalCell(
        column=LABELS[signal.name],
        raw=spell_raw(signal.name, signal.raw),
        value=_status(signal, explanation) if signal.value is None else spell_value(signal.value),
        bar="" if signal.value is None else spell_value(signal.value),
        weighs=signal.weight is not None,
        counted=_counted(signal, weighs=signal.name in explanation.weights),
    )


def _status(signal: ExplainedSignal, explanation: Explanation) -> str:
    """What became of a signal without a value. Of those that call history gives, the switch is the nearer reason."""
    unread = explanation.history not in {HistoryUse.READ, HistoryUse.MODE_MEASURES_NOTHING}
    if signal.status is SignalStatus.NOT_COLLECTED and signal.name in _OF_HISTORY and unread:
        return NOT_READ
    return WORDS[signal.status]


def _counted(signal: ExplainedSignal, *, weighs: bool) -> str:
    if signal.counted is not None and signal.weight is not None:
        return f"counted as {spell_value(signal.counted)}, weight {signal.weight:g}"
    if signal.status is SignalStatus.NO_DATA and weighs:
        return "left out of its score"
    has_column = signal.status in {SignalStatus.NO_DATA, SignalStatus.NO_WEIGHT}
    return WORDS[SignalStatus.NO_WEIGHT] if has_column else ""


def _calls(number: int, kind: str = "") -> str:
    return f"{number:,} {kind}call{'' if number == 1 else 's'}"


def _short(shortfall: Shortfall | None) -> str:
    return "" if shortfall is None else f" ({WORDS[shortfall]})"
