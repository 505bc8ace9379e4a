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


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ([1, 2], ""),
        ([1], "0002-x.md is not in the index"),
        ([2, 1], "a record is named twice, or out of its order"),
        ([1, 1, 2], "a record is named twice, or out of its order"),
    ],
)
def test_the_index_of_decisions_names_each_once_and_in_order(tree: Path, index: list[int], told: str) -> None:
    folder = tree / "docs/decisions"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"000{number}-x.md").write_text("# A record\n", encoding="utf-8")
    rows = [f"| [000{number}](000{number}-x.md) | A record |\n" for number in index]
    (folder / "README.md").write_text("# Records\n\n| | |\n|---|---|\n" + "".join(rows), encoding="utf-8")
    assert check(tree).stderr.strip() == (f"docs/decisions/README.md: {told}" if told else "")


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


PRINTED = [("settings", "settings_store"), ("protocols", "gateway/protocols")]


@pytest.fixture(params=PRINTED, ids=[page for page, _ in PRINTED])
def printed(tree: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """A page and the module that prints it, in the small tree."""
    name, folder = request.param
    module, page = tree / f"governance/{folder}/page.py", tree / f"docs/{name}.md"
    module.parent.mkdir(parents=True)
    module.write_text('print("# A page")\n', encoding="utf-8")
    page.write_text("# A page\n", encoding="utf-8")
    return page, module


def test_a_page_is_compared_with_the_code_that_prints_it(tree: Path, printed: tuple[Path, Path]) -> None:
    page, module = printed
    assert check(tree).returncode == 0
    module.write_text('print("# A page, and something new")\n', encoding="utf-8")
    stale = check(tree)
    page.unlink()
    missing = check(tree)
    for result in (stale, missing):
        assert result.returncode == 1
        assert result.stderr.strip() == f"docs/{page.name}: is not what the code says; `make format` makes it anew"


def test_code_that_cannot_print_its_page_is_told(tree: Path, printed: tuple[Path, Path]) -> None:
    _, module = printed
    module.write_text('raise SystemExit("no such field")\n', encoding="utf-8")
    result = check(tree)
    assert result.returncode == 1
    assert f"{module.relative_to(tree)}: cannot be run: no such field" in result.stderr
