"""The admin by keyboard alone: no mouse is touched in this module, and the keyboard is seen wherever it is."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from governance.models import AccessKey
from routing.models import Configuration, LanguageModel, Provider
from tests.browser.conftest import Office

pytestmark = pytest.mark.browser

STOP = """() => {
  const active = document.activeElement;
  const box = active.getBoundingClientRect();
  const isMarked = each => {
    const style = getComputedStyle(each);
    return (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  };
  const words = active.getAttribute('aria-label') || active.innerText || active.name || '';
  return {
    words: `${active.tagName} ${words.slice(0, 40)}`,
    isThere: box.width > 0 && box.height > 0 && active !== document.body,
    isFirst: active.matches('.sb-skip'),
    isVisible: [active, active.parentElement, ...(active.labels || [])].some(isMarked),
    isInContent: active.closest('#content') !== null,
    top: box.top + window.scrollY,
  };
}"""


def go(office: Office, path: str, *, width: int = 1280) -> Page:
    office.visitor.page.set_viewport_size({"width": width, "height": 900})
    office.visitor.go(path)
    office.visitor.page.wait_for_timeout(100)  # until what opens by a click has been made a stop
    return office.visitor.page


def tab_to(page: Page, selector: str, *, key: str = "Tab", most: int = 150) -> None:
    """Press Tab until an element is reached."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached: the keyboard is at {page.evaluate(STOP)['words']}")


def focused(page: Page) -> str:
    words: str = page.evaluate(STOP)["words"]
    return words


def pk_of(office: Office, record: Any, identifier: str) -> int:
    with office.web.records():
        pk: int = record.objects.get(identifier=identifier).pk
    return pk


def page_of(office: Office, record: Any, identifier: str) -> str:
    options = record._meta
    return f"/admin/{options.app_label}/{options.model_name}/{pk_of(office, record, identifier)}/change/"


# --- Getting about --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/admin/", "/admin/routing/provider/", "/admin/governance/settingvalue/"])
def test_a_keyboard_gets_past_the_sidebar(path: str, office: Office) -> None:
    page = go(office, path)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "sb-skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(STOP)["isInContent"], "the next stop is in the content"


def test_the_navigation_of_a_phone_is_opened_walked_and_left(office: Office) -> None:
    page = go(office, "/admin/routing/provider/", width=390)
    tab_to(page, "[aria-label='Navigation']")
    expect(page.locator("#nav-sidebar")).not_to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.closest('#nav-sidebar') !== null")
    assert page.locator("[aria-label='Navigation']:visible").get_attribute("aria-expanded") == "true"
    page.keyboard.press("Escape")
    page.wait_for_function("document.activeElement.getAttribute('aria-label') === 'Navigation'")
    expect(page.locator("#nav-sidebar")).not_to_be_visible()
    page.keyboard.press("Space")
    tab_to(page, "#nav-sidebar a[href='/admin/telemetry/call/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/telemetry/call/")


def test_the_navigation_of_a_wide_window_is_folded_away(office: Office) -> None:
    page = go(office, "/admin/routing/provider/")
    tab_to(page, "[aria-label='Navigation']")
    for is_shown in (False, True):
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[aria-label='Navigation'][aria-expanded={str(is_shown).lower()}]")
        expect(page.locator("#nav-sidebar")).to_be_visible(visible=is_shown)
        assert focused(page) == "SPAN Navigation"


def test_the_account_is_opened_and_closed_by_going_on(office: Office) -> None:
    page = go(office, "/admin/")
    account = "[aria-label='Account of oscar']"
    tab_to(page, account)
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.innerText.includes('Light')")
    tab_to(page, "#logout-form button")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{account}[aria-expanded=false]")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"{account}[aria-expanded=true]")
    tab_to(page, "#main *")
    page.wait_for_selector(f"{account}[aria-expanded=false]")


def test_dark_is_chosen(office: Office) -> None:
    page, account = go(office, "/admin/"), "[aria-label='Account of oscar']"
    for choice, is_dark in (("Dark", True), ("System", False)):
        tab_to(page, account)
        page.keyboard.press("Enter")
        page.wait_for_function("document.activeElement.innerText.includes('Light')")
        while choice not in focused(page):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.locator("html.dark")).to_have_count(int(is_dark))
        page.keyboard.press("Escape")
        page.locator(f":has(> {account}) nav").wait_for(state="hidden")  # while it fades, opening closes it again


# --- Setting things up ----------------------------------------------------------------------------------------------


def test_a_provider_is_filled_in_and_saved(office: Office) -> None:
    page = go(office, "/admin/routing/provider/add/")
    tab_to(page, "#id_name")
    page.keyboard.type("Production, west")
    tab_to(page, "#id_identifier")
    assert page.input_value("#id_identifier") == "production-west"
    tab_to(page, "#id_is_active")
    page.keyboard.press("Space")
    assert not page.is_checked("#id_is_active")
    tab_to(page, "#id_adapter_type")
    page.keyboard.type("Any OpenAI")
    tab_to(page, "#id_base_url")
    page.keyboard.type("https://west.example.com/v1")
    tab_to(page, "#id_api_key")
    page.keyboard.type("sk-typed-0123456789")
    tab_to(page, "#id_reason")
    page.keyboard.type("Typed.")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/routing/provider/")
    assert "was added successfully" in page.inner_text("body")
    with office.web.records():
        provider = Provider.objects.get(identifier="production-west")
    assert (provider.adapter_type, provider.is_active, provider.key_hint) == ("custom", False, "6789")


def test_what_is_wrong_is_where_the_keyboard_comes_to(office: Office) -> None:
    page = go(office, "/admin/routing/provider/add/")
    tab_to(page, "[name=_save]")
    page.keyboard.press("Enter")
    page.wait_for_selector(".errorlist")
    tab_to(page, "#id_identifier")
    assert page.evaluate("document.activeElement.getAttribute('aria-invalid')") == "true"


def test_a_list_is_put_in_another_order_without_dragging(office: Office) -> None:
    page = go(office, page_of(office, Configuration, "support-chat"))
    for row, position in ((0, "5"), (1, "2")):
        tab_to(page, f"#id_listed_models-{row}-position")
        page.keyboard.press("Control+A")
        page.keyboard.type(position)
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/routing/configuration/")
    with office.web.records():
        places = Configuration.objects.get(identifier="support-chat").listed_models.order_by("position")
        assert [place.model.identifier for place in places] == ["wise", "fast"]


def test_rows_are_added_and_taken_away(office: Office) -> None:
    page = go(office, page_of(office, Configuration, "plain-chat"))
    tab_to(page, "#fallback_links-group .add-row")
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.id === 'id_fallback_links-2-fallback'")
    tab_to(page, "#fallback_links-group [aria-label='Remove this row']")
    page.keyboard.press("Space")
    page.wait_for_function("document.activeElement.matches('#fallback_links-group .add-row')")
    expect(page.locator("#fallback_links-group .form-group:not(.empty-form)")).to_have_count(2)

    page = go(office, page_of(office, Configuration, "support-chat"))
    tab_to(page, "#id_fallback_links-0-DELETE")
    assert page.evaluate("getComputedStyle(document.activeElement.closest('label')).outlineStyle") == "solid"
    for is_marked in (True, False, True):
        page.keyboard.press("Space")
        expect(page.locator("#id_fallback_links-0-DELETE")).to_be_checked(checked=is_marked)
        expect(page.locator("#fallback_links-group .form-delete").first).to_be_visible(visible=is_marked)
    tab_to(page, "[name=_save]")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/routing/configuration/")
    with office.web.records():
        assert not Configuration.objects.get(identifier="support-chat").fallback_links.exists()


def test_a_selection_is_chosen_and_its_fields_are_the_next_stops(office: Office) -> None:
    page = go(office, "/admin/routing/configuration/add/")
    tab_to(page, "#id_selection")
    page.keyboard.type("One fixed")
    tab_to(page, "#id_fixed_model", most=3)
    page.keyboard.type("wise")
    assert page.evaluate("document.activeElement.selectedOptions[0].innerText") == "wise"


# --- Lists ----------------------------------------------------------------------------------------------------------


def test_a_list_is_filtered(office: Office) -> None:
    page = go(office, "/admin/routing/languagemodel/")
    filters = "[aria-expanded][x-on\\:click='filterOpen = true']"
    tab_to(page, filters)
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.closest('#changelist-filter') !== null")
    page.keyboard.press("Escape")
    page.wait_for_selector(f"{filters}[aria-expanded=false]")
    assert page.evaluate("selector => document.activeElement.matches(selector)", filters)
    page.keyboard.press("Enter")
    tab_to(page, "#changelist-filter a[href*='service=retired']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?*service=retired*")
    expect(page.locator("#result_list tbody")).to_have_count(0)


def test_a_list_is_searched_and_sorted(office: Office) -> None:
    page = go(office, "/admin/routing/languagemodel/")
    tab_to(page, "#searchbar")
    page.keyboard.type("wis")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?q=wis*")
    expect(page.locator("#result_list tbody")).to_have_count(1)
    tab_to(page, "th.column-at_provider a")
    page.keyboard.press("Enter")
    page.wait_for_url("**o=*")
    tab_to(page, "#result_list th a[href*='/change/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/change/*")


def test_a_key_is_revoked_after_a_question(office: Office) -> None:
    page = go(office, "/admin/governance/accesskey/")
    tab_to(page, "input.action-select")
    page.keyboard.press("Space")
    tab_to(page, "select[name=action]", key="Shift+Tab")
    page.keyboard.type("Revoke")
    tab_to(page, "#changelist-actions button", most=3)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Revoke keys for good?")
    tab_to(page, "#content .sb-is-plain")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Revoked: Ticket robot")
    with office.web.records():
        assert AccessKey.objects.get().revoked_at is not None


def test_a_revision_is_gone_back_to(office: Office) -> None:
    page = go(office, page_of(office, LanguageModel, "wise"))
    tab_to(page, "#id_name")
    page.keyboard.press("Control+A")
    page.keyboard.type("Wise and slow")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/routing/languagemodel/")
    page = go(office, page_of(office, LanguageModel, "wise"))
    tab_to(page, "#id_name")
    page.keyboard.press("Control+A")
    page.keyboard.type("Wise")
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/routing/languagemodel/")
    page = go(office, page_of(office, LanguageModel, "wise"))
    tab_to(page, "a[href$='/history/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/history/*")
    tab_to(page, "a[href$='/restore/']")
    page.keyboard.press("Enter")
    page.wait_for_url("**/restore/")
    tab_to(page, "#id_reason")
    page.keyboard.press("Enter")
    page.wait_for_url("**/change/")
    assert page.input_value("#id_name") == "Wise and slow"


# --- Where it is ----------------------------------------------------------------------------------------------------

SEEN_ON = [
    "/admin/",
    "/admin/routing/provider/",
    "/admin/routing/provider/add/",
    "/admin/routing/languagemodel/add/",
    "/admin/routing/configuration/add/",
    "/admin/governance/application/add/",
    "/admin/governance/accesskey/add/",
    "/admin/governance/settingvalue/routing.policyMode/change/",
    "/admin/governance/auditevent/",
    "/admin/governance/auditevent/verify/",
    "/admin/telemetry/call/",
    "/admin/password_change/",
]


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("path", SEEN_ON)
def test_it_is_seen_and_goes_down_the_page(path: str, width: int, office: Office) -> None:
    page = go(office, path, width=width)
    unseen, upwards, lowest = [], [], 0.0
    for number in range(120):
        page.keyboard.press("Tab")
        stop = page.evaluate(STOP)
        if not stop["isThere"] or (number and stop["isFirst"]):
            break  # the browser's own, or round again
        if not stop["isVisible"]:
            unseen.append(stop["words"])
        if stop["isInContent"]:
            if stop["top"] < lowest - 60:  # things beside each other are not in one line to the pixel
                upwards.append(f"{stop['words']} at {stop['top']:.0f} after {lowest:.0f}")
            lowest = max(lowest, stop["top"])
    assert (unseen, upwards) == ([], [])


def test_nothing_went_wrong_on_the_way(office: Office) -> None:
    assert office.visitor.troubles == []
