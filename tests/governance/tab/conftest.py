"""People at the tab, with the roles that they would have."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client


@pytest.fixture
def log_in(db: None) -> Callable[[str], Client]:
    """Makes a browser in which somebody of a role, or of none, is logged in as staff."""

    def log_in(role: str) -> Client:
        user = User.objects.create_user(f"{role or 'nobody'}-1", password="a long pass phrase", is_staff=True)
        if role:
            user.groups.add(Group.objects.get(name=role))
        client = Client()
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def operator(log_in: Callable[[str], Client]) -> Client:
    return log_in("operator")


@pytest.fixture
def auditor(log_in: Callable[[str], Client]) -> Client:
    return log_in("auditor")
