"""Programs at the API: one for each role, one with a virtual key, and one that nobody knows."""

import pytest
from django.contrib.auth.models import Group, User

from governance.models import AccessKey
from tests.factories import AccessKeyFactory
from tests.governance.api.program import PASS_PHRASE, Program

ROLES = ("superuser", "operator", "auditor", "stranger")


@pytest.fixture
def people(db: None) -> dict[str, Program]:
    """A program for each of ROLES, logged in as a member of the staff."""
    programs = {}
    for role in ROLES:
        user = User.objects.create_user(f"{role}-1", password=PASS_PHRASE, is_staff=True)
        user.is_superuser = role == "superuser"
        user.save()
        if role in ("operator", "auditor"):
            user.groups.add(Group.objects.get(name=role))
        programs[role] = Program()
        programs[role].client.force_login(user)
    return programs


@pytest.fixture
def operator(people: dict[str, Program]) -> Program:
    """May do everything."""
    return people["operator"]


@pytest.fixture
def auditor(people: dict[str, Program]) -> Program:
    """May read everything."""
    return people["auditor"]


@pytest.fixture
def nobody(db: None) -> Program:
    """Is not known."""
    return Program()


@pytest.fixture
def key_holder(db: None) -> Program:
    """An application, ``helpdesk``, by a key of its own."""
    _, secret = AccessKeyFactory.create()
    return Program(secret)


@pytest.fixture
def key(key_holder: Program) -> AccessKey:
    """The record of its key."""
    return AccessKey.objects.get()
