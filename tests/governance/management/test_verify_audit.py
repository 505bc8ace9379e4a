"""`manage.py verify_audit` says how many entries there are, or what is wrong and where."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from governance.changes.settings import store_setting
from governance.models import AuditEvent
from tests.authors import SOMEBODY

pytestmark = pytest.mark.django_db


def run() -> str:
    stdout = StringIO()
    call_command("verify_audit", stdout=stdout)
    return stdout.getvalue()


def test_an_empty_trail_is_whole() -> None:
    assert run() == "The audit trail is whole: 0 entries.\n"


def test_a_whole_trail_says_its_length_and_its_last_digest() -> None:
    store_setting("routing.callHistory", True, author=SOMEBODY)
    store_setting("routing.callHistory", False, author=SOMEBODY)
    said = run()
    assert "whole: 2 entries." in said
    assert AuditEvent.objects.get(number=2).digest in said


def test_every_flaw_is_said() -> None:
    for value in (True, False, True):
        store_setting("routing.callHistory", value, author=SOMEBODY)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE governance_auditevent SET author = 'nobody' WHERE number = 2")
        cursor.execute("DELETE FROM governance_auditevent WHERE number = 3")
    with pytest.raises(CommandError) as refused:
        run()
    assert refused.value.returncode == 1
    said = str(refused.value)
    assert "not whole (2 entries)" in said
    assert "entry 2 was changed after it was written" in said
    assert "the last entry written is number 3, the last one found is number 2" in said
