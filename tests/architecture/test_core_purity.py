"""`routing.core` needs the standard library and nothing else: it can be read, tested and replayed without
Django."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

from routing import core

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    found.name for found in pkgutil.walk_packages(core.__path__, prefix=f"{core.__name__}.") if not found.ispkg
)


def imported_names(*, module: str) -> set[str]:
    """Every module that a module imports, at its top or anywhere inside."""
    source = (ROOT / Path(*module.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else node.module or "")
    return names


def test_there_is_a_core_to_look_at() -> None:
    assert MODULES


@pytest.mark.parametrize("module", MODULES)
def test_a_module_of_the_core_imports_the_standard_library_and_the_core(module: str) -> None:
    foreign = {
        name
        for name in imported_names(module=module)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and name != "routing.core"
        and not name.startswith("routing.core.")
    }
    assert foreign == set()


def test_a_fresh_interpreter_that_imports_the_core_has_no_django() -> None:
    script = (
        "import importlib, sys\n"
        f"for module in {MODULES!r}: importlib.import_module(module)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names))\n"
    )
    result = subprocess.run(
        # -S: site-packages is not even reachable, whatever its .pth files would import.
        [sys.executable, "-S", "-c", script],
        cwd=ROOT,
        env={"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "['__main__', 'routing']"
