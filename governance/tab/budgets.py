"""*Budgets*: how every budget in force stands in the window of this moment, those closest to their limit first."""

from collections.abc import Container, Sequence
from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from budgets.readouts import Standing, standings
from budgets.scopes import BudgetSpec
from governance.access.budgets import spec_of
from governance.gateway.service import standing_now
from governance.models import Budget
from governance.spelling import spell_cost
from governance.tab.bars import BudgetBar, bar_of, ladder_words
from governance.tab.panels import Content, Panel

MOST_ACCOUNTS = 10
"""Accounts shown of a budget that counts each on its own; its own page has more."""


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget, with its accounts of now: the fullest ones, and how many ``others`` there are. ``ladder`` says what
    its tiers lead to; it is empty without any."""

    identifier: str
    name: str
    url: str
    rule: str
    ladder: str
    is_increased: bool
    bars: Sequence[BudgetBar]
    others: int
    is_exhausted: bool


@dataclass(frozen=True, slots=True)
class BudgetsPanel:
    """The panel. ``add_url`` is empty where whoever looks may not make a budget."""

    budgets: Sequence[BudgetRow]
    heading: str
    add_url: str


def answer(request: HttpRequest) -> Content:
    """How budgets stand: a handful of queries, however many budgets and accounts there are."""
    now = timezone.now()
    rows = {
        row.identifier: row for row in Budget.objects.filter(is_active=True, retired_at=None).prefetch_related("tiers")
    }
    specs = [spec_of(row) for row in rows.values()]
    found = standings(specs, now=now)
    in_service: Container[str] = ()
    if any(spec.tiers for spec in specs):
        in_service = standing_now().snapshot.catalogue.by_identifier
    shown = [
        _row(rows[spec.identifier], spec, found[spec.identifier], limit=spec.limit_at(now), in_service=in_service)
        for spec in sorted(specs, key=lambda each: _closeness(found[each.identifier]))
    ]
    exhausted = sum(row.is_exhausted for row in shown)
    heading = "No budget is in force"
    if shown:
        heading = f"{len(shown)} budget{'' if len(shown) == 1 else 's'} in force" + (
            f", {exhausted} with nothing left" if exhausted else ""
        )
    may_add = request.user.has_perm("governance.add_budget")
    panel = BudgetsPanel(shown, heading, reverse("admin:governance_budget_add") if may_add else "")
    return Content(panel, f"{heading}.")


def _row(
    row: Budget, spec: BudgetSpec, found: Sequence[Standing], *, limit: int, in_service: Container[str]
) -> BudgetRow:
    kind, window = "hard" if spec.is_hard else "soft", row.get_window_display().split(",")[0].lower()
    return BudgetRow(
        identifier=spec.identifier,
        name=row.name,
        url=reverse("admin:governance_budget_change", args=[row.pk]),
        rule=f"{spec.scope}: {spell_cost(limit, spec.currency)}, {window}, {kind}",
        ladder=ladder_words(spec, in_service=in_service),
        is_increased=limit != spec.limit,
        bars=[bar_of(each, spec) for each in found[:MOST_ACCOUNTS]],
        others=max(0, len(found) - MOST_ACCOUNTS),
        is_exhausted=any(each.left <= 0 for each in found),
    )


def _closeness(found: Sequence[Standing]) -> float:
    """What is left of the fullest account, as a share of its limit; of a budget that nobody has used, everything."""
    shares = [each.left / each.limit if each.limit else 0.0 for each in found]
    return min(shares, default=1.0)


PANEL = Panel(
    slug="budgets",
    title="Budgets",
    template="governance/_budgets.html",
    permissions=("governance.view_budget", "budgets.view_account"),
    answer=answer,
)
