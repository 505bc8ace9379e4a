"""*Routed calls*: the latest calls for which something was decided, each with what moved its decision."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from governance.decisions import Standing
from governance.gateway.service import standing_now
from governance.spelling import spell_cost, spell_milliseconds
from governance.tab.choices import NextStep, next_step
from governance.tab.panels import Content, Panel
from governance.tab.words import DEMO, mode_words, operation_words, outcome_words, reason_words, shape_words
from routing.core.vocabulary import LABELS, Operation
from telemetry.readouts.decisions import RequestSize, RoutedCall, read_routed_calls

SLUG = "routed-calls"
WEEK = timedelta(days=7)
SHOWN = 20
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Option:
    """A value of a filter."""

    value: str
    label: str
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class CallRow:
    """One call.

    Attributes:
        outcome: how it ended, if not simply well: a failure, a rescue, an answer from the cache.
        moved: what moved the decision, in words; ``is_moved`` if signals did.
        refused: the distinct reasons for which candidates were refused.
        record_url: the decision's record; empty where none was kept.
        origin_url: the call whose answer it was given; empty if a model was asked.
    """

    url: str
    record_url: str
    origin_url: str
    started_at: datetime
    configuration: str
    operation: str
    application: str
    is_demo: bool
    route: str
    outcome: str
    is_failed: bool
    took: str
    cost: str
    mode: str
    candidates: str
    moved: str
    is_moved: bool
    preference: str
    refused: str
    size: str
    complexity: str


@dataclass(frozen=True, slots=True)
class RoutedPanel:
    """The panel. ``is_cut`` if there may be more; ``all_url`` leads to the list of calls."""

    url: str
    configurations: Sequence[Option]
    operations: Sequence[Option]
    is_filtered: bool
    rows: Sequence[CallRow]
    is_cut: bool
    all_url: str
    step: NextStep


def answer(request: HttpRequest) -> Content:
    """The latest decided calls of the last seven days, of one configuration or operation if the address says so."""
    now, standing = timezone.now(), standing_now()
    configuration, operation = request.GET.get("configuration", ""), request.GET.get("operation", "")
    calls = read_routed_calls(
        since=now - WEEK, now=now, configuration=configuration, operation=operation, most=SHOWN + 1
    )
    panel = RoutedPanel(
        url=PANEL.url,
        configurations=_configurations(standing, configuration),
        operations=[Option(each.value, LABELS[each], each.value == operation) for each in Operation],
        is_filtered=bool(configuration or operation),
        rows=[_row(call) for call in calls[:SHOWN]],
        is_cut=len(calls) > SHOWN,
        all_url=_all_calls(configuration, operation),
        step=next_step(standing, request.user),
    )
    number = f"{SHOWN} latest" if panel.is_cut else str(len(calls))
    return Content(panel, f"{number} routed calls.")


def _configurations(standing: Standing, chosen: str) -> list[Option]:
    """Those there are, and the one asked for, which may have been retired since."""
    names = sorted({*standing.snapshot.configurations, *((chosen,) if chosen else ())})
    return [Option(name, name, name == chosen) for name in names]


def _all_calls(configuration: str, operation: str) -> str:
    asked = {"requested": configuration, "operation": operation}
    parameters = urlencode({name: value for name, value in asked.items() if value})
    return f"{reverse('admin:telemetry_call_changelist')}?{parameters}".rstrip("?")


def _row(call: RoutedCall) -> CallRow:
    moved = ", ".join(LABELS[signal] for signal in call.signals)
    return CallRow(
        url=reverse("admin:telemetry_call_change", args=[call.call_id]),
        record_url=reverse("admin:telemetry_decisionrecord_change", args=[call.digest]) if call.digest else "",
        origin_url=reverse("admin:telemetry_call_change", args=[call.replay_of]) if call.replay_of else "",
        started_at=call.started_at,
        configuration=call.configuration,
        operation=operation_words(call.operation),
        application=call.application,
        is_demo=call.source == DEMO,
        route=f"{call.provider}/{call.model}" if call.model else "",
        outcome=_outcome(call),
        is_failed=not call.success,
        took=spell_milliseconds(call.latency_ms),
        cost=spell_cost(
            None if call.cost is None else call.cost.nanos, "" if call.cost is None else call.cost.currency
        ),
        mode=mode_words(call.mode),
        candidates=""
        if call.candidates is None
        else f"{call.candidates} candidate{'' if call.candidates == 1 else 's'}",
        moved=moved or ("the list's order decided" if call.mode.startswith("listed:") else "priority and ties decided"),
        is_moved=bool(moved),
        preference=call.preference,
        refused=", ".join(reason_words(reason) for reason in call.rejection_reasons),
        size=_size(call.size),
        complexity=_complexity(call.size),
    )


def _outcome(call: RoutedCall) -> str:
    if not call.success:
        return outcome_words(call.failure_kind)
    told = []
    if call.cache_hit:
        told.append("from the cache")
    if call.fallback_attempts:
        told.append(f"after {_counted(call.fallback_attempts, 'other route')}")
    if call.served_configuration and call.served_configuration != call.configuration:
        told.append(f"by falling back to {call.served_configuration}")
    return ", ".join(told)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(size: RequestSize) -> str:
    """What was asked, before any choice: nothing of it is guessed."""
    told = [
        shape_words(size.shape),
        "" if size.tools is None else _counted(size.tools, "tool"),
        "" if size.payload_bytes is None else f"{size.payload_bytes:,} bytes",
        "" if size.token_estimate is None else f"about {size.token_estimate:,} tokens",
    ]
    return ", ".join(each for each in told if each) or NOT_MEASURED


def _complexity(size: RequestSize) -> str:
    if size.complexity is None:
        return NOT_MEASURED
    window = "context unknown" if size.context_percent is None else f"{size.context_percent} % of the context"
    return f"{size.complexity} of 100, {window}"


PANEL = Panel(
    slug=SLUG,
    title="Routed calls",
    template="governance/_routed.html",
    permissions=("telemetry.view_call",),
    answer=answer,
)
