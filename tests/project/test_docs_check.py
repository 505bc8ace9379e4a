"""`docs/check.py` finds what it is there to find."""

import subprocess
from pathlib import Path

import pytest

from tests.project.processes import run_python

SETTING = 'A = env.envbool("SIGNALBOX_A", default=False)\nB = envsecret("DATABASE_URL")\n'
TABLE = "# Configuration\n\n| variable | meaning |\n|---|---|\n| `SIGNALBOX_A` | a |\n| `DATABASE_URL` | b |\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small tree in which everything is in order."""
    (tmp_path / "governance/project/settings").mkdir(parents=True)
    (tmp_path / "governance/project/settings/installation.py").write_text(SETTING, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/configuration.md").write_text(TABLE, encoding="utf-8")
    (tmp_path / "README.md").write_text(
        "# Two words, `code`\n\n## Again\n\n## Again\n\n"
        "[a](docs/configuration.md#configuration) [b](#two-words-code)\n"
        "[c](#again-1) [d](https://example.org/none) ![e](docs/)\n\n```\n[f](none.md)\n```\n`[g](none.md)`\n",
        encoding="utf-8",
    )
    return tmp_path


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return run_python("docs/check.py", "--root", str(root), environ={})


def test_a_tree_in_order_passes(tree: Path) -> None:
    result = check(tree)
    assert (result.returncode, result.stderr) == (0, "")
    assert "2 pages, 0 problems" in result.stdout


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("none.md", "leads to no file"),
        ("../outside.md", "leads to no file"),
        ("#nowhere", "leads to no heading"),
        ("#again-2", "leads to no heading"),
        ("docs/configuration.md#nowhere", "leads to no heading"),
    ],
)
def test_a_broken_link_is_found(tree: Path, link: str, told: str) -> None:
    (tree.parent / "outside.md").write_text("# Outside\n", encoding="utf-8")
    with (tree / "README.md").open("a", encoding="utf-8") as readme:
        readme.write(f"\n[broken]({link})\n")
    result = check(tree)
    assert result.returncode == 1
    assert result.stderr.strip() == f"README.md: the link {link} {told}"


def test_a_variable_that_is_not_documented_is_found(tree: Path) -> None:
    (tree / "governance/project/settings/more.py").write_text('x = envint("REDIS_URL", default=1)\n', encoding="utf-8")
    result = check(tree)
    assert result.returncode == 1
    assert result.stderr.strip() == "docs/configuration.md: REDIS_URL is read and missing here"


def test_a_variable_that_nothing_reads_is_found(tree: Path) -> None:
    (tree / "docs/configuration.md").write_text(TABLE + "| `SIGNALBOX_GONE` | c |\n", encoding="utf-8")
    result = check(tree)
    assert result.returncode == 1
    assert result.stderr.strip() == "docs/configuration.md: SIGNALBOX_GONE is read by no setting"


@pytest.fixture
def registry(tree: Path) -> Path:
    """The module that prints the page of settings, in the small tree."""
    module = tree / "governance/settings_store/page.py"
    module.parent.mkdir(parents=True)
    module.write_text('print("# Settings")\n', encoding="utf-8")
    (tree / "docs/settings.md").write_text("# Settings\n", encoding="utf-8")
    return module


def test_the_page_of_settings_is_compared_with_the_registry(tree: Path, registry: Path) -> None:
    assert check(tree).returncode == 0
    registry.write_text('print("# Settings, and a new one")\n', encoding="utf-8")
    stale = check(tree)
    (tree / "docs/settings.md").unlink()
    missing = check(tree)
    for result in (stale, missing):
        assert result.returncode == 1
        assert result.stderr.strip() == ("docs/settings.md: is not what the registry says; `make format` makes it anew")


def test_a_registry_that_cannot_be_read_is_told(tree: Path, registry: Path) -> None:
    registry.write_text('raise SystemExit("no such setting")\n', encoding="utf-8")
    result = check(tree)
    assert result.returncode == 1
    assert "governance/settings_store/page.py: cannot be run: no such setting" in result.stderr
