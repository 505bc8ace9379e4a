"""Settings pinned by the environment: checked at the start, which a mistake stops."""

import json
from pathlib import Path

import pytest

from governance.project.settings.environment import EnvironmentProblem, envobject
from governance.project.settings.pins import check_pins
from tests.project.processes import installation_environment, run_python

NAME = "SIGNALBOX_SETTINGS"


def pinned(text: str) -> dict[str, object]:
    return dict(check_pins(name=NAME, values=envobject(NAME, environ={NAME: text})))


@pytest.mark.parametrize("text", ["", "  ", "{}"])
def test_nothing_is_pinned(text: str) -> None:
    assert pinned(text) == {}


def test_values_are_kept_as_they_are() -> None:
    values = {"routing.callHistory": True, "routing.policyMode": "economy", "gateway.maxBodyBytes": 2048}
    assert pinned(json.dumps(values)) == values


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("routing.callHistory=true", "is no JSON"),
        ("[]", "is JSON, but no object"),
        ('{"routing.currency": "EUR", "routing.currency": "USD"}', "a key stands there twice"),
        ('{"routing.callHistroy": true}', "pins 'routing.callHistroy', which is no setting"),
        ('{"routing.callHistory": "yes"}', "pins routing.callHistory to 'yes', which it does not accept. Choose true"),
        ('{"gateway.maxBodyBytes": 1}', "A whole number from 1024 to 1073741824 is needed."),
        ('{"routing.currency": null}', "pins routing.currency to None"),
    ],
)
def test_a_mistake_is_told_and_names_the_variable(text: str, told: str) -> None:
    with pytest.raises(EnvironmentProblem) as refused:
        pinned(text)
    assert str(refused.value).startswith(f"{NAME} ")
    assert told in str(refused.value)


def test_a_mistake_stops_the_start(tmp_path: Path) -> None:
    environ = {**installation_environment(data_folder=tmp_path), NAME: '{"routing.currency": "euros"}'}
    result = run_python("manage.py", "check", environ=environ)
    assert result.returncode != 0
    assert result.stderr.startswith("signalbox: SIGNALBOX_SETTINGS pins routing.currency to 'euros'")
    assert "Traceback" not in result.stderr
