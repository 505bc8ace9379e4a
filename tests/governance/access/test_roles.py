"""The built-in roles as groups: there after migrating, put right by the next migration, and no wider than they say."""

import pytest
from django.apps import apps
from django.contrib.auth.management import create_permissions
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db.migrations.state import ProjectState
from pytest_django import DjangoAssertNumQueries

from governance.access.roles import APPS, AUDITOR, OPERATOR, ROLES, provide_roles

pytestmark = pytest.mark.django_db


def held(name: str) -> set[str]:
    rows = Permission.objects.filter(group__name=name).values_list("content_type__app_label", "codename")
    return {f"{app}.{codename}" for app, codename in rows}


def test_the_groups_are_there_after_migrating() -> None:
    assert set(Group.objects.values_list("name", flat=True)) >= set(ROLES) == {"operator", "auditor"}


def test_an_operator_holds_everything_in_the_four_apps_and_nothing_beside_it() -> None:
    every = Permission.objects.filter(content_type__app_label__in=APPS)
    assert held("operator") == {f"{each.content_type.app_label}.{each.codename}" for each in every}
    assert {name.partition(".")[0] for name in held("operator")} <= set(APPS)


def test_an_auditor_may_look_at_every_table_and_change_none() -> None:
    tables = [model for app in APPS for model in apps.get_app_config(app).get_models()]
    assert held("auditor") == {f"{table._meta.app_label}.view_{table._meta.model_name}" for table in tables}


def test_what_a_new_table_brings_is_given_at_the_next_migration() -> None:
    for name in ("view_provider", "change_provider"):
        Permission.objects.get(content_type__app_label="routing", codename=name).delete()
    assert "routing.view_provider" not in held("auditor")
    create_permissions(apps.get_app_config("routing"), verbosity=0)
    call_command("migrate", verbosity=0)
    assert "routing.view_provider" in held("auditor")
    assert {"routing.view_provider", "routing.change_provider"} <= held("operator")


def test_what_a_role_must_not_have_is_taken_and_what_is_none_of_ours_stays() -> None:
    auditor = Group.objects.get(name=AUDITOR.group)
    ours = Permission.objects.get(content_type__app_label="routing", codename="change_provider")
    theirs = Permission.objects.get(content_type__app_label="auth", codename="view_user")
    auditor.permissions.add(ours, theirs)
    provide_roles()
    assert "routing.change_provider" not in held("auditor")
    assert "auth.view_user" in held("auditor")


def test_other_groups_are_left_alone() -> None:
    helpers = Group.objects.create(name="night shift")
    helpers.permissions.add(Permission.objects.get(content_type__app_label="routing", codename="change_provider"))
    provide_roles()
    assert held("night shift") == {"routing.change_provider"}


def test_a_second_time_writes_nothing(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    provide_roles()
    before = {name: held(name) for name in ROLES}
    with django_assert_num_queries(1 + 2 * len(ROLES)):
        provide_roles()
    assert {name: held(name) for name in ROLES} == before


def test_a_migration_without_the_tables_of_log_ins_is_none_of_our_business() -> None:
    provide_roles(apps=ProjectState().apps)


def test_roles_are_described_to_people() -> None:
    for role in ROLES.values():
        assert role.description.endswith(".")
    assert (OPERATOR.may_change, AUDITOR.may_change) == (True, False)
