"""Every page of the admin in a real browser: no violation of WCAG A or AA, light, dark and on a phone; nothing asked of
another host; no error in the console; and a keyboard that gets everywhere and is seen where it is."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib import admin
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page
from pytest_django import DjangoDbBlocker

from budgets.crossings import Crossings, look
from budgets.ledger import settle
from budgets.scopes import Scope
from governance.access.budgets import spec_of
from governance.alerts import outbox
from governance.changes.records import save_record
from governance.changes.webhooks import save_webhook
from governance.demo.seed import seed
from governance.models import (
    AccessKey,
    AlertDelivery,
    Application,
    AuditEvent,
    Batch,
    Budget,
    BudgetTier,
    Submission,
    Webhook,
)
from governance.questions import Question
from governance.submissions.claims import Ending, end
from governance.submissions.intake import submit_batch
from governance.tab import operations, policy, routed, why
from governance.tab.addresses import address_of
from governance.tab.pages import PANELS
from routing.core.failures import Failure, FailureKind
from routing.core.money import Money
from routing.core.policy import PolicyMode
from routing.core.vocabulary import Operation
from routing.models import Configuration, LanguageModel, Price, Provider
from routing.vault import Vault
from tests.authors import SOMEBODY
from tests.browser.visitor import Visitor, make_user, visiting
from tests.budgets.claims import ONE, claim, hold, key_of
from tests.governance.admin.test_pages import NOT_ADDED, address
from tests.governance.alerts.rows import SECRET, crossing
from tests.governance.submissions import orders
from tests.servers.web import running_web

pytestmark = pytest.mark.browser

COLOURS = "color-contrast"
PHONE = 390
TALL = 3000  # no bar at the lower edge lies over what is judged
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
RENAMED = "Another name"
SWITCHES = (
    "setting=routing.callHistory&value=true",
    "setting=routing.policyMode",
    "setting=routing.currency",
    "setting=routing.currency&value=usd",
    "setting=unheard.of",
)
REGISTERED = {model._meta.label: model for model in admin.site._registry}


@dataclass
class Seeded:
    """The admin over a demo's records, and the address of every page."""

    visitor: Visitor
    paths: list[str]


@pytest.fixture(scope="module")
def seeded(browser: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[Seeded]:
    """A superuser, who has every page an operator has, and those of log-ins besides."""
    with django_db_blocker.unblock(), running_web() as web:  # a database of its own
        with web.records():
            vault = Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
            seed(now=timezone.now(), simulator="http://127.0.0.1:9", vault=vault, length=timedelta(days=2))
            rename(LanguageModel.objects.all()[0])
            hand_in()
            spend()
            alert(vault)
            make_user("olivia", superuser=True)
            make_user("oscar", group="operator")
            paths = list(pages())
        with visiting(browser, web, "olivia") as visitor:
            yield Seeded(visitor, paths)


def rename(model: LanguageModel) -> None:
    """Give a model another name and a price to come, so that there is something to go back to."""
    model.name = RENAMED
    soon = timezone.now() + timedelta(days=30)
    price = Price(model=model, valid_from=soon, input_rate=2_000_000_000, output_rate=8_000_000_000)
    save_record(model, author=SOMEBODY, parts=[price], reason="The price list of next month.")


def hand_in() -> None:
    """A batch with a call in each of several states, and a call that waits."""
    batch = submit_batch([orders.order() for _ in range(5)], caller=orders.HELPDESK)
    first, second, third, *_ = Submission.objects.filter(batch=batch).order_by("position").values_list("pk", flat=True)
    end(orders.taken_up(first), Ending(answer=b"{}", failure=None), now=timezone.now())
    failure = Failure(FailureKind.RATE_LIMITED, "slow down", code="rate_limit_exceeded")
    end(orders.taken_up(second), Ending(answer=None, failure=failure), now=timezone.now())
    orders.taken_up(third, worker="signalbox-worker-7.internal.example:4711")
    orders.handed_in()


def spend() -> None:
    """A budget of which half is spent, past a step of its ladder, with an attempt under way, one that nobody knows the
    end of, and an overrun."""
    now = timezone.now()
    team = Application.objects.all()[0].identifier
    budget = Budget(identifier="team-month", application=team, currency="USD", limit=10 * ONE, zone="Europe/Berlin")
    budget.alert_thresholds, budget.enforce_targets = [25, 90], True
    models = LanguageModel.objects.order_by("identifier").values_list("identifier", flat=True)[:3]
    ladder = [
        BudgetTier(budget=budget, threshold=threshold, model=model, position=position)
        for position, (threshold, model) in enumerate(zip((50, 50, 90), models, strict=True))
    ]
    save_record(budget, author=SOMEBODY, parts=ladder)
    account = key_of(Scope(application=team), moment=now)
    for cost in (2 * ONE, 3 * ONE):  # the second one is above its bound
        settle(attempt=hold(claim(account, amount=2 * ONE), now=now), cost=Money(cost, "USD"), now=now)
    settle(attempt=hold(claim(account), now=now), cost=None, now=now)
    hold(claim(account), now=now)
    look([spec_of(budget)], Crossings(), now=now)


def alert(vault: Vault) -> None:
    """A webhook that was told of what `spend` has crossed: once it heard, and otherwise it refused for good."""
    pager = Webhook(identifier="pager", name="Who is on duty", url="https://alerts.example.com/signalbox")
    save_webhook(pager, author=SOMEBODY, vault=vault, secret=SECRET)
    now = timezone.now()
    for threshold in (70, 80, None):
        crossing("team-month", threshold=threshold, key=key_of(Scope(application="helpdesk")), at=now)
    outbox.fill(now=now)
    for number, delivery in enumerate(outbox.due(now=now)):
        claimed = outbox.claim(delivery, now=now)
        assert claimed is not None
        gone = outbox.Outcome(status=410, error="pager answered with status 410", is_final=True)
        outbox.mark(claimed, gone if number else outbox.Outcome(status=204), now=now)
    assert {each.state for each in AlertDelivery.objects.all()} == {"delivered", "failed"}


def pages() -> Iterator[str]:
    """The address of every page that there is something on."""
    yield from (f"{reverse('admin:index')}?period={period}" for period in ("24h", "30d"))
    yield reverse("admin:password_change")
    yield reverse("admin:app_list", args=["routing"])
    for label, model in REGISTERED.items():
        yield address(label, "changelist")
        if label not in NOT_ADDED:
            yield address(label, "add")
        row = model._default_manager.order_by("-pk").first()
        if label == "governance.SettingValue":
            yield address(label, "change", "routing.policyMode")
            yield address(label, "change", "gateway.maxBodyBytes")
        elif row is not None:
            yield address(label, "change", row.pk)
        if row is not None and label in ("routing.Provider", "auth.User"):
            yield address(label, "history", row.pk)
    yield reverse("admin:governance_auditevent_verify")
    yield reverse("admin:routing_languagemodel_price_lists")
    yield reverse("admin:telemetry_usageday_report")
    yield f"{reverse('admin:telemetry_usageday_report')}?by=model&zone=nowhere"
    yield from (panel.url for panel in PANELS)
    yield address_of(Question("support-chat", Operation.CHAT, PolicyMode.ECONOMY, history=True))
    yield f"{why.PANEL.url}?configuration=nowhere&mode=haste"
    yield from (f"{policy.PANEL.url}?{asked}" for asked in SWITCHES)
    yield from (f"{panel.PANEL.url}?operation=embed" for panel in (operations, routed))
    for kind in ("model", "setting"):  # the one that `rename` changed, and one that is as it was
        record = AuditEvent.objects.filter(kind=kind)[0].record
        event = AuditEvent.objects.filter(kind=kind, record=record).order_by("number")[0]
        yield reverse("admin:governance_auditevent_restore", args=[event.pk])
    yield address("routing.LanguageModel", "history", LanguageModel.objects.get(name=RENAMED).pk)
    for record, name in (
        (Provider, "routing_provider_try"),
        (LanguageModel, "routing_languagemodel_try"),
        (Configuration, "routing_configuration_try"),
        (AccessKey, "governance_accesskey_rotate"),
        (Batch, "governance_batch_cancel"),
        (Submission, "governance_submission_cancel"),
    ):
        yield reverse(f"admin:{name}", args=[record._default_manager.order_by("pk")[0].pk])


SETTLED = """async () => {
  const nextFrame = () => new Promise(requestAnimationFrame);
  await nextFrame();
  await nextFrame();
  const isFinite = each => each.effect && each.effect.getComputedTiming().endTime !== Infinity;
  document.getAnimations().filter(isFinite).forEach(each => each.finish());
}"""
"""Brings every transition to its end: a colour on its way to another is judged as if it stayed."""


def violations(page: Page, *, only: str = "", without: str = "") -> list[str]:
    """What axe, which `prepare` has put into the page, objects to."""
    options: dict[str, Any] = {
        "runOnly": {"type": "rule", "values": [only]} if only else {"type": "tag", "values": WCAG},
        "rules": {without: {"enabled": False}} if without else {},
        "resultTypes": ["violations", "incomplete"],
    }
    page.evaluate(SETTLED)
    found = page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{each['id']} ({len(each['nodes'])}): {each['nodes'][0]['target']} {each['nodes'][0]['html'][:160]}"
        for each in found["violations"]
    ] + [
        f"invisible: {node['html'][:160]}" for each in found["incomplete"] for node in each["nodes"] if invisible(node)
    ]


def invisible(node: dict[str, Any]) -> bool:
    """Whether a text has the colour of what is behind it, which axe does not call a violation."""
    return any((check.get("data") or {}).get("messageKey") == "equalRatio" for check in node["any"])


SIDEWAYS = """() => [...document.querySelectorAll('main *, #content *')]
  .filter(each => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0
    && ['auto', 'scroll'].includes(getComputedStyle(each).overflowX))
  .map(each => `${each.tagName} ${each.className} is ${each.scrollWidth} wide in ${each.clientWidth}`)"""


UNREACHED = """() => {
  const stops = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])";
  const isSeen = each => each.getClientRects().length > 0;
  const isClicked = each => getComputedStyle(each).cursor === 'pointer'
    && !(each.parentElement && getComputedStyle(each.parentElement).cursor === 'pointer');
  return [...document.querySelectorAll('body *')]
    .filter(each => isSeen(each) && isClicked(each) && !each.matches(stops) && !each.parentElement.closest(stops)
      && ![...each.querySelectorAll(stops)].some(isSeen) && !(each.control && isSeen(each.control)))
    .map(each => `${each.tagName} ${each.innerText.slice(0, 40)} ${each.className}`);
}"""


def prepare(page: Page) -> None:
    """Put axe into the page."""
    page.evaluate(Axe().axe_script)


def test_every_page_is_for_everybody(seeded: Seeded) -> None:
    """Each page is opened once: looked at in light, in dark, where only colours differ, and on a phone, where they do
    not."""
    visitor, found = seeded.visitor, {}
    assert len(seeded.paths) > 40
    for path in seeded.paths:
        visitor.page.set_viewport_size({"width": 1280, "height": TALL})
        visitor.go(path)
        prepare(visitor.page)
        seen = [f"light: {each}" for each in violations(visitor.page)]
        seen += [f"sideways: {each}" for each in visitor.page.evaluate(SIDEWAYS)]
        seen += [f"out of the keyboard's reach: {each}" for each in visitor.page.evaluate(UNREACHED)]
        visitor.page.evaluate("document.documentElement.classList.add('dark')")
        visitor.page.wait_for_timeout(30)
        seen += [f"dark: {each}" for each in violations(visitor.page, only=COLOURS)]
        visitor.page.evaluate("document.documentElement.classList.remove('dark')")
        visitor.page.set_viewport_size({"width": PHONE, "height": TALL})
        visitor.page.wait_for_timeout(30)
        seen += [f"phone: {each}" for each in violations(visitor.page, without=COLOURS)]
        wide = visitor.page.evaluate("document.documentElement.scrollWidth")
        seen += [f"phone: the page is {wide} wide"] if wide > PHONE else []
        if seen:
            found[path] = seen
    assert not found, "\n".join(f"{path}\n  " + "\n  ".join(seen) for path, seen in found.items())
    assert visitor.troubles == []


def test_the_log_in_is_for_everybody(seeded: Seeded, browser: Browser) -> None:
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme="light" if scheme == "light" else "dark")
        page = context.new_page()
        page.goto(f"{seeded.visitor.url}/admin/login/")
        prepare(page)
        assert violations(page) == []
        context.close()


def test_dark_is_what_the_machine_says(seeded: Seeded, browser: Browser) -> None:
    context = browser.new_context(color_scheme="dark", storage_state=seeded.visitor.page.context.storage_state())
    page = context.new_page()
    page.goto(f"{seeded.visitor.url}/admin/")
    page.wait_for_selector("html.dark")
    context.close()
