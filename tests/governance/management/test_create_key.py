"""`manage.py create_key` hands a secret over once, to its caller or into a private file."""

import stat
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from governance.access.directory import load_directory
from governance.access.keys import digest_of
from governance.models import AccessKey
from tests.factories import ApplicationFactory, ConfigurationFactory, LanguageModelFactory

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    stdout, stderr = StringIO(), StringIO()
    call_command("create_key", *arguments, stdout=stdout, stderr=stderr)
    return stdout.getvalue(), stderr.getvalue()


def test_the_secret_alone_goes_to_standard_output() -> None:
    ApplicationFactory.create()
    stdout, stderr = run("--application", "helpdesk", "--name", "Ticket robot")
    secret = stdout.removesuffix("\n")
    key = AccessKey.objects.get()
    assert key.secret_digest == digest_of(secret)
    assert (key.name, key.application.identifier) == ("Ticket robot", "helpdesk")
    assert (key.allowed_configurations, key.allowed_models, key.may_name_models) == (None, None, False)
    assert secret not in stderr
    assert "helpdesk: Ticket robot" in stderr
    assert load_directory().recognise(secret, now=timezone.now()) is not None


def test_what_it_allows_is_named_once_each() -> None:
    ApplicationFactory.create()
    for identifier in ("support-chat", "plain-chat"):
        ConfigurationFactory.create(identifier=identifier)
    LanguageModelFactory.create()
    run(
        *("--application", "helpdesk", "--name", "Robot", "--may-name-models"),
        *("--configuration", "support-chat", "plain-chat", "--configuration", "support-chat", "--model", "fast"),
    )
    key = AccessKey.objects.get()
    assert key.allowed_configurations == ["support-chat", "plain-chat"]
    assert key.allowed_models == ["fast"]
    assert key.may_name_models is True


def test_a_file_is_new_private_and_holds_the_secret_alone(tmp_path: Path) -> None:
    ApplicationFactory.create()
    file = tmp_path / "key"
    stdout, stderr = run("--application", "helpdesk", "--name", "Robot", "--output", str(file))
    secret = file.read_text(encoding="ascii").removesuffix("\n")
    assert AccessKey.objects.get().secret_digest == digest_of(secret)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in stdout + stderr
    assert str(file) in stdout


def test_a_file_that_is_there_is_left_alone_and_no_key_is_made(tmp_path: Path) -> None:
    ApplicationFactory.create()
    file = tmp_path / "key"
    file.write_text("precious", encoding="ascii")
    with pytest.raises(CommandError, match="is there already"):
        run("--application", "helpdesk", "--name", "Robot", "--output", str(file))
    assert file.read_text(encoding="ascii") == "precious"
    assert not AccessKey.objects.exists()


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    ApplicationFactory.create()
    with pytest.raises(CommandError, match="cannot be written: No such file or directory"):
        run("--application", "helpdesk", "--name", "Robot", "--output", str(tmp_path / "none" / "key"))
    assert not AccessKey.objects.exists()


def test_a_name_that_is_refused_leaves_no_file_behind(tmp_path: Path) -> None:
    ApplicationFactory.create()
    file = tmp_path / "key"
    with pytest.raises(CommandError):
        run("--application", "helpdesk", "--name", "x" * 300, "--output", str(file))
    assert not file.exists()
    assert not AccessKey.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--application", "sales"), "There is no application sales; choose one of helpdesk."),
        (("--application", "old"), "There is no application old"),
        (("--application", "helpdesk", "--configuration", "none"), "--configuration: there is no none; there is none"),
        (("--application", "helpdesk", "--model", "fast", "huge"), "--model: there is no huge; choose one of fast."),
    ],
)
def test_a_name_that_stands_for_nothing_is_refused(arguments: tuple[str, ...], complaint: str) -> None:
    ApplicationFactory.create()
    ApplicationFactory.create(identifier="old", retired_at=timezone.now() - timedelta(days=1))
    LanguageModelFactory.create()
    with pytest.raises(CommandError, match=complaint):
        run(*arguments, "--name", "Robot")
    assert not AccessKey.objects.exists()
