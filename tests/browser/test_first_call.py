"""From an empty installation to the first call: an operator, a browser, the steps that the overview shows, and less
than two minutes. Everything that was changed on the way is in the audit trail."""

import re
import time

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect
from pytest_django import DjangoDbBlocker

from governance.audit.trail import verify
from governance.models import AuditEvent
from telemetry.models import Call
from tests.browser.visitor import Visitor, make_user, visiting
from tests.servers.simulator import SimulatorServer
from tests.servers.web import running_web, wait_until

pytestmark = pytest.mark.browser

SECONDS = 120.0
UPSTREAM_KEY = "sk-of-the-simulated-provider"


def fill(page: Page, **values: str) -> None:
    for name, value in values.items():
        page.fill(f"[name={name}]", value)
        page.press(f"[name={name}]", "Tab")  # a name that was left suggests an identifier


def take(visitor: Visitor, step: str, button: str) -> Page:
    """From the overview into the form of the next step."""
    visitor.go("/admin/")
    following = visitor.page.locator(".sb-steps > .sb-is-next")
    assert step in following.inner_text()
    following.get_by_role("link", name=button).click()
    visitor.page.wait_for_load_state()
    return visitor.page


def save(page: Page) -> None:
    page.click("[name=_save]")
    page.wait_for_load_state()
    assert page.locator(".errornote, .errorlist").count() == 0, page.inner_text("#content")


def issue_key(visitor: Visitor) -> str:
    """The key, which is on the page that answers the form and on no other."""
    page = take(visitor, "Issue a key", "Issue a key")
    page.select_option("select[name=application]", index=1)
    fill(page, name="Ticket robot")
    save(page)
    shown = re.search(r"sb-[A-Za-z0-9_-]{43}", page.inner_text("body"))
    assert shown is not None
    visitor.go("/admin/governance/accesskey/")
    assert shown[0] not in page.content()
    return shown[0]


def test_an_operator_gets_to_a_first_call_in_the_browser_alone(
    browser: Browser, django_db_blocker: DjangoDbBlocker
) -> None:
    with SimulatorServer(key=UPSTREAM_KEY) as upstream:
        allowed = {"SIGNALBOX_OUTBOUND_ALLOW": upstream.url.removeprefix("http://")}
        with django_db_blocker.unblock(), running_web(environ=allowed) as web:
            with web.records():
                make_user("oscar", group="operator")
            began = time.monotonic()
            with visiting(browser, web, "oscar") as visitor:
                set_up(visitor, base_url=upstream.base_url("atlas"))
                key = issue_key(visitor)
                visitor.go("/admin/")
                assert "Make the first call" in visitor.page.locator(".sb-steps > .sb-is-next").inner_text()
                call(web.url, key)
                with web.records():
                    wait_until(Call.objects.exists)
                visitor.go("/admin/")
                expect(visitor.page.locator(".sb-steps")).to_have_count(0)
                expect(visitor.page.locator(".sb-tile", has_text="Requests").locator(".sb-figure")).to_have_text("1")
                assert visitor.troubles == []
            assert time.monotonic() - began < SECONDS
            with web.records():
                assert_recorded()


def set_up(visitor: Visitor, *, base_url: str) -> None:
    page = take(visitor, "Connect a provider", "Add a provider")
    page.select_option("select[name=adapter_type]", value="openai")
    fill(page, name="Atlas", identifier="prod-east", base_url=base_url, api_key=UPSTREAM_KEY)
    save(page)
    page = take(visitor, "Add a model", "Add a model")
    page.select_option("select[name=provider]", index=1)
    fill(page, name="Fast and small", identifier="fast", model_id="gpt-x-mini")
    page.check("[name=capabilities][value=chat]")
    page.fill("[name=prices-0-input_rate]", "2.50")
    page.fill("[name=prices-0-output_rate]", "10")
    save(page)
    page = take(visitor, "Make a configuration", "Make a configuration")
    fill(page, name="Chat for support", identifier="support-chat")
    page.select_option("select[name=selection]", value="fixed")
    page.select_option("select[name=fixed_model]", index=1)
    save(page)
    page = take(visitor, "Issue a key", "Add an application")
    fill(page, name="The help desk", identifier="helpdesk")
    save(page)


def call(url: str, key: str) -> None:
    """Ask; a change is in force half a second after it was saved."""
    body = {"model": "support-chat", "messages": [{"role": "user", "content": "Where is my parcel?"}]}
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=url, trust_env=False, timeout=20.0) as client:
        wait_until(lambda: client.get("/v1/models", headers=headers).is_success)
        answer = client.post("/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-signalbox-route"] == "prod-east/fast"
    assert "x-signalbox-cost" in answer.headers


def assert_recorded() -> None:
    told = list(AuditEvent.objects.order_by("number").values_list("kind", "action", "author", "channel"))
    assert told == [
        ("provider", "created", "oscar", "admin"),
        ("model", "created", "oscar", "admin"),
        ("configuration", "created", "oscar", "admin"),
        ("application", "created", "oscar", "admin"),
        ("key", "issued", "oscar", "admin"),
    ]
    assert not verify().flaws
    served = Call.objects.get()
    assert (served.application, served.served_provider, served.success) == ("helpdesk", "prod-east", True)
    assert served.actual_cost_nanos
