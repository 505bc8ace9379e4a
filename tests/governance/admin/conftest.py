"""People at the admin."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client


@pytest.fixture
def operator(db: None) -> Client:
    """A browser in which somebody who may do everything is logged in."""
    client = Client()
    client.force_login(User.objects.create_superuser("olivia", password="a long pass phrase"))
    return client


@pytest.fixture
def auditor(db: None) -> Client:
    """A browser in which somebody who may look at everything is logged in."""
    user = User.objects.create_user("ada", password="a long pass phrase", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def staff(db: None) -> Callable[..., Client]:
    """Makes a browser in which somebody with some permissions only is logged in."""

    def log_in(*codenames: str) -> Client:
        user = User.objects.create_user("sam", password="a long pass phrase", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=codenames))
        client = Client()
        client.force_login(user)
        return client

    return log_in
