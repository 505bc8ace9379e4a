"""The lock files: a hash for every package, an address for none, and the same versions in both."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-dev.lock")
PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^ \\;]+)(?: ; [^\\]+)? \\$")


def entries(*, lock: str) -> dict[tuple[str, str], int]:
    """Hashes by package and version."""
    found: dict[tuple[str, str], int] = {}
    current: tuple[str, str] | None = None
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        if pin := PIN.match(line):
            current = (pin[1], pin[2])
            found[current] = 0
        elif re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?", line):
            assert current is not None
            found[current] += 1
        else:
            assert re.match(r"^    #", line), f"{lock} has a line of another kind: {line}"
    return found


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_has_a_version_and_hashes(lock: str) -> None:
    found = entries(lock=lock)
    assert ("django", "5.2") < max(entry for entry in found if entry[0] == "django") < ("django", "5.3")
    assert [entry for entry, hashes in found.items() if hashes == 0] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_no_lock_file_holds_an_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert re.findall(r"[a-z]+://|--(?:extra-)?index|--find-links", text) == []


def test_both_lock_files_agree() -> None:
    assert set(entries(lock="requirements.lock")) - set(entries(lock="requirements-dev.lock")) == set()
