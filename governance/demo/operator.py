"""The operator's log-in of the demo: one superuser with a password made up at the first start."""

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User

from governance.demo.folder import DemoFolder, write_private

USERNAME = "operator"
EMAIL = "operator@demo.invalid"
"""Tells the demo's operator from somebody else's of the same name."""


@dataclass(frozen=True, slots=True)
class OperatorLogin:
    """What to type; no password if it is not the one we made up."""

    username: str
    password: str | None


def provide_operator(folder: DemoFolder) -> OperatorLogin:
    """Make the operator, or find them. A password that somebody changed is left alone."""
    file = folder.operator_password
    kept = file.read_text(encoding="utf-8").strip() if file.exists() else ""
    user = User.objects.filter(username=USERNAME).first()
    if user is not None and (user.email != EMAIL or (kept and not user.check_password(kept))):
        return OperatorLogin(USERNAME, None)
    if user is None or not kept:
        kept = kept or secrets.token_urlsafe(15)
        write_private(file, kept + "\n")
        user = user or User(username=USERNAME, email=EMAIL, is_staff=True, is_superuser=True)
        user.set_password(kept)
        user.save()
    return OperatorLogin(USERNAME, kept)
