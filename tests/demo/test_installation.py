"""Around the seed: the operator's log-in, files of secrets, and whose database it is."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.contrib.auth.models import User

from governance.access.roles import OPERATOR, ROLES
from governance.demo import ownership
from governance.demo.folder import DemoFolder, write_private
from governance.demo.operator import DemoLogin, email_of, provide_login, provide_logins
from governance.demo.running import DemoProblem, alone, environment, is_free
from governance.demo.seed import seed
from governance.models import SettingValue
from routing.models import Provider
from routing.vault import Vault
from telemetry.models import Call
from tests.factories import ProviderFactory

NOW = datetime(2026, 11, 27, 15, 20, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> DemoFolder:
    return DemoFolder(tmp_path / "demo")


# --- Files ----------------------------------------------------------------------------------------------------------


def test_nobody_else_may_read_what_is_private(folder: DemoFolder) -> None:
    folder.path.mkdir()
    folder.visitor_key.touch(mode=0o644)
    folder.write_keys({"visitor": "sb-visitor", "help-desk": "sb-desk"})
    for file in (folder.visitor_key, folder.traffic_keys):
        assert file.stat().st_mode & 0o777 == 0o600
    assert folder.visitor_key.read_text(encoding="utf-8") == "sb-visitor\n"
    assert json.loads(folder.traffic_keys.read_text(encoding="utf-8")) == {"help-desk": "sb-desk"}
    assert folder.read_keys() == {"visitor": "sb-visitor", "help-desk": "sb-desk"}


def test_keys_that_are_not_there_or_not_readable_are_no_keys(folder: DemoFolder) -> None:
    assert folder.read_keys() == {}
    write_private(folder.traffic_keys, "{")
    assert folder.read_keys() == {}


def test_two_demos_never_hold_one_folder(folder: DemoFolder) -> None:
    with alone(folder), pytest.raises(DemoProblem, match=rf"already \(process {os.getpid()}\)"), alone(folder):
        raise AssertionError("held twice")
    with alone(folder):
        assert folder.lock.exists()


def test_the_simulator_is_added_to_the_addresses_that_may_be_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_OUTBOUND_ALLOW", "models.internal:443")
    assert environment(simulator=8900)["SIGNALBOX_OUTBOUND_ALLOW"] == "models.internal:443,127.0.0.1:8900"
    monkeypatch.setenv("SIGNALBOX_OUTBOUND_ALLOW", "")
    assert environment(simulator=8901)["SIGNALBOX_OUTBOUND_ALLOW"] == "127.0.0.1:8901"


def test_a_port_is_free_or_not() -> None:
    assert not is_free(1) or os.geteuid() == 0


# --- The log-ins ----------------------------------------------------------------------------------------------------


def operator_of(folder: DemoFolder) -> DemoLogin:
    return provide_login(folder, OPERATOR)


@pytest.mark.django_db
def test_the_operator_keeps_their_password(folder: DemoFolder) -> None:
    first, second = operator_of(folder), operator_of(folder)
    assert first == second
    assert folder.password_of("operator").stat().st_mode & 0o777 == 0o600
    user = User.objects.get()
    assert first.password is not None
    assert user.check_password(first.password)
    assert (user.is_staff, user.is_superuser, user.email) == (True, False, "operator@demo.invalid")


@pytest.mark.django_db
def test_there_is_a_login_for_each_role(folder: DemoFolder) -> None:
    logins = provide_logins(folder)
    assert [login.username for login in logins] == list(ROLES)
    for login in logins:
        user = User.objects.get(username=login.username)
        assert login.password is not None
        assert user.check_password(login.password)
        assert [group.name for group in user.groups.all()] == [login.username]
        assert user.email == email_of(ROLES[login.username])
        assert folder.password_of(login.username).stat().st_mode & 0o777 == 0o600
    assert len({login.password for login in logins}) == len(ROLES)


@pytest.mark.django_db
def test_a_password_that_somebody_changed_is_left_alone(folder: DemoFolder) -> None:
    operator_of(folder)
    user = User.objects.get()
    user.set_password("chosen by somebody")
    user.save()
    assert operator_of(folder).password is None
    user.refresh_from_db()
    assert user.check_password("chosen by somebody")


@pytest.mark.django_db
def test_a_lost_password_is_made_anew(folder: DemoFolder) -> None:
    lost = operator_of(folder).password
    folder.password_of("operator").unlink()
    found = operator_of(folder).password
    assert found is not None
    assert found != lost
    assert User.objects.get().check_password(found)


@pytest.mark.django_db
def test_somebody_elses_operator_is_left_alone(folder: DemoFolder) -> None:
    User.objects.create_user("operator", email="them@example.invalid", password="theirs")
    assert operator_of(folder).password is None
    assert User.objects.get().check_password("theirs")


# --- Whose database -------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_empty_database_becomes_the_demos_own(folder: DemoFolder) -> None:
    assert not ownership.is_own(folder)
    assert ownership.claim(folder)
    ProviderFactory()
    assert ownership.claim(folder), "and stays so, whatever is added"


@pytest.mark.django_db
def test_a_database_with_anything_in_it_does_not(folder: DemoFolder) -> None:
    ProviderFactory()
    assert not ownership.claim(folder)
    assert not folder.own_database.exists()


@pytest.mark.django_db
def test_the_mark_of_one_database_says_nothing_about_another(folder: DemoFolder) -> None:
    ProviderFactory()
    write_private(folder.own_database, "postgresql elsewhere db.invalid 5432\n")
    assert not ownership.claim(folder)


@pytest.mark.django_db
def test_starting_over_as_a_guest_removes_the_demos_rows_alone(folder: DemoFolder) -> None:
    ProviderFactory(identifier="theirs")
    seed(
        now=NOW,
        simulator="http://127.0.0.1:8900",
        vault=Vault([("k1", bytes(32))]),
        set_policy=False,
        length=timedelta(hours=1),
    )
    folder.write_keys({"visitor": "sb-1"})
    ownership.start_over(folder)
    assert [each.identifier for each in Provider.objects.all()] == ["theirs"]
    assert not Call.objects.exists()
    assert not folder.visitor_key.exists()


@pytest.mark.django_db(transaction=True)
def test_starting_over_at_home_empties_a_database_that_is_no_file(
    folder: DemoFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = SimpleNamespace(
        vendor="postgresql", settings_dict={"NAME": "signalbox", "HOST": "db.invalid", "PORT": "5432"}
    )
    monkeypatch.setattr(ownership, "connection", connection)
    assert ownership.claim(folder)
    ProviderFactory(identifier="added-by-a-visitor")
    SettingValue(key="routing.callHistory", value=True).save()
    ownership.start_over(folder)
    assert not Provider.objects.exists()
    assert not SettingValue.objects.exists()
