"""``manage.py preflight`` against a provider that lists its models."""

import pytest
from django.core.management import call_command
from pytest_django import Settings

from governance.models import AuditEvent
from tests.servers.records import furnish
from tests.servers.simulator import SimulatorServer


def test_each_route_is_told_and_a_denied_one_is_an_error(
    tables: None, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with SimulatorServer() as simulator:
        settings.SIGNALBOX_OUTBOUND_ALLOW = [("127.0.0.1", int(simulator.url.rpartition(":")[2]))]
        furnish(simulator)
        simulator.fail("401", on="models", pattern="prod-west/*")
        with pytest.raises(SystemExit) as ended:
            call_command("preflight")
    said = dict(line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert ended.value.code == 1
    assert said["prod-west/wise"].startswith("denied: ")
    assert set(said) == {"prod-east/fast", "prod-west/wise"}
    entries = AuditEvent.objects.filter(kind="route").values_list("record", "author")
    assert ("wise", "manage.py preflight") in entries
