"""The tab's pages: one view answers with a page or with its panel, to those who may look and to nobody else."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from governance.models import AuditEvent, SettingValue
from governance.tab.pages import PANELS
from governance.tab.panels import Panel
from tests import factories
from tests.governance.admin.pages import text_of

SLUGS = [panel.slug for panel in PANELS]
HTMX = {"HX-Request": "true"}


@pytest.fixture(params=PANELS, ids=SLUGS)
def panel(request: pytest.FixtureRequest) -> Panel:
    found: Panel = request.param
    return found


@pytest.fixture
def records(db: None) -> None:
    factories.LanguageModelFactory.create(priced=True)
    factories.ConfigurationFactory.create(criteria=True)


def test_names_and_addresses_are_told_apart() -> None:
    assert len({panel.slug for panel in PANELS}) == len({panel.title for panel in PANELS}) == len(PANELS)


@pytest.mark.parametrize("role", ["operator", "auditor"])
def test_a_role_reads_every_panel(panel: Panel, role: str, records: None, log_in: Callable[[str], Client]) -> None:
    browser = log_in(role)
    answer = browser.get(panel.url)
    assert answer.status_code == 200
    page = text_of(answer)
    assert f'<a id="tab-{panel.slug}" href="{panel.url}"' in page
    assert page.count('aria-current="page"') == 1
    assert [tab for tab in SLUGS if f'id="tab-{tab}"' not in page] == []


def test_nobody_else_reads_one(panel: Panel, records: None, log_in: Callable[[str], Client], client: Client) -> None:
    assert log_in("").get(panel.url).status_code == 403
    assert client.get(panel.url).headers["Location"] == f"/admin/login/?next={panel.url}"
    for download in panel.downloads:
        assert client.get(f"{panel.url}{download.slug}").headers["Location"].startswith("/admin/login/")


def test_each_permission_is_needed(panel: Panel, records: None) -> None:
    for missing in panel.permissions:
        user = User.objects.create_user(f"without-{missing}", is_staff=True)
        held = [each.partition(".")[2] for each in panel.permissions if each != missing]
        user.user_permissions.set(Permission.objects.filter(codename__in=held))
        browser = Client()
        browser.force_login(user)
        assert browser.get(panel.url).status_code == 403
        for download in panel.downloads:
            assert browser.get(f"{panel.url}{download.slug}").status_code == 403


def test_an_empty_installation_has_every_panel(panel: Panel, operator: Client) -> None:
    assert operator.get(panel.url).status_code == 200


def test_htmx_gets_the_panel_alone_and_everybody_else_the_page(panel: Panel, records: None, operator: Client) -> None:
    page, part = operator.get(panel.url), operator.get(panel.url, headers=HTMX)
    restored = operator.get(panel.url, headers={**HTMX, "HX-History-Restore-Request": "true"})
    assert "<html" in text_of(page)
    assert "<html" in text_of(restored)
    assert "<html" not in text_of(part)
    assert '<div id="sb-panel">' in text_of(part)
    assert "hx-swap-oob" in text_of(part)
    assert "hx-swap-oob" not in text_of(page)
    for answer in (page, part, restored):
        assert {"HX-Request", "HX-History-Restore-Request"} <= set(answer.headers["Vary"].replace(" ", "").split(","))


def test_what_htmx_gets_has_an_address_of_its_own(panel: Panel, records: None, operator: Client) -> None:
    """Without JavaScript every link and form leads to where htmx would have gone."""
    elements = re.findall(r"<(?:a|form|button)\b[^>]*\bhx-(?:get|post)=[^>]*>", text_of(operator.get(panel.url)))
    assert elements
    for element in elements:
        asked = re.search(r'\bhx-(?:get|post)="([^"]*)"', element)
        led = re.search(r'\b(?:href|action|formaction)="([^"]*)"', element)
        assert asked is not None
        assert led is not None, element
        assert asked[1] == led[1]


def test_a_panel_says_what_it_answers_to(panel: Panel, operator: Client) -> None:
    if "POST" not in panel.methods:
        assert operator.post(panel.url).status_code == 405


def test_an_auditor_changes_nothing_at_any_address(panel: Panel, auditor: Client) -> None:
    for address in (panel.url, *(f"{panel.url}{download.slug}" for download in panel.downloads)):
        for method in ("post", "put", "patch", "delete", "options"):
            status = getattr(auditor, method)(address, {"setting": "routing.callHistory", "value": "true"}).status_code
            assert status == (403 if (method, address) == ("post", panel.url) and "POST" in panel.methods else 405)
    assert not SettingValue.objects.exists()
    assert not AuditEvent.objects.exists()


def test_the_status_line_is_there_from_the_beginning(panel: Panel, records: None, operator: Client) -> None:
    found = re.search(r'<p id="sb-status"[^>]*role="status"[^>]*>([^<]+)</p>', text_of(operator.get(panel.url)))
    assert found is not None
    assert found[1].strip()


def test_the_tab_leads_to_the_first_panel_one_may_look_at(operator: Client, log_in: Callable[[str], Client]) -> None:
    assert operator.get(reverse("admin:governance_tab")).headers["Location"] == PANELS[0].url
    assert log_in("").get(reverse("admin:governance_tab")).status_code == 403


def test_the_sidebar_leads_there(operator: Client, log_in: Callable[[str], Client]) -> None:
    link = f'href="{reverse("admin:governance_tab")}"'
    assert link in text_of(operator.get(reverse("admin:index")))
    assert link not in text_of(log_in("").get(reverse("admin:index")))
