"""The demo's environment is made once, kept, and never wins over what is set."""

import json
from pathlib import Path

import pytest

from governance.project.settings import demo_environment
from governance.project.settings import environment as env


def test_the_demo_gets_keys_that_the_settings_accept(tmp_path: Path) -> None:
    environ: dict[str, str] = {}
    demo_environment.provide(environ=environ, folder=tmp_path / "demo")
    assert len(env.envsecretkey("SIGNALBOX_SECRET_KEY", environ=environ)) >= 50
    ((key_id, material),) = env.envkeyring("SIGNALBOX_ENCRYPTION_KEYS", environ=environ)
    assert (key_id, len(material)) == ("demo", 32)
    assert environ["SIGNALBOX_DATA_DIR"] == str(tmp_path / "demo")
    assert env.envbool("SIGNALBOX_INSECURE_HTTP", default=False, environ=environ) is True


def test_a_second_start_finds_the_keys_of_the_first(tmp_path: Path) -> None:
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    elsewhere: dict[str, str] = {}
    demo_environment.provide(environ=first, folder=tmp_path / "demo")
    demo_environment.provide(environ=second, folder=tmp_path / "demo")
    demo_environment.provide(environ=elsewhere, folder=tmp_path / "another")
    assert first == second
    assert first["SIGNALBOX_ENCRYPTION_KEYS"] != elsewhere["SIGNALBOX_ENCRYPTION_KEYS"]


def test_whoever_takes_the_demo_away_finds_what_it_made_and_makes_nothing(tmp_path: Path) -> None:
    made: dict[str, str] = {}
    found: dict[str, str] = {}
    installation = {"SIGNALBOX_DATA_DIR": str(tmp_path / "installation"), "SIGNALBOX_SECRET_KEY": "s"}
    demo_environment.provide(environ=found, folder=tmp_path / "demo", make=False)
    assert (found, list(tmp_path.iterdir())) == ({}, [])
    demo_environment.provide(environ=made, folder=tmp_path / "demo")
    demo_environment.provide(environ=found, folder=tmp_path / "demo", make=False)
    assert found == made
    before = dict(installation)
    demo_environment.provide(environ=installation, folder=tmp_path / "demo", make=False)
    assert installation == before
    assert not (tmp_path / "installation").exists()


def test_a_folder_that_the_settings_refuse_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(env.EnvironmentProblem, match="relative path"):
        demo_environment.provide(environ={"SIGNALBOX_DATA_DIR": "demo"}, folder=tmp_path / "default")
    assert not list(tmp_path.iterdir())


def test_nobody_else_may_read_the_keys(tmp_path: Path) -> None:
    demo_environment.provide(environ={}, folder=tmp_path / "demo")
    assert (tmp_path / "demo").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "demo" / demo_environment.KEYS_FILE).stat().st_mode & 0o777 == 0o600


def test_what_is_set_already_wins(tmp_path: Path) -> None:
    environ = {
        "SIGNALBOX_DATA_DIR": str(tmp_path / "chosen"),
        "SIGNALBOX_SECRET_KEY_FILE": "somewhere",
        "SIGNALBOX_INSECURE_HTTP": "0",
    }
    demo_environment.provide(environ=environ, folder=tmp_path / "not chosen")
    assert environ["SIGNALBOX_DATA_DIR"] == str(tmp_path / "chosen")
    assert environ["SIGNALBOX_INSECURE_HTTP"] == "0"
    assert "SIGNALBOX_SECRET_KEY" not in environ
    assert not (tmp_path / "not chosen").exists()
    stored = json.loads((tmp_path / "chosen" / demo_environment.KEYS_FILE).read_text(encoding="utf-8"))
    assert environ["SIGNALBOX_ENCRYPTION_KEYS"] == stored["SIGNALBOX_ENCRYPTION_KEYS"]
