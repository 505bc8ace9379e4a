"""What `.ci/upgrade` runs in the new state is text, which no type checker reads: its imports are tried here."""

import ast
import importlib
import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_what_reads_the_upgraded_database_finds_what_it_imports() -> None:
    script = runpy.run_path(str(ROOT / ".ci/upgrade"), run_name="upgrade")
    named = [
        (node.module or "", alias.name)
        for node in ast.walk(ast.parse(script["READ"]))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert ("routing.snapshots", "load_snapshot") in named
    missing = [f"{module}.{name}" for module, name in named if not hasattr(importlib.import_module(module), name)]
    assert not missing
