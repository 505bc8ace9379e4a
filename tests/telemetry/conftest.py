"""Tables for tests with threads of their own."""

import pytest
from django.test import TransactionTestCase

from tests.telemetry.tables import empty_tables


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    """Tables in which threads see each other's rows, and which are empty again afterwards."""
    monkeypatch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: empty_tables())
