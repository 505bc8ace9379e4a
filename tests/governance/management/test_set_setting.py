"""`manage.py set_setting` stores what the registry accepts, and says what would be right otherwise."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from governance.models import SettingsVersion, SettingValue
from governance.settings_store.store import load_settings

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> str:
    stdout = StringIO()
    call_command("set_setting", *arguments, stdout=stdout)
    return stdout.getvalue()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("routing.callHistory", "true", True),
        ("telemetry.enabled", "false", False),
        ("routing.policyMode", "economy", "economy"),
        ("routing.policyMode", '"economy"', "economy"),
        ("gateway.maxBodyBytes", "2048", 2048),
        ("routing.currency", "EUR", "EUR"),
    ],
)
def test_a_value_is_stored_as_what_it_is(key: str, text: str, value: Any) -> None:
    before = SettingsVersion.read()
    said = run(key, text)
    assert SettingValue.objects.get(key=key).value == value
    assert SettingsVersion.read() > before
    assert f"{key} is now {text.strip(chr(34))}." in said


def test_it_is_in_force_afterwards() -> None:
    run("routing.callHistory", "true")
    assert load_settings().routing.call_history is True
    assert run("routing.callHistory", "--default") == "routing.callHistory is at its default, false.\n"
    assert load_settings().routing.call_history is False
    assert not SettingValue.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("routing.callHistroy", "true"), "There is no setting routing.callHistroy. Choose one of routing.policyMode"),
        (("routing.callHistory", "yes"), "routing.callHistory: choose true or false"),
        (("routing.callHistory", "1"), "choose true or false"),
        (("routing.policyMode", "cheapest"), "choose one of providerPriority, balanced"),
        (("gateway.maxBodyBytes", "5"), "a whole number from 1024"),
        (("routing.currency", "eur"), "three capital letters"),
        (("routing.callHistory",), "Give either a value or --default"),
        (("routing.callHistory", "true", "--default"), "Give either a value or --default"),
    ],
)
def test_what_is_not_accepted_is_not_stored(arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(CommandError, match=complaint):
        run(*arguments)
    assert not SettingValue.objects.exists()


@pytest.mark.parametrize("arguments", [["routing.currency", "EUR"], ["routing.currency", "--default"]])
def test_a_pinned_setting_is_refused(arguments: list[str], settings: Settings) -> None:
    settings.SIGNALBOX_SETTINGS = {"routing.currency": "CHF"}
    with pytest.raises(CommandError, match="pinned by the environment variable SIGNALBOX_SETTINGS"):
        call_command("set_setting", *arguments)
    assert not SettingValue.objects.exists()
