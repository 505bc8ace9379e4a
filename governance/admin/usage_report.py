"""The usage report: what was used over some days of a zone, by application, model and the like; as a page and as CSV.

Figures are those of ``telemetry.readouts.breakdowns``, which the REST interface tells too. Everything that is asked is
in the address, so that a report can be kept and shared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from uuid import UUID
from zoneinfo import available_timezones

from django import forms
from django.http import HttpRequest, HttpResponse, QueryDict
from django.template.response import TemplateResponse
from django.urls import reverse

from governance.admin.charts import Chart, amount_in, draw_bars
from governance.admin.generic import SelectWidget, TextWidget
from governance.models import AccessKey
from governance.spelling import ABSENT, spell_share, spell_sum
from governance.tab.choices import Choice
from routing.core.money import Money
from telemetry.readouts.breakdowns import Breakdown, Dimension, Share, Span, SpanError, read_breakdown, spell_hour
from telemetry.readouts.tables import write_csv

ROWS = 200
"""Values that the page shows; the table as CSV has more."""

_DAYS_BY_HOUR = 2
"""Up to so many days the charts have a bar for each hour."""

LABELS: Mapping[Dimension, str] = {
    Dimension.DAY: "Day",
    Dimension.HOUR: "Hour",
    Dimension.APPLICATION: "Application",
    Dimension.KEY: "Key",
    Dimension.USER: "User",
    Dimension.SOURCE: "Source",
    Dimension.CONFIGURATION: "Configuration",
    Dimension.PROVIDER: "Provider",
    Dimension.MODEL: "Model",
    Dimension.OPERATION: "Operation",
}


class DateWidget(TextWidget):
    """A day, picked by what the browser has for it."""

    input_type = "date"


class ReportForm(forms.Form):
    """What is asked."""

    by = forms.ChoiceField(
        label="Broken down by",
        choices=[(each.value, LABELS[each]) for each in Dimension],
        widget=SelectWidget,
    )
    since = forms.DateField(label="From", widget=DateWidget)
    until = forms.DateField(label="To", widget=DateWidget)
    zone = forms.CharField(
        label="Time zone",
        max_length=64,
        required=False,
        widget=TextWidget(attrs={"list": "zones", "autocomplete": "off"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for each in _FILTERS:
            self.fields[each.value] = forms.CharField(required=False, max_length=128, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        """With the days as one span."""
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        first, last, today = cleaned["since"], cleaned["until"], datetime.now(UTC).date()
        try:
            cleaned["span"] = span = Span.of(first=first, last=last, zone=cleaned["zone"], today=today)
            span.check_pace(Dimension(cleaned["by"]))
        except SpanError as refused:
            self.add_error(refused.field, str(refused))
        return cleaned


_FILTERS = tuple(each for each in Dimension if not each.is_time)


@dataclass(frozen=True, slots=True)
class Row:
    """One value. ``url`` leads to its own report, by day."""

    value: str
    url: str
    requests: int
    shown: str
    share: str
    failures: str
    unpriced: str
    tokens_in: str
    tokens_out: str
    cost: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the report is limited to, and the address without that."""

    label: str
    value: str
    without: str


def usage_report(request: HttpRequest, *, opts: Any, context: dict[str, Any]) -> HttpResponse:
    """The report of what the address asks for: three queries at the most; ``?format=csv`` gives the table."""
    today = datetime.now(UTC).date()
    form = ReportForm({**_usual(today), **{name: value for name, value in request.GET.items() if value}})
    found: dict[str, Any] = {}
    if form.is_valid():
        answers = form.cleaned_data
        only = {each: answers[each.value] for each in _FILTERS if each.value in request.GET}
        breakdown = read_breakdown(by=Dimension(answers["by"]), span=answers["span"], only=only)
        if request.GET.get("format") == "csv":
            return _table(breakdown)
        found = _shown(request, breakdown, only)
    shown = {
        "title": "Usage",
        "opts": opts,
        "form": form,
        "zones": sorted(each for each in available_timezones() if "/" in each and not each.startswith("Etc/")),
        "periods": _periods(request.GET, today),
        **found,
    }
    return TemplateResponse(request, "admin/telemetry/usageday/report.html", {**context, **shown})


def _usual(today: date) -> dict[str, str]:
    """What is asked where nothing is said: a week until today, of UTC, by application."""
    week = today - timedelta(days=6)
    return {"by": Dimension.APPLICATION.value, "since": str(week), "until": str(today), "zone": "UTC"}


def _table(breakdown: Breakdown) -> HttpResponse:
    name = f"usage-{breakdown.dimension.value}-{breakdown.first}-{breakdown.last}.csv"
    return HttpResponse(
        write_csv(breakdown),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _shown(request: HttpRequest, breakdown: Breakdown, only: Mapping[Dimension, str]) -> dict[str, Any]:
    span, by = breakdown.span, breakdown.dimension
    pace = Dimension.HOUR if (span.last - span.first).days < _DAYS_BY_HOUR else Dimension.DAY
    series = breakdown if by is pace else read_breakdown(by=pace, span=span, only=only)
    names = _key_names(breakdown, only)
    total = breakdown.total
    rows = [_row(request.GET, by, each, total, names) for each in breakdown.shares[:ROWS]]
    return {
        "by": LABELS[by],
        "zone": breakdown.zone,
        "first": span.first,
        "last": span.last,
        "total": _row(request.GET, by, total, total, names),
        "costs": [spell_sum(each) for each in total.costs] or [ABSENT],
        "unpriced": total.unpriced,
        "charts": _charts(series, pace),
        "rows": rows[::-1] if by.is_time else rows,
        "most": max((row.requests for row in rows), default=0),
        "is_cut": breakdown.is_cut or len(breakdown.shares) > ROWS,
        "chosen": [
            Chosen(LABELS[each], names.get(value, value) or "none", _address(request.GET, drop=(each.value,)))
            for each, value in only.items()
        ],
        "csv": _address(request.GET, format="csv"),
    }


def _charts(series: Breakdown, pace: Dimension) -> list[Chart]:
    """Requests, and the cost in each currency, one bar an hour or a day, also where nothing was used."""
    found = {share.value: share for share in series.shares}
    if pace is Dimension.HOUR:
        times = {spell_hour(hour): f"{hour:%H:%M}" for hour in series.span.hours}
    else:
        times = {str(day): f"{day:%b} {day.day}" for day in series.span.days}
    labels = list(times.values())
    requests = [0 if (share := found.get(value)) is None else share.requests for value in times]
    charts = [draw_bars(f"Requests per {pace.value}", labels, requests, whole=True)]
    for total in series.total.costs:
        costs = [amount_in(found[value].costs if value in found else (), total.currency) for value in times]
        charts.append(draw_bars(f"Cost per {pace.value} ({total.currency})", labels, costs, whole=False))
    return charts


def _row(asked: QueryDict, by: Dimension, share: Share, total: Share, names: Mapping[str, str]) -> Row:
    tokens = share.tokens
    into = None if tokens is None else tokens["input"] + tokens["cache_read"] + tokens["cache_write"]
    own = "" if by.is_time else _address(asked, by=Dimension.DAY.value, **{by.value: share.value})
    return Row(
        value=names.get(share.value, share.value),
        url=own,
        requests=share.requests,
        shown=f"{share.requests:,}",
        share=spell_share(share.requests / total.requests if total.requests else None),
        failures=f"{share.failures:,}",
        unpriced=f"{share.unpriced:,}",
        tokens_in=ABSENT if into is None else f"{into:,}",
        tokens_out=ABSENT if tokens is None else f"{tokens['output']:,}",
        cost=_costs(share.costs),
    )


def _costs(costs: Sequence[Money]) -> str:
    return ", ".join(spell_sum(each) for each in costs) or ABSENT


def _key_names(breakdown: Breakdown, only: Mapping[Dimension, str]) -> dict[str, str]:
    """What people call the keys that are spoken of; one query, and none where no key is."""
    spoken = {share.value for share in breakdown.shares} if breakdown.dimension is Dimension.KEY else set()
    ids = [each for each in {*spoken, only.get(Dimension.KEY, "")} if _is_id(each)]
    keys = AccessKey.objects.filter(pk__in=ids).values_list("pk", "name", "prefix") if ids else ()
    return {str(pk): f"{name} ({prefix}…)" for pk, name, prefix in keys}


def _is_id(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True


def _periods(asked: QueryDict, today: date) -> list[Choice]:
    spans = {
        "7 days": (today - timedelta(days=6), today),
        "30 days": (today - timedelta(days=29), today),
        "This month": (today.replace(day=1), today),
        "Last month": (
            (today.replace(day=1) - timedelta(days=1)).replace(day=1),
            today.replace(day=1) - timedelta(days=1),
        ),
    }
    chosen = (asked.get("since") or str(today - timedelta(days=6)), asked.get("until") or str(today))
    return [
        Choice(label, _address(asked, since=str(first), until=str(last)), chosen == (str(first), str(last)))
        for label, (first, last) in spans.items()
    ]


def _address(asked: QueryDict, *, drop: Sequence[str] = (), **changes: str) -> str:
    """The address of another report: this one with changes."""
    kept = {name: value for name, value in asked.items() if name != "format" and name not in drop}
    return f"{reverse('admin:telemetry_usageday_report')}?{urlencode({**kept, **changes})}"
