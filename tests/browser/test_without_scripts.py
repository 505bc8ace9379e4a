"""The admin without a script: nothing is hidden, and everything that is a link or a form works."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from routing.models import Configuration
from tests.browser.conftest import Office
from tests.browser.visitor import PASSWORD

pytestmark = pytest.mark.browser


@pytest.fixture
def page(browser: Browser, office: Office) -> Iterator[Page]:
    """Somebody who is logged in and runs no script."""
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(f"{office.web.url}/admin/login/")
    page.fill("[name=username]", "oscar")
    page.fill("[name=password]", PASSWORD)
    page.press("[name=password]", "Enter")
    yield page
    context.close()


def test_a_list_is_filtered(office: Office, page: Page) -> None:
    page.goto(f"{office.web.url}/admin/routing/languagemodel/")
    expect(page.locator("#result_list tbody")).to_have_count(2)
    page.click("#changelist-filter a[href*='service=retired']")
    expect(page.locator("#result_list tbody")).to_have_count(0)


def test_a_form_shows_what_its_selection_reads_and_is_saved(office: Office, page: Page) -> None:
    with office.web.records():
        pk = Configuration.objects.get(identifier="plain-chat").pk
    page.goto(f"{office.web.url}/admin/routing/configuration/{pk}/change/")
    assert page.is_visible("#id_fixed_model")
    assert not page.is_visible("#id_policy_mode")
    page.select_option("#id_selection", "criteria")
    assert page.is_visible("#id_policy_mode")
    page.select_option("#id_policy_mode", "economy")
    page.click("[name=_save]")
    with office.web.records():
        assert Configuration.objects.get(identifier="plain-chat").policy_mode == "economy"


def test_a_phone_has_its_navigation_and_a_way_out(office: Office, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"{office.web.url}/admin/routing/provider/")
    assert page.is_visible("#nav-sidebar a[href='/admin/telemetry/call/']")
    page.click("#logout-form button")
    assert "/admin/logout/" in page.url
