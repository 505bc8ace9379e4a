"""The built-in roles: groups that exist wherever the tables do, and what each may do.

An operator may do everything in the four apps, an auditor may look at everything there; who may log in, and as what,
is the business of superusers. Permissions are rows that Django makes after migrating, so the groups are put right at
the same moment, every time: what a new table brings is given, what a role must not have is taken. Whoever wants
another role makes a group of their own, which is left alone.

No model is imported here, since Django loads this module together with the app's configuration.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from django.apps import apps as installed
from django.apps.registry import Apps
from django.db import DEFAULT_DB_ALIAS, router

APPS = ("routing", "telemetry", "budgets", "governance")
"""The apps that roles speak of."""


@dataclass(frozen=True, slots=True)
class Role:
    """A role: the name of its group, what people are told of it, whether it may change anything."""

    group: str
    description: str
    may_change: bool

    def holds(self, codename: str) -> bool:
        """Whether a permission of one of the four apps belongs to the role."""
        return self.may_change or codename.startswith("view_")


OPERATOR = Role("operator", "Sets everything up and changes everything, but not who may log in.", may_change=True)
AUDITOR = Role("auditor", "Reads everything, the audit trail included, and changes nothing.", may_change=False)

ROLES: Mapping[str, Role] = MappingProxyType({role.group: role for role in (OPERATOR, AUDITOR)})
"""The built-in roles by group."""


def provide_roles(*, using: str = DEFAULT_DB_ALIAS, apps: Apps = installed, **_: Any) -> None:
    """Make the groups, or put them right. Receives ``post_migrate``, after Django has made the permissions.

    Permissions of other apps, which somebody may have given to a group, stay.
    """
    try:
        groups, permissions = apps.get_model("auth", "Group"), apps.get_model("auth", "Permission")
    except LookupError:  # a migration that has not come to the tables of log-ins yet
        return
    if not router.allow_migrate_model(using, groups):
        return
    ours = dict(
        permissions._base_manager.using(using)
        .filter(content_type__app_label__in=APPS)
        .order_by()
        .values_list("pk", "codename")
    )
    for role in ROLES.values():
        group, _made = groups._base_manager.using(using).get_or_create(name=role.group)
        held = set(group.permissions.filter(pk__in=ours).values_list("pk", flat=True))
        meant = {pk for pk, codename in ours.items() if role.holds(codename)}
        group.permissions.add(*(meant - held))
        group.permissions.remove(*(held - meant))
