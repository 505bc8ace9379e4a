"""The admin's first page: what a period came to, and the steps of setting up that are still open.

Figures are those of ``telemetry.readouts``; here they become words, tables and the charts' JSON. A figure that nobody
reported is a dash. Whoever may not look at calls gets the list of pages instead.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from budgets.models import Crossing
from budgets.scopes import scope_of
from governance.admin.charts import Chart, amount_in, draw_bars
from governance.models import AccessKey, Application
from governance.settings_store.registry import TELEMETRY
from governance.settings_store.sources import settings_in_force
from governance.spelling import ABSENT, spell_milliseconds, spell_share, spell_sum
from governance.tab.choices import Choice
from governance.tab.words import DEMO
from routing.core.money import Money
from routing.models import Configuration, LanguageModel, Provider
from telemetry.models import UsageDay
from telemetry.readouts.periods import Period
from telemetry.readouts.usage import LOOKED_AT, Bar, FirstToken, ProviderTotals, Totals, UsageReadout, read_usage

PERMISSION = "telemetry.view_call"

ALERTS_SHOWN = 5
"""Alerts of the windows of this moment that are shown, the latest."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure, what it is called, and what it means."""

    label: str
    figures: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class BarRow:
    """One hour or day in the table that says what the charts show."""

    start: str
    requests: str
    failures: str
    tokens: str
    cost: str


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """One provider, with the share of all requests in percent."""

    provider: str
    requests: int
    shown: str
    share: str
    failures: str
    tokens: str
    cost: str


@dataclass(frozen=True, slots=True)
class Step:
    """A step of setting up. ``url`` is empty where whoever looks may not take it."""

    title: str
    what: str
    is_done: bool
    is_next: bool
    url: str
    button: str


@dataclass(frozen=True, slots=True)
class AlertRow:
    """What a budget has crossed in a window that is not over, or that it refuses calls in it."""

    budget: str
    threshold: int | None
    told: str
    whose: str
    window: str
    at: datetime
    url: str


@dataclass(frozen=True, slots=True)
class Overview:
    """Everything the page shows."""

    readout: UsageReadout
    periods: tuple[Choice, ...]
    tiles: tuple[Tile, ...]
    charts: tuple[Chart, ...]
    bars: tuple[BarRow, ...]
    providers: tuple[ProviderRow, ...]
    steps: tuple[Step, ...]
    example: str
    is_recorded: bool
    alerts: tuple[AlertRow, ...]

    @property
    def is_set_up(self) -> bool:
        """Whether every step was taken."""
        return all(step.is_done for step in self.steps)


def add_overview(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Give the theme's index its content; named by ``UNFOLD["DASHBOARD_CALLBACK"]``."""
    if not request.user.has_perm(PERMISSION):
        return context
    period = Period.read(request.GET.get("period", ""))
    return {**context, "title": "Overview", "overview": read_overview(request, period=period, now=timezone.now())}


def read_overview(request: HttpRequest, *, period: Period, now: datetime) -> Overview:
    """The page's content: as many queries for many rows as for none."""
    readout = read_usage(period=period, now=now, mark=DEMO)
    recorded = next(each.value for each in settings_in_force() if each.setting.key == TELEMETRY.key)
    steps = setup_steps(request, now=now)
    return Overview(
        readout=readout,
        periods=tuple(Choice(each.label, f"?period={each.value}", each is period) for each in Period),
        tiles=tiles(readout),
        charts=charts(readout),
        bars=tuple(_bar_row(bar, period) for bar in reversed(readout.bars)),
        providers=tuple(_provider_row(each, readout.totals) for each in readout.providers),
        steps=steps,
        example=_example(request) if steps[-1].is_next else "",
        is_recorded=recorded,
        alerts=open_alerts(request, now=now),
    )


def open_alerts(request: HttpRequest, *, now: datetime) -> tuple[AlertRow, ...]:
    """What budgets alert in the windows of this moment: one query. Nothing for whoever may not look at it."""
    if not request.user.has_perm("budgets.view_crossing"):
        return ()
    lasts = Q(account__ends_at=None) | Q(account__ends_at__gt=now)
    return tuple(
        AlertRow(
            budget=each.budget,
            threshold=each.threshold,
            told=each.told,
            whose=str(scope_of(each.account.scope)),
            window=each.account.window,
            at=each.at,
            url=reverse("admin:budgets_account_change", args=[each.account_id]),
        )
        for each in Crossing.objects.filter(lasts).select_related("account").order_by("-pk")[:ALERTS_SHOWN]
    )


# --- Figures --------------------------------------------------------------------------------------------------------


def tiles(readout: UsageReadout) -> tuple[Tile, ...]:
    """The figures of the whole period."""
    totals, first_token = readout.totals, readout.first_token
    meaning = "Reported usage at the prices in force when each call began."
    if totals.unpriced:
        meaning += f" {totals.unpriced:,} answered call{_s(totals.unpriced)} without a known price."
    return (
        Tile("Cost", _sums(totals.costs), meaning),
        Tile("Requests", (f"{totals.requests:,}",), "Calls, however they ended."),
        Tile("Tokens", (_count(totals.tokens),), "In and out, cached ones included, as reported."),
        Tile(
            "Failure rate",
            (spell_share(totals.failure_rate),),
            f"{totals.failures:,} of {totals.requests:,} calls got no answer."
            if totals.requests
            else "No call was made.",
        ),
        Tile(
            "Time to first token",
            (ABSENT if first_token is None else spell_milliseconds(first_token.median_ms),),
            _measured(first_token),
        ),
    )


def _measured(first_token: FirstToken | None) -> str:
    if first_token is None:
        return "No streamed call was measured."
    among = f" among the latest {LOOKED_AT:,} calls" if first_token.is_sampled else ""
    return f"Median of {first_token.calls:,} streamed call{_s(first_token.calls)}{among}."


def _sums(costs: Sequence[Money]) -> tuple[str, ...]:
    return tuple(spell_sum(each) for each in costs) or (ABSENT,)


def _count(count: int | None) -> str:
    return ABSENT if count is None else f"{count:,}"


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _moment(start: datetime, period: Period) -> str:
    return f"{start:%H:%M}" if period.is_hourly else f"{start:%b} {start.day}"


def _bar_row(bar: Bar, period: Period) -> BarRow:
    totals = bar.totals
    return BarRow(
        start=f"{bar.start:%Y-%m-%d %H:%M}" if period.is_hourly else f"{bar.start:%Y-%m-%d}",
        requests=f"{totals.requests:,}",
        failures=f"{totals.failures:,}",
        tokens=_count(totals.tokens),
        cost=", ".join(_sums(totals.costs)),
    )


def _provider_row(each: ProviderTotals, whole: Totals) -> ProviderRow:
    totals = each.totals
    return ProviderRow(
        provider=each.provider,
        requests=totals.requests,
        shown=f"{totals.requests:,}",
        share=spell_share(totals.requests / whole.requests if whole.requests else None),
        failures=f"{totals.failures:,}",
        tokens=_count(totals.tokens),
        cost=", ".join(_sums(totals.costs)),
    )


# --- Charts ---------------------------------------------------------------------------------------------------------


def charts(readout: UsageReadout) -> tuple[Chart, ...]:
    """Requests, and the cost in each currency, one bar an hour or a day."""
    every = "hour" if readout.period.is_hourly else "day"
    requests = [bar.totals.requests for bar in readout.bars]
    drawn = [_chart(f"Requests per {every}", readout, requests, whole=True)]
    for total in readout.totals.costs:
        drawn.append(
            _chart(
                f"Cost per {every} ({total.currency})",
                readout,
                [amount_in(bar.totals.costs, total.currency) for bar in readout.bars],
                whole=False,
            )
        )
    return tuple(drawn)


def _chart(title: str, readout: UsageReadout, values: Sequence[float | None], *, whole: bool) -> Chart:
    return draw_bars(title, [_moment(bar.start, readout.period) for bar in readout.bars], values, whole=whole)


# --- Setting up -----------------------------------------------------------------------------------------------------


def setup_steps(request: HttpRequest, *, now: datetime) -> tuple[Step, ...]:
    """The way from nothing to the first call: a query each, and one for applications."""
    in_service = Q(is_active=True, retired_at=None)
    keys = AccessKey.objects.filter(revoked_at=None, application__is_active=True, application__retired_at=None)
    served = LanguageModel.objects.filter(in_service, provider__is_active=True, provider__retired_at=None)
    has_application = (
        request.user.has_perm("governance.add_accesskey") and Application.objects.filter(in_service).exists()
    )
    found: list[tuple[str, str, bool, str, str]] = [
        (
            "Connect a provider",
            "Where models run, and the key that opens it.",
            Provider.objects.filter(in_service).exists(),
            "routing.provider",
            "Add a provider",
        ),
        (
            "Add a model",
            "One that the provider serves, what it can do and what it costs.",
            served.exists(),
            "routing.languagemodel",
            "Add a model",
        ),
        (
            "Make a configuration",
            "The name that applications ask for, and how it arrives at a model.",
            Configuration.objects.filter(in_service).exists(),
            "routing.configuration",
            "Make a configuration",
        ),
        (
            "Issue a key",
            "An application, and a key with which it may call. The key is shown once.",
            keys.filter(Q(expires_at=None) | Q(expires_at__gt=now)).exists(),
            "governance.accesskey" if has_application else "governance.application",
            "Issue a key" if has_application else "Add an application",
        ),
        (
            "Make the first call",
            "With any client of OpenAI's protocol.",
            UsageDay.objects.exists(),
            "",
            "",
        ),
    ]
    steps: list[Step] = []
    for title, what, is_done, record, button in found:
        is_next = not is_done and not any(step.is_next for step in steps)
        steps.append(Step(title, what, is_done, is_next, _add_page(request.user.has_perm, record), button))
    return tuple(steps)


def _add_page(may: Callable[[str], bool], record: str) -> str:
    app, _, model = record.partition(".")
    return reverse(f"admin:{app}_{model}_add") if record and may(f"{app}.add_{model}") else ""


def _example(request: HttpRequest) -> str:
    """A first call to copy, by the name of a configuration that there is."""
    name = Configuration.objects.filter(is_active=True, retired_at=None).values_list("identifier", flat=True).first()
    body = json.dumps({"model": name or "CONFIGURATION", "messages": [{"role": "user", "content": "Hello"}]})
    return (
        f"curl {request.build_absolute_uri('/v1/chat/completions')} \\\n"
        '  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\\n'
        f"  -d '{body}'"
    )
