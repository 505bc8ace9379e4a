"""``manage.py sweep_ledger``."""

from datetime import UTC, datetime
from io import StringIO

import pytest
from django.core.management import call_command

from tests.budgets.claims import ONE, balance, hold

pytestmark = pytest.mark.django_db


def test_orphans_become_uncertain_once() -> None:
    long_ago = datetime(2026, 11, 3, 12, tzinfo=UTC)
    hold(now=long_ago)
    told = StringIO()
    call_command("sweep_ledger", stdout=told)
    call_command("sweep_ledger", stdout=told)
    assert told.getvalue() == "1 attempts became uncertain.\n0 attempts became uncertain.\n"
    assert balance() == (0, 0, ONE, 0)
