"""An operator sees the slow model chosen, throws the switch of call history, and sees the decision flip: with the very
figures, with the signal listed as used, for a call that programs make, and with the record that it leaves. An auditor
sees all of it and has no button."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django import DjangoDbBlocker

from governance.models import AuditEvent
from governance.tab import operations, policy, routed, signals, why
from telemetry.models import Call
from tests.browser.visitor import Visitor, make_user, visiting
from tests.factories import (
    AccessKeyFactory,
    CallFactory,
    ConfigurationFactory,
    IssuedKey,
    LanguageModelFactory,
    ProviderFactory,
)
from tests.servers.simulator import SimulatorServer
from tests.servers.web import WebServer, running_web, wait_until

pytestmark = pytest.mark.browser

QUESTION = "configuration=support-chat&operation=chat"
MEANS = {"thorough": 9_094.0, "swift": 4_259.0}
"""What calls of each model took; the first of them goes first by its place."""


class Bench:
    """A server in which nothing tells two models apart but what calls to them took, and a key of an application."""

    def __init__(self, web: WebServer, secret: str) -> None:
        self.web = web
        self.secret = secret

    def call(self) -> httpx.Response:
        body = {"model": "support-chat", "messages": [{"role": "user", "content": "Where is my parcel?"}]}
        headers = {"authorization": f"Bearer {self.secret}"}
        with httpx.Client(base_url=self.web.url, trust_env=False, timeout=20.0) as client:
            answer = client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer


@pytest.fixture(scope="module")
def bench(browser: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[Bench]:
    with SimulatorServer() as simulator, django_db_blocker.unblock():
        allowed = {"SIGNALBOX_OUTBOUND_ALLOW": simulator.url.removeprefix("http://")}
        with running_web(environ=allowed, start=False) as web:
            with web.records():
                secret = furnish(simulator)
            web.start()  # with the history that is there
            yield Bench(web, secret)


def furnish(simulator: SimulatorServer) -> str:
    provider = ProviderFactory.create(adapter_type="custom", base_url=simulator.base_url("east"), reach="self_hosted")
    for place, (name, mean) in enumerate(MEANS.items()):
        LanguageModelFactory.create(identifier=name, model_id=f"vendor-{name}", provider=provider, sorting=place)
        for index in range(6):
            CallFactory.create(
                started_at=datetime.now(UTC) - timedelta(days=1, minutes=index),
                latency_ms=mean,
                source="earlier",
                **{f"{which}_{part}": value for which in ("first", "served") for part, value in (
                    ("provider", provider.identifier), ("adapter_type", "custom"),
                    ("model", name), ("model_id", f"vendor-{name}"),
                )},
            )  # fmt: skip
    ConfigurationFactory.create(identifier="support-chat", criteria=True, policy_mode="balanced")
    make_user("oscar", group="operator")
    make_user("ada", group="auditor")
    issued: IssuedKey = AccessKeyFactory.create()
    return issued.secret


def chosen(visitor: Visitor) -> str:
    visitor.go(f"{why.PANEL.url}?{QUESTION}")
    return visitor.page.locator(".sb-headline").inner_text()


def latencies(page: Page) -> dict[str, str]:
    """What the measured latency of each candidate is worth, as the page of a decision shows it."""
    found = {}
    for row in page.locator(".sb-decision tbody tr:has(th)").all():
        cell = row.locator("td[data-label='Measured latency'] .sb-strong").inner_text()
        found[row.locator("th").inner_text().split()[0]] = cell
    return found


def test_the_switch_of_call_history(bench: Bench, browser: Browser) -> None:
    with visiting(browser, bench.web, "oscar") as visitor:
        page = visitor.page
        assert chosen(visitor).startswith("prod-east/thorough goes first")
        assert bench.call().headers["x-signalbox-route"] == "prod-east/thorough"
        throw(visitor)
        assert chosen(visitor).startswith("prod-east/swift goes first")
        figures = {"prod-east/swift": "0.594", "prod-east/thorough": "0.406"}
        assert {route: f"{float(value):.3f}" for route, value in latencies(page).items()} == figures
        expect(page.locator("dl", has_text="Signals that moved it")).to_contain_text("Measured latency")
        # Calls go by it within a second.
        wait_until(lambda: bench.call().headers["x-signalbox-route"] == "prod-east/swift")
        call_id = bench.call().headers["x-signalbox-call"]
        with bench.web.records():
            wait_until(lambda: Call.objects.filter(pk=call_id).exists())
            assert AuditEvent.objects.get().record == "routing.callHistory"
        visitor.go(routed.PANEL.url)
        row = page.locator(".sb-routed tbody tr", has=page.locator(f'a[href*="{call_id}"]'))
        expect(row).to_contain_text("moved by")
        expect(row).to_contain_text("Measured latency")
        row.get_by_role("link", name="The decision's record").click()
        page.wait_for_load_state()
        assert {route: f"{float(value):.3f}" for route, value in latencies(page).items()} == figures
        visitor.go(signals.PANEL.url)
        bar = page.locator(".sb-bars tr", has_text="Measured latency")
        assert int(bar.locator("td").first.inner_text()) >= 2
        visitor.go(f"{operations.PANEL.url}?operation=chat")
        expect(page.locator("section", has_text="who would be chosen").first).to_contain_text("prod-east/swift")
        assert visitor.troubles == []
    look_on(bench, browser, call_id)


def throw(visitor: Visitor) -> None:
    """From the list of settings to the switch, which says what it would do, and on."""
    page = visitor.page
    visitor.go(policy.PANEL.url)
    row = page.locator(".sb-policy tbody tr", has_text="routing.callHistory")
    expect(row.locator(".sb-value")).to_have_text("Off")
    row.get_by_role("link", name="Switch on").click()
    expect(page.locator(".sb-headline")).to_contain_text("1 of 1 configuration would send calls to another model")
    expect(page.locator(".sb-switch tbody tr")).to_contain_text(
        re.compile("support-chat.*prod-east/thorough.*prod-east/swift.*Measured latency", re.DOTALL)
    )
    expect(page.locator("#sb-status")).to_have_text("Switch on: routing.callHistory")
    page.fill("#switch-reason", "The slow one keeps people waiting")
    page.get_by_role("button", name="Switch on").click()
    page.wait_for_load_state()
    expect(row.locator(".sb-value")).to_have_text("On")
    expect(page.locator("body")).to_contain_text("routing.callHistory: changed")


def look_on(bench: Bench, browser: Browser, call_id: str) -> None:
    """An auditor sees every panel, the decision, the record of the call, what the switch would do; nothing to press."""
    with visiting(browser, bench.web, "ada") as visitor:
        for panel in (policy, why, signals, operations, routed):
            visitor.go(panel.PANEL.url)
        assert chosen(visitor).startswith("prod-east/swift goes first")
        assert set(latencies(visitor.page).values()) == {"0.5937", "0.4063"}
        visitor.go(f"/admin/telemetry/call/{call_id}/change/")
        assert set(latencies(visitor.page).values()) == {"0.5937", "0.4063"}
        visitor.go(policy.PANEL.url)
        row = visitor.page.locator(".sb-policy tbody tr", has_text="routing.callHistory")
        row.get_by_role("link", name="What if").click()
        expect(visitor.page.locator(".sb-switch")).to_contain_text("Your role may see what would change")
        expect(visitor.page.locator("#content form[method=post], #content button")).to_have_count(0)
        assert visitor.troubles == []


def test_the_switch_works_without_a_script(bench: Bench, browser: Browser) -> None:
    with visiting(browser, bench.web, "oscar") as visitor:
        state = visitor.page.context.storage_state()
    context = browser.new_context(storage_state=state, java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{bench.web.url}{policy.PANEL.url}?setting=routing.policyMode")
    page.get_by_role("link", name="Choose economy").click()
    page.get_by_role("button", name="Set to economy").click()
    page.wait_for_load_state()
    row = page.locator(".sb-policy tbody tr", has_text="routing.policyMode")
    expect(row.locator(".sb-value")).to_have_text("economy")
    context.close()
