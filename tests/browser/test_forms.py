"""Forms in a real browser: what is shown of several ways to fill one in, and whether what is wrong is for everybody."""

import pytest
from playwright.sync_api import Page

from routing.core.vocabulary import Selection
from routing.models import SELECTIONS, Configuration
from tests.browser.conftest import Office
from tests.browser.test_pages import COLOURS, prepare, violations

pytestmark = pytest.mark.browser

FIELDS = {
    Selection.FIXED: ("#id_fixed_model",),
    Selection.LISTED: ("#id_listed_order", "#id_listed_models-0-model", "#listed_models-heading"),
    Selection.CRITERIA: ("#id_policy_mode", "#id_capabilities_0", "#id_min_context_length", "#id_max_input_rate"),
}
ALWAYS = ("#id_name", "#id_plan_limit", "#id_fallback_links-0-fallback", "#id_reason")


def form(office: Office, identifier: str) -> Page:
    with office.web.records():
        pk = Configuration.objects.get(identifier=identifier).pk
    office.visitor.page.set_viewport_size({"width": 1280, "height": 900})
    office.visitor.go(f"/admin/routing/configuration/{pk}/change/")
    return office.visitor.page


def shown(page: Page) -> set[Selection]:
    """The selections whose fields are seen; of none are some seen and others not."""
    seen = {each: {page.locator(field).is_visible() for field in fields} for each, fields in FIELDS.items()}
    assert all(len(each) == 1 for each in seen.values()), seen
    return {each for each, (is_visible,) in seen.items() if is_visible}


def test_the_form_shows_what_the_chosen_selection_reads(office: Office) -> None:
    assert set(FIELDS) == set(SELECTIONS)
    page = form(office, "support-chat")
    assert shown(page) == {Selection.LISTED}
    for selection in SELECTIONS:
        page.select_option("#id_selection", selection.value)
        assert shown(page) == {selection}
        assert all(page.locator(field).is_visible() for field in ALWAYS)


def test_what_is_wrong_is_shown_whatever_is_chosen(office: Office) -> None:
    page = form(office, "plain-chat")
    page.select_option("#id_selection", "criteria")
    page.fill("#id_max_input_rate", "cheap")
    page.select_option("#id_selection", "fixed")
    assert shown(page) == {Selection.FIXED}
    page.click("[name=_save]")
    page.wait_for_load_state()
    assert "Write a price per million tokens" in page.inner_text(".sb-of-criteria")
    assert shown(page) == {Selection.FIXED, Selection.CRITERIA}


def test_what_is_not_shown_is_kept(office: Office) -> None:
    page = form(office, "support-chat")
    page.select_option("#id_selection", "criteria")
    page.click("[name=_continue]")
    page.wait_for_load_state()
    page.select_option("#id_selection", "listed")
    assert page.input_value("#id_listed_models-1-model") != ""
    page.click("[name=_save]")
    page.wait_for_load_state()
    with office.web.records():
        listed = Configuration.objects.get(identifier="support-chat").listed_models.all()
        assert [place.model.identifier for place in listed] == ["fast", "wise"]


def test_a_key_is_asked_for_a_list_where_not_everything_is_allowed(office: Office) -> None:
    office.visitor.go("/admin/governance/accesskey/add/")
    page = office.visitor.page
    for every, allowed in (
        ("#id_every_configuration", "#id_allowed_configurations_0"),
        ("#id_every_model", "#id_allowed_models_0"),
    ):
        assert not page.is_visible(allowed)
        page.uncheck(every)
        assert page.is_visible(allowed)
        page.check(allowed)
        page.check(every)
        assert page.is_visible(allowed), "both cannot be: what is ticked stays to be seen"


def judge(page: Page) -> list[str]:
    """What axe objects to in light and in dark."""
    prepare(page)
    seen = violations(page)
    page.evaluate("document.documentElement.classList.add('dark')")
    page.wait_for_timeout(200)
    seen += [f"dark: {each}" for each in violations(page, only=COLOURS)]
    page.evaluate("document.documentElement.classList.remove('dark')")
    return seen


@pytest.mark.parametrize(
    "path",
    [
        "routing/provider/add/",
        "routing/languagemodel/add/",
        "routing/configuration/add/",
        "routing/evaluationresult/add/",
        "governance/application/add/",
        "governance/accesskey/add/",
    ],
)
def test_what_is_wrong_is_for_everybody(path: str, office: Office) -> None:
    office.visitor.go(f"/admin/{path}")
    page = office.visitor.page
    page.set_viewport_size({"width": 1280, "height": 3000})
    page.click("[name=_save]")
    page.wait_for_selector(".errorlist")
    assert judge(page) == []


def test_what_is_opened_is_for_everybody(office: Office) -> None:
    page = office.visitor.page
    page.set_viewport_size({"width": 1280, "height": 900})
    office.visitor.go("/admin/routing/languagemodel/")
    page.click("[x-on\\:click='filterOpen = true']")
    page.wait_for_selector("#changelist-filter a >> visible=true")
    assert judge(page) == []
    page.keyboard.press("Escape")
    page.click("[aria-label='Account of oscar']")
    page.wait_for_selector("#logout-form >> visible=true")
    assert judge(page) == []
    office.visitor.go("/admin/governance/accesskey/")
    page.check("input.action-select")
    page.select_option("select[name=action]", "revoke")
    assert judge(page) == []
    page.click("#changelist-actions button")
    page.wait_for_selector("text=Revoke keys for good?")
    assert judge(page) == []
