"""Every management command has a test file that bears its name, or a folder of them."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = sorted(
    command.relative_to(ROOT).as_posix()
    for app in ("routing", "telemetry", "budgets", "governance")
    for command in (ROOT / app / "management" / "commands").glob("*.py")
    if not command.name.startswith("_")
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_test_file(command: str) -> None:
    name = Path(command).stem
    tests = [*(ROOT / "tests").rglob(f"test_{name}.py"), *(ROOT / "tests").rglob(f"{name}/test_*.py")]
    assert tests, f"{command} has neither a test_{name}.py nor a folder {name} with tests"
