"""The stack is what the architecture says, in its order, and its layers know nothing of each other."""

import ast
from pathlib import Path

import pytest

from governance.gateway import middleware, stack

ORDER = (
    "telemetry", "replay", "admission", "content", "decide", "cache", "fall_through", "circuit", "schema", "retry",
    "budget", "provider_call",
)  # fmt: skip
FOLDER = Path(middleware.__file__).parent
FILES = sorted(path for path in FOLDER.glob("*.py") if path.stem != "__init__")


def test_the_order() -> None:
    names = [layer.__module__.rpartition(".")[2] for layer in stack.STACK]
    assert names == [name for name in ORDER if name in names]
    assert {path.stem for path in FILES} == set(names)  # what is built stands in the stack


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_layer_knows_no_other_layer(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        assert not [
            name for name in names if name.startswith(("governance.gateway.middleware", "governance.gateway.stack"))
        ]
