"""``manage.py resting`` and what it does to a route, in a process that makes no calls."""

import pytest
from django.core.management import CommandError, call_command

from governance.models import AuditEvent
from tests.factories import LanguageModelFactory, ProviderFactory

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fast() -> None:
    LanguageModelFactory(provider=ProviderFactory(identifier="prod-east"), identifier="fast", model_id="gpt-x-mini")


def test_pausing_and_clearing_are_told_and_audited(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("resting")
    assert capsys.readouterr().out == "No route rests.\n"
    call_command("resting", "--pause", "fast", "--seconds", "600", "--reason", "Maintenance.")
    call_command("resting")  # as another process would
    once, again = capsys.readouterr().out.splitlines()
    assert once.startswith("prod-east/fast: rests for another 600 s (Paused by an operator; failures in a row: 0)")
    assert again.startswith("prod-east/fast: rests for another ")
    call_command("resting", "--clear", "fast")
    assert capsys.readouterr().out == "No route rests.\n"
    entries = AuditEvent.objects.order_by("number").values_list("action", "record", "author", "reason")
    assert list(entries) == [
        ("paused", "fast", "manage.py resting", "600 s. Maintenance."),
        ("cleared", "fast", "manage.py resting", ""),
    ]


@pytest.mark.parametrize("arguments", [("--clear", "nonesuch"), ("--pause", "fast", "--seconds", "0")])
def test_what_cannot_be_done_is_said(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"nonesuch|seconds"):
        call_command("resting", *arguments)
    assert not AuditEvent.objects.exists()
