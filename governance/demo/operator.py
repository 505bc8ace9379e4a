"""The log-ins of the demo: one for each built-in role, with a password made up at the first start."""

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import Group, User

from governance.access.roles import ROLES, Role
from governance.demo.folder import DemoFolder, write_private


@dataclass(frozen=True, slots=True)
class DemoLogin:
    """What to type; no password if it is not the one we made up."""

    username: str
    password: str | None
    description: str


def email_of(role: Role) -> str:
    """Tells the demo's operator from somebody else's of the same name."""
    return f"{role.group}@demo.invalid"


EMAILS = tuple(email_of(role) for role in ROLES.values())
"""The addresses of the demo's log-ins."""


def provide_logins(folder: DemoFolder) -> tuple[DemoLogin, ...]:
    """Make a log-in for each role, or find it."""
    return tuple(provide_login(folder, role) for role in ROLES.values())


def provide_login(folder: DemoFolder, role: Role) -> DemoLogin:
    """Make the log-in of a role, or find it. A password that somebody changed is left alone."""
    file, username = folder.password_of(role.group), role.group
    kept = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    user = User.objects.filter(username=username).first()
    if user is not None and (user.email != email_of(role) or (kept and not user.check_password(kept))):
        return DemoLogin(username, None, role.description)
    if user is None or not kept:
        kept = kept or secrets.token_urlsafe(15)
        write_private(file, kept + "\n")
        user = user or User(username=username, email=email_of(role), is_staff=True)
        user.set_password(kept)
        user.save()
        user.groups.add(Group.objects.get(name=role.group))
    return DemoLogin(username, kept, role.description)
