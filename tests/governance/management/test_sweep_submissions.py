"""The command that sweeps: what it finds it sends, and says."""

from collections.abc import Iterable

import pytest
from django.core.management import call_command

from governance.models import Submission
from governance.submissions.sweeping import Delivery
from tests.governance.submissions.orders import handed_in, later, row, taken_up

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("broker_is_there", [True, False])
def test_what_was_lost_is_sent_and_told(
    broker_is_there: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sent: list[Delivery] = []

    def send(deliveries: Iterable[Delivery]) -> int:
        sent.extend(deliveries)
        return len(sent) if broker_is_there else 0

    monkeypatch.setattr("governance.management.commands.sweep_submissions.send", send)
    lost, held = handed_in(), taken_up(handed_in()).submission
    Submission.objects.filter(pk=lost).update(due_at=later(seconds=-1))
    call_command("sweep_submissions")
    said = capsys.readouterr()
    assert [each.submission for each in sent] == [lost]
    assert f"{1 if broker_is_there else 0} of 1 calls sent to the workers" in said.out
    assert ("REDIS_URL" in said.err) is not broker_is_there
    assert (row(lost).state, row(held).state) == ("queued", "running")
