"""What each role sees and does in the admin: every page, every action and every address of the site, one by one.

A superuser does what the pages allow at all. An operator does the same except where log-ins are concerned, an auditor
looks at the same and changes nothing, and anybody else sees nothing.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client, RequestFactory
from django.urls import URLPattern, URLResolver, reverse

from governance.tab.addresses import name_of
from governance.tab.pages import PANELS
from tests.governance.admin.test_pages import REGISTERED, ROWS, address

ROLES = ("superuser", "operator", "auditor", "stranger")
PAGES = ("changelist", "add", "change", "history", "delete")
LOG_INS = {"auth.User", "auth.Group"}

# The addresses of the site beside those of its records: what each of ROLES, in order, gets for asking.
SITE: dict[str, tuple[int, int, int, int]] = {
    "index": (200, 200, 200, 200),
    "login": (302, 302, 302, 302),  # they are in
    "logout": (405, 405, 405, 405),  # by a form only
    "password_change": (200, 200, 200, 200),
    "password_change_done": (200, 200, 200, 200),
    "jsi18n": (200, 200, 200, 200),
    "search": (200, 200, 200, 200),  # of pages, each of which is searched for where it may be seen
    "governance_tab": (302, 302, 302, 403),  # on to its first panel; each of them is listed below
    "autocomplete": (403, 403, 403, 403),  # without saying what is looked for
}
for _panel in PANELS:
    SITE[_panel.name] = (200, 200, 200, 403)
    for _download in _panel.downloads:  # of an empty installation: on to the panel, which says what is missing
        SITE[name_of(f"{_panel.slug}/{_download.slug}")] = (302, 302, 302, 403)
SITE["routing_languagemodel_price_lists"] = SITE["telemetry_usageday_report"] = (200, 200, 200, 403)
LISTS_OF_APPS: dict[str, tuple[int, int, int, int]] = {
    "routing": (200, 200, 200, 404),
    "telemetry": (200, 200, 200, 404),
    "budgets": (200, 200, 200, 404),
    "governance": (200, 200, 200, 404),
    "auth": (200, 404, 404, 404),
}
# Addresses that a record's pages have beside the usual ones.
FURTHER: dict[str, tuple[int, int, int, int]] = {
    "auth_user_password_change": (200, 403, 403, 403),
    "routing_provider_try": (200, 200, 403, 403),
    "routing_languagemodel_try": (200, 200, 403, 403),
    "routing_configuration_try": (200, 200, 403, 403),
    "governance_webhook_try": (200, 200, 403, 403),
    "governance_accesskey_rotate": (200, 200, 403, 403),
    "governance_submission_cancel": (200, 200, 403, 403),
    "governance_batch_cancel": (200, 200, 403, 403),
    "governance_auditevent_verify": (200, 200, 200, 403),
    "governance_auditevent_restore": (200, 200, 403, 403),
    "telemetry_decisionrecord_scenario": (404, 404, 404, 403),  # this row holds no decision
}
NOT_OURS = {"view_on_site", "app_list"}  # a record's page elsewhere, of which there is none; see LISTS_OF_APPS


@pytest.fixture
def people(db: None) -> dict[str, Client]:
    """A browser for each of ROLES, logged in as staff, and one in which nobody is."""
    browsers = {"anonymous": Client()}
    for role in ROLES:
        user = User.objects.create_user(f"{role}-1", password="a long pass phrase", is_staff=True)
        user.is_superuser = role == "superuser"
        user.save()
        if role in ("operator", "auditor"):
            user.groups.add(Group.objects.get(name=role))
        browsers[role] = Client()
        browsers[role].force_login(user)
    return browsers


def names(patterns: Any) -> Iterator[str]:
    for pattern in patterns:
        if isinstance(pattern, URLResolver):
            yield from names(pattern.url_patterns)
        elif isinstance(pattern, URLPattern) and pattern.name:
            yield pattern.name


def test_every_address_of_the_site_is_judged_here() -> None:
    of_records = {f"{label.lower().replace('.', '_')}_{page}" for label in REGISTERED for page in PAGES}
    assert set(names(admin.site.get_urls())) - of_records - NOT_OURS == {*SITE, *FURTHER}
    assert {label.partition(".")[0] for label in REGISTERED} == set(LISTS_OF_APPS)


@pytest.mark.parametrize("name", sorted(SITE))
def test_an_address_of_the_site(name: str, people: dict[str, Client]) -> None:
    url = reverse(f"admin:{name}")
    assert tuple(people[role].get(url).status_code for role in ROLES) == SITE[name]
    if name not in ("login", "logout"):
        assert people["anonymous"].get(url).headers["Location"].startswith("/admin/login/?next=")


@pytest.mark.parametrize("app", sorted(LISTS_OF_APPS))
def test_a_list_of_an_app(app: str, people: dict[str, Client]) -> None:
    url = reverse("admin:app_list", args=[app])
    assert tuple(people[role].get(url).status_code for role in ROLES) == LISTS_OF_APPS[app]
    assert people["anonymous"].get(url).status_code == 302


@pytest.mark.parametrize("name", sorted(FURTHER))
def test_a_further_page_of_a_record(name: str, people: dict[str, Client]) -> None:
    label = next(label for label in REGISTERED if name.startswith(f"{label.lower().replace('.', '_')}_"))
    row = ROWS[label]()
    url = reverse(f"admin:{name}", args=[] if name.endswith("_verify") else [row.pk])
    assert tuple(people[role].get(url).status_code for role in ROLES) == FURTHER[name]
    assert people["anonymous"].get(url).status_code == 302


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("label", sorted(REGISTERED))
def test_a_page_of_a_record(label: str, page: str, people: dict[str, Client]) -> None:
    row = ROWS[label]()
    url = address(label, page, *([] if page in ("changelist", "add") else [row.pk]))
    allowed = people["superuser"].get(url).status_code
    assert allowed in (200, 403)
    looked_at = page in ("changelist", "change", "history")
    assert allowed == 200 or not looked_at
    assert people["operator"].get(url).status_code == (403 if label in LOG_INS else allowed)
    assert people["auditor"].get(url).status_code == (200 if looked_at and label not in LOG_INS else 403)
    assert people["stranger"].get(url).status_code == 403
    nobody = people["anonymous"].get(url)
    assert (nobody.status_code, nobody.headers["Location"]) == (302, f"/admin/login/?next={url}")


@pytest.mark.parametrize("role", ["auditor", "stranger"])
@pytest.mark.parametrize("label", sorted(REGISTERED))
def test_who_may_not_change_a_record_cannot(label: str, role: str, people: dict[str, Client]) -> None:
    row = ROWS[label]()
    before = contents(label)
    for page, data in (("add", {}), ("change", {}), ("delete", {"post": "yes"})):
        url = address(label, page, *([] if page == "add" else [row.pk]))
        assert people[role].post(url, data).status_code == 403
    assert contents(label) == before


def contents(label: str) -> list[dict[str, Any]]:
    return list(REGISTERED[label]._base_manager.order_by("pk").values())


def actions_of(label: str, user: User) -> set[str]:
    request = RequestFactory().get("/")
    request.user = user
    return set(admin.site._registry[REGISTERED[label]].get_actions(request))


@pytest.mark.parametrize("label", sorted(REGISTERED))
def test_an_operator_has_every_action_and_an_auditor_none(label: str, people: dict[str, Client]) -> None:
    actions = {role: actions_of(label, User.objects.get(username=f"{role}-1")) for role in ROLES}
    assert actions["operator"] == (set() if label in LOG_INS else actions["superuser"])
    assert actions["auditor"] == actions["stranger"] == set()


@pytest.mark.parametrize("role", ["auditor", "stranger"])
@pytest.mark.parametrize("label", sorted(REGISTERED))
def test_an_action_that_is_sent_all_the_same_changes_nothing(
    label: str, role: str, people: dict[str, Client], subtests: Any
) -> None:
    row = ROWS[label]()
    before = contents(label)
    for action in actions_of(label, User.objects.get(username="superuser-1")):
        with subtests.test(action=action):
            data = {"action": action, "_selected_action": [str(row.pk)], "post": "yes", "confirmed": "yes"}
            people[role].post(address(label, "changelist"), data)
            assert contents(label) == before


def test_the_sidebar_of_a_stranger_is_empty(people: dict[str, Client], staff: Callable[..., Client]) -> None:
    page = people["stranger"].get(reverse("admin:index")).content.decode()
    for label in REGISTERED:
        assert address(label, "changelist") not in page
