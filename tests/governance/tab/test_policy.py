"""Effective policy: what is in force and from where, what a switch would change before it is thrown, and who may."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from governance.access.roles import ROLES
from governance.changes.records import switch as switch_off
from governance.changes.settings import store_setting
from governance.models import AuditEvent, SettingValue
from governance.settings_store.registry import REGISTRY, spell_typed
from governance.settings_store.store import load_settings
from governance.tab.policy import PANEL, PolicyPanel
from governance.tab.switches import ALREADY, OVERTAKEN
from routing.models import Configuration
from tests.authors import SOMEBODY
from tests.factories import CallFactory, ConfigurationFactory, LanguageModelFactory, ProviderFactory
from tests.governance.admin.pages import sent_by, text_of, words_of
from tests.governance.settings_store.test_effects import EFFECTS

OTHER: dict[str, Any] = {key: effect.value for key, effect in EFFECTS.items()}
"""For every setting another value than its default."""


@pytest.fixture
def two_models(db: None) -> None:
    """A slow model that goes first by its place, and a quick one behind it, each with six calls behind it; one
    configuration that ranks them by a measured mode, one that does not, one that is switched off."""
    provider = ProviderFactory.create()
    for place, (name, latency) in enumerate((("thorough", 9_094.0), ("swift", 4_259.0))):
        LanguageModelFactory.create(identifier=name, model_id=f"vendor-{name}", provider=provider, sorting=place)
        CallFactory.create_batch(
            6,
            started_at=timezone.now() - timedelta(days=1),
            requested="support-chat",
            served_model_id=f"vendor-{name}",
            latency_ms=latency,
        )
    ConfigurationFactory.create(identifier="support-chat", criteria=True, policy_mode="balanced")
    ConfigurationFactory.create(identifier="by-priority", criteria=True, policy_mode="providerPriority")
    ConfigurationFactory.create(identifier="asleep", criteria=True, policy_mode="balanced", is_active=False)


def look(browser: Client, **asked: str) -> PolicyPanel:
    answer = browser.get(PANEL.url, asked)
    assert answer.status_code == 200
    panel: PolicyPanel = answer.context["panel"]
    return panel


def confirm(browser: Client, **asked: str) -> Any:
    """Look at what a value would change, and confirm it."""
    return browser.post(PANEL.url, sent_by(browser.get(PANEL.url, asked)))


# --- The list -------------------------------------------------------------------------------------------------------


def test_every_setting_is_there_and_the_switch_of_call_history_first(operator: Client) -> None:
    rows = look(operator).rows
    assert [row.key for row in rows][:2] == ["routing.callHistory", "routing.policyMode"]
    assert {row.key for row in rows} == set(REGISTRY) == set(OTHER)
    for row in rows:
        assert "".join(row.readers[0]) == REGISTRY[row.key].readers[0]


def test_a_row_says_where_its_value_comes_from(operator: Client, settings: Settings) -> None:
    store_setting("routing.currency", "EUR", author=SOMEBODY)
    SettingValue.objects.create(key="routing.policyMode", value="cheapest")
    store_setting("telemetry.enabled", True, author=SOMEBODY)
    settings.SIGNALBOX_SETTINGS = {"telemetry.enabled": False}
    rows = {row.key: row for row in look(operator).rows}
    assert (rows["routing.callHistory"].value, rows["routing.callHistory"].source) == ("Off", "default")
    assert (rows["routing.currency"].value, rows["routing.currency"].source) == ("EUR", "stored")
    unreadable = rows["routing.policyMode"]
    assert (unreadable.value, unreadable.source, unreadable.unreadable) == (
        "providerPriority",
        "unreadable",
        "cheapest",
    )
    pinned = rows["telemetry.enabled"]
    assert (pinned.value, pinned.source, pinned.is_waiting, pinned.change) == ("Off", "environment", True, "")
    page = words_of(operator.get(PANEL.url))
    assert "cheapest is stored, which cannot be read" in page
    assert "what is stored waits" in page


def test_a_reader_that_is_not_known_is_unknown(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = replace(REGISTRY["routing.currency"], readers=())
    monkeypatch.setattr("governance.settings_store.sources.REGISTRY", {**REGISTRY, silent.key: silent})
    assert {row.key: row.readers for row in look(operator).rows}["routing.currency"] == (("unknown",),)


def test_the_list_takes_as_many_queries_whatever_is_stored(
    operator: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    operator.get(PANEL.url)
    with django_assert_num_queries(5):  # who asks, what they may, and the settings
        operator.get(PANEL.url)
    for key, value in OTHER.items():
        store_setting(key, value, author=SOMEBODY)
    with django_assert_num_queries(5):
        operator.get(PANEL.url)


# --- What a switch would change -------------------------------------------------------------------------------------


def test_what_would_change_is_told_before_anything_does(operator: Client, two_models: None) -> None:
    switch = look(operator, setting="routing.callHistory", value="true").switch
    assert switch is not None
    assert switch.proposal is not None
    assert switch.proposal.headline == "Right now 1 of 2 configurations would send calls to another model."
    assert switch.proposal.weight == "12 of the 12 decided calls of the last seven days asked for one of these."
    assert [(row.configuration, row.operations, row.before, row.after, row.calls) for row in switch.proposal.rows] == [
        ("support-chat", "Chat, whole answer", "prod-east/thorough", "prod-east/swift", 12)
    ]
    assert "Measured latency" in switch.proposal.rows[0].signals
    assert not SettingValue.objects.exists()
    assert not AuditEvent.objects.exists()


def test_the_link_asks_why_as_if_the_switch_were_thrown(operator: Client, two_models: None) -> None:
    switch = look(operator, setting="routing.callHistory", value="true").switch
    assert switch is not None
    assert switch.proposal is not None
    reply = operator.get(switch.proposal.rows[0].url).context["panel"].reply
    assert reply.verdict.startswith("prod-east/swift goes first")
    assert "leads to prod-east/thorough" in reply.instead


@pytest.mark.parametrize("key", sorted(OTHER))
def test_every_setting_has_a_switch(key: str, operator: Client, two_models: None) -> None:
    """The way from the list to the change, as somebody without JavaScript goes it."""
    row = next(row for row in look(operator).rows if row.key == key)
    first = operator.get(row.url)
    switch = first.context["panel"].switch
    if switch.proposal is None and switch.takes_text:
        first = operator.get(PANEL.url, sent_by(first, value=OTHER[key]))
    elif switch.proposal is None:
        option = next(each for each in switch.options if each.spelled == OTHER[key])
        first = operator.get(option.url)
    assert not SettingValue.objects.exists()
    done = operator.post(PANEL.url, sent_by(first, reason="a trial"))
    assert (done.status_code, done.headers["Location"]) == (302, PANEL.url)
    assert SettingValue.objects.get().value == OTHER[key]
    event = AuditEvent.objects.get()
    assert (event.record, event.author, event.channel, event.reason) == (key, "operator-1", "admin", "a trial")
    assert f"{key}: changed" in text_of(operator.get(PANEL.url))


def test_a_setting_goes_back_to_its_default(operator: Client) -> None:
    assert look(operator, setting="routing.currency").switch.default_url == ""  # type: ignore[union-attr]
    store_setting("routing.currency", "EUR", author=SOMEBODY)
    switch = look(operator, setting="routing.currency").switch
    assert switch is not None
    page = operator.get(switch.default_url)
    assert page.context["panel"].switch.proposal.spelled == "USD"
    assert operator.post(PANEL.url, sent_by(page)).status_code == 302
    assert not SettingValue.objects.exists()


def test_each_choice_says_what_it_would_change(operator: Client, two_models: None) -> None:
    ConfigurationFactory.create(identifier="as-installed", criteria=True)
    store_setting("routing.callHistory", True, author=SOMEBODY)
    switch = look(operator, setting="routing.policyMode").switch
    assert switch is not None
    outcomes = {option.spelled: option.outcome for option in switch.options}
    assert outcomes["providerPriority"] == ""  # in force
    assert outcomes["balanced"] == "1 of 3 configurations would send calls to another model: as-installed"
    assert switch.note == ""


def test_why_nothing_would_change_is_said(operator: Client, two_models: None) -> None:
    switch = look(operator, setting="routing.policyMode").switch
    assert switch is not None
    assert switch.note.startswith("No configuration in service goes by it")
    switch_off(Configuration.objects.get(identifier="support-chat"), on=False, author=SOMEBODY)
    switch = look(operator, setting="routing.callHistory", value="true").switch
    assert switch is not None
    assert switch.proposal is not None
    assert switch.proposal.note.startswith("No configuration in service is ranked by a measured mode")


def test_what_takes_no_part_in_decisions_says_so(operator: Client, two_models: None) -> None:
    switch = look(operator, setting="gateway.maxBodyBytes", value="4096").switch
    assert switch is not None
    assert switch.proposal is not None
    assert switch.proposal.headline == "It takes no part in choosing a model: no decision changes."


def test_what_is_in_force_already_says_so(operator: Client, two_models: None) -> None:
    store_setting("routing.policyMode", "providerPriority", author=SOMEBODY)
    for asked in ({"value": "providerPriority"}, {"default": "1"}):
        switch = look(operator, setting="routing.policyMode", **asked).switch
        assert switch is not None
        assert switch.proposal is not None
        assert switch.proposal.headline == ALREADY


def test_a_switch_takes_as_many_queries_for_many_configurations(
    operator: Client, two_models: None, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    asked = {"setting": "routing.callHistory", "value": "true"}
    with django_assert_max_num_queries(40) as few:
        operator.get(PANEL.url, asked)
    for number in range(8):
        ConfigurationFactory.create(identifier=f"more-{number}", criteria=True, policy_mode="quality")
        LanguageModelFactory.create()
    with django_assert_max_num_queries(len(few)):
        assert operator.get(PANEL.url, asked).status_code == 200


# --- What is refused ------------------------------------------------------------------------------------------------


def test_whoever_was_overtaken_is_shown_the_consequences_anew(operator: Client, two_models: None) -> None:
    form = sent_by(operator.get(PANEL.url, {"setting": "routing.policyMode", "value": "economy"}))
    store_setting("routing.policyMode", "quality", author=SOMEBODY)
    answer = operator.post(PANEL.url, form)
    assert answer.status_code == 200
    assert answer.context["panel"].problem == OVERTAKEN
    assert SettingValue.objects.get().value == "quality"
    assert answer.context["panel"].switch.spelled == "quality"
    assert operator.post(PANEL.url, sent_by(answer)).status_code == 302
    assert SettingValue.objects.get().value == "economy"


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("routing.policyMode", "cheapest", "choose one of"),
        ("routing.callHistory", "perhaps", "choose true or false"),
        ("routing.currency", "usd", "three capital letters"),
        ("gateway.maxBodyBytes", "5", "a whole number from"),
        ("gateway.maxBodyBytes", "9" * 5000, "a whole number from"),
        ("gateway.maxBodyBytes", "[" * 5000, "a whole number from"),
        ("routing.callHistory", "null", "choose true or false"),
    ],
)
def test_what_the_registry_refuses_is_neither_shown_nor_stored(
    key: str, value: str, says: str, operator: Client
) -> None:
    switch = look(operator, setting=key, value=value).switch
    assert switch is not None
    assert says in switch.problem
    assert switch.proposal is None
    answer = operator.post(PANEL.url, {"setting": key, "value": value, "version": ""})
    assert says in answer.context["panel"].problem
    assert not SettingValue.objects.exists()


def test_there_is_no_switch_of_what_is_no_setting(operator: Client) -> None:
    assert look(operator, setting="routing.magic").problem == "There is no setting routing.magic."
    answer = operator.post(PANEL.url, {"setting": "routing.magic", "value": "true"})
    assert answer.context["panel"].problem.startswith("There is no setting routing.magic.")
    assert operator.post(PANEL.url, {}).status_code == 200


def test_a_reason_that_is_too_long_is_refused_with_the_field(operator: Client) -> None:
    page = operator.get(PANEL.url, {"setting": "routing.callHistory", "value": "true"})
    answer = operator.post(PANEL.url, sent_by(page, reason="x" * 501))
    assert "reason" in answer.context["panel"].problem
    assert not SettingValue.objects.exists()


def test_what_the_environment_pins_is_not_offered(operator: Client, settings: Settings) -> None:
    settings.SIGNALBOX_SETTINGS = {"routing.callHistory": False}
    for asked in ({}, {"value": "true"}, {"default": "1"}):
        page = operator.get(PANEL.url, {"setting": "routing.callHistory", **asked})
        switch = page.context["panel"].switch
        assert (switch.proposal, switch.options, switch.takes_text, switch.default_url) == (None, (), False, "")
        assert "SIGNALBOX_SETTINGS" in switch.problem
        assert "<form" not in text_of(page).partition('id="sb-panel"')[2]
    answer = operator.post(PANEL.url, {"setting": "routing.callHistory", "value": "true"})
    assert "SIGNALBOX_SETTINGS" in answer.context["panel"].problem
    with pytest.raises(ValidationError):
        store_setting("routing.callHistory", True, author=SOMEBODY)
    assert load_settings().routing.call_history is False


def test_a_form_from_elsewhere_changes_nothing(operator: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = operator.cookies
    assert strict.post(PANEL.url, {"setting": "routing.callHistory", "value": "true"}).status_code == 403
    assert not SettingValue.objects.exists()


# --- Who may --------------------------------------------------------------------------------------------------------

ADDRESSES = [
    {},
    *({"setting": key} for key in OTHER),
    *({"setting": key, "value": spell_typed(value)} for key, value in OTHER.items()),
    *({"setting": key, "default": "1"} for key in OTHER),
]


@pytest.mark.parametrize("asked", ADDRESSES, ids=str)
def test_an_auditor_sees_all_of_it_and_throws_nothing(asked: dict[str, str], auditor: Client, two_models: None) -> None:
    page = auditor.get(PANEL.url, asked)
    assert page.status_code == 200
    assert not re.search(r'<form[^>]*method="post"', text_of(page).partition('id="sb-panel"')[2])
    for data in (asked, sent_by(page), {**asked, "version": ""}):
        assert auditor.post(PANEL.url, data).status_code == 403
    for method in ("put", "patch", "delete", "options", "trace"):
        assert getattr(auditor, method)(PANEL.url, asked).status_code == 405
    assert not SettingValue.objects.exists()
    assert not AuditEvent.objects.exists()


def test_an_auditor_sees_what_would_change(auditor: Client, two_models: None) -> None:
    page = words_of(auditor.get(PANEL.url, {"setting": "routing.callHistory", "value": "true"}))
    assert "1 of 2 configurations would send calls to another model" in page
    assert "Your role may see what would change, and not change it." in page


@pytest.mark.parametrize("role", ["", *ROLES])
def test_who_may_not_change_is_refused_before_anything_is_looked_at(role: str, log_in: Callable[[str], Client]) -> None:
    answer = log_in(role).post(PANEL.url, {"setting": "routing.callHistory", "value": "true", "version": "x"})
    may = role in ROLES and ROLES[role].may_change
    assert answer.status_code == (200 if may else 403)  # overtaken: nothing is stored under that version


def test_an_empty_installation_has_switches(operator: Client) -> None:
    switch = look(operator, setting="routing.callHistory", value="true").switch
    assert switch is not None
    assert switch.proposal is not None
    assert switch.proposal.rows == []
    assert switch.proposal.headline == "No configuration is in service yet: no decision changes."
