"""The Governance tab in a real browser: panels are exchanged without the page moving, the keyboard losing its place, or
a screen reader being left out; and all of it works without a script."""

from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect
from pytest_django import DjangoDbBlocker

from governance.demo.seed import seed
from governance.tab.operations import PANEL as OPERATIONS
from governance.tab.pages import PANELS
from governance.tab.policy import PANEL as POLICY
from governance.tab.routed import PANEL as ROUTED
from governance.tab.signals import PANEL as SIGNALS
from governance.tab.why import PANEL as WHY
from routing.vault import Vault
from tests.browser.visitor import PASSWORD, Visitor, make_user, visiting
from tests.servers.web import WebServer, running_web

pytestmark = pytest.mark.browser

PLACES = "selector => [...document.querySelectorAll(selector)].map(each => each.getBoundingClientRect().top)"
KEPT = "[localStorage, sessionStorage].flatMap(each => Object.keys(each)).filter(key => key.includes('htmx'))"
SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver(list => { for (const each of list.getEntries()) window.shifted += each.value; })
    .observe({type: 'layout-shift', buffered: false});
}"""


@pytest.fixture(scope="module")
def web(browser: Browser, django_db_blocker: DjangoDbBlocker) -> Iterator[WebServer]:
    with django_db_blocker.unblock(), running_web() as web:
        with web.records():
            vault = Vault(settings.SIGNALBOX_ENCRYPTION_KEYS)
            seed(now=timezone.now(), simulator="http://127.0.0.1:9", vault=vault, length=timedelta(days=2))
            make_user("oscar", group="operator")
        yield web


@pytest.fixture(scope="module")
def visitor(browser: Browser, web: WebServer) -> Iterator[Visitor]:
    with visiting(browser, web, "oscar") as visitor:
        yield visitor


def asked(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def test_a_question_is_asked_in_place(visitor: Visitor) -> None:
    """The form is not exchanged, so that whoever goes through it by keyboard keeps their place."""
    page = visitor.page
    visitor.go(f"{WHY.url}?configuration=support-chat&operation=chat")
    headline = page.locator(".sb-headline").inner_text()
    places = page.evaluate(PLACES, ".sb-question select, .sb-question button, #sb-answer")
    page.evaluate(SHIFTS)
    page.evaluate("window.here = document.querySelector('.sb-question')")
    page.focus("#why_mode")
    page.keyboard.press("ArrowDown")
    page.wait_for_function("location.search.includes('mode=providerPriority')")
    expect(page.locator(".sb-badge.sb-is-supposed")).to_be_visible()
    assert page.evaluate("document.activeElement.id") == "why_mode"
    assert page.evaluate("window.here === document.querySelector('.sb-question')"), "the page was not loaded again"
    assert page.evaluate(PLACES, ".sb-question select, .sb-question button, #sb-answer") == places
    assert page.evaluate("window.shifted") == 0
    said = page.locator("#sb-status").inner_text()
    assert said == page.locator(".sb-headline").inner_text()
    assert asked(page) == {"configuration": "support-chat", "operation": "chat", "mode": "providerPriority"}
    page.go_back()
    page.wait_for_function("!location.search.includes('mode')")
    expect(page.locator(".sb-headline")).to_have_text(headline)
    expect(page.locator("#why_mode")).to_have_value("")
    assert page.evaluate(KEPT) == [], "no page is kept where it outlives the log-out"
    assert visitor.troubles == []


def test_an_address_that_was_pushed_is_a_page(visitor: Visitor, browser: Browser) -> None:
    page = visitor.page
    visitor.go(f"{WHY.url}?configuration=support-chat&operation=chat")
    page.select_option("#why_history", "on")
    page.wait_for_function("location.search.includes('history=on')")
    expect(page.locator(".sb-badge.sb-is-supposed")).to_be_visible()
    shown = page.locator("#sb-answer .sb-decision").inner_text()
    page.reload()
    expect(page.locator("#sb-answer .sb-decision")).to_have_text(shown, use_inner_text=True)
    expect(page.locator("#why_history")).to_have_value("on")


def test_tabs_are_exchanged_in_place(visitor: Visitor) -> None:
    page = visitor.page
    for panel in (*PANELS, PANELS[0]):
        visitor.go(PANELS[-1].url if panel is not PANELS[-1] else PANELS[0].url)
        page.evaluate("window.here = document.querySelector('.sb-tabs').closest('main, #main')")
        places = page.evaluate(PLACES, ".sb-tabs a")
        page.focus(f"#tab-{panel.slug}")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{panel.url}*")
        expect(page.locator(".sb-tabs [aria-current]")).to_have_text(panel.title)
        assert page.evaluate("window.here && window.here.isConnected"), "the page was not loaded again"
        assert page.evaluate("document.activeElement.id") == f"tab-{panel.slug}"
        assert page.evaluate(PLACES, ".sb-tabs a") == places
        assert panel.title in page.title()
        assert page.locator("#sb-status").inner_text().strip()
    assert visitor.troubles == []


def test_the_tab_works_without_a_script(web: WebServer, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{web.url}/admin/login/")
    page.fill("[name=username]", "oscar")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    page.wait_for_url("**/admin/")
    page.get_by_role("link", name="Governance", exact=False).first.click()
    for panel in PANELS:
        page.locator(".sb-tabs").get_by_role("link", name=panel.title, exact=True).click()
        page.wait_for_url(f"**{panel.url}")
        expect(page.locator(".sb-tabs [aria-current]")).to_have_text(panel.title)
    page.goto(f"{web.url}{WHY.url}")
    page.select_option("#why_configuration", "support-chat")
    page.select_option("#why_mode", "economy")
    page.get_by_role("button", name="Ask").click()
    assert asked(page)["mode"] == "economy"
    expect(page.locator(".sb-headline")).to_be_visible()
    expect(page.locator(".sb-facts").get_by_text("economy", exact=True)).to_be_visible()
    context.close()


def test_the_keyboard_keeps_its_place_in_panels_of_figures(visitor: Visitor) -> None:
    """A link that stays keeps the focus when what it chose is shown; where it has gone, the new heading has it."""
    page = visitor.page
    for panel, link in ((SIGNALS, "#period-3"), (OPERATIONS, "#operation-4")):
        visitor.go(panel.url)
        page.evaluate("window.here = document.querySelector('.sb-tabs').closest('main, #main')")
        page.focus(link)
        page.keyboard.press("Enter")
        expect(page.locator(f"{link}[aria-current]")).to_be_visible()
        assert page.evaluate("document.activeElement.id") == link.removeprefix("#")
        assert page.evaluate("window.here && window.here.isConnected"), "the page was not loaded again"
    visitor.go(ROUTED.url)
    page.focus("#routed_operation")
    page.select_option("#routed_operation", "tools")
    page.wait_for_function("location.search.includes('operation=tools')")
    assert page.evaluate("document.activeElement.id") == "routed_operation"
    visitor.go(POLICY.url)
    page.get_by_role("link", name="Switch on… routing.callHistory").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#switch")).to_be_focused()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('.sb-switch') !== null"), "the next stop is in the switch"
    assert visitor.troubles == []
