"""Words that must not be in any file of the project: addresses of package registries, folders of the
machine that a file was written on, and talk about who or what helped to write it.

The words are put together here, so that this file does not hold them either.
"""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FORBIDDEN = {
    "the address of a registry": "|".join(
        [
            "py" + r"pi\.(?:org|python)",
            "python" + r"hosted\.",
            "npm" + r"js\.(?:org|com)",
            "deb" + r"\.debian\.org",
        ]
    ),
    "a folder of somebody's machine": r"(?<![\w.}/-])/(?:" + "|".join(["wo" + "rk", "t" + "mp", "ro" + "ot"]) + r")/",
    "talk about tools": "|".join(
        [
            "co-authored" + "-by:",
            "sub-?" + "agents?",
            r"\bai[- ]" + "(?:generated|assisted|written)",
            "generated " + "with",
        ]
    ),
}


def texts() -> list[tuple[str, str]]:
    """Path and content of every file that is or would be in the repository, but for binary ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        file = ROOT / name
        content = file.read_bytes() if file.is_file() else b""
        if b"\0" not in content:
            found.append((name, content.decode("utf-8", errors="replace")))
    return found


@pytest.mark.parametrize("what", sorted(FORBIDDEN))
def test_no_file_holds_a_forbidden_word(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.IGNORECASE)
    hits = [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {hit.group(0)}"
        for name, text in texts()
        for hit in pattern.finditer(text)
    ]
    assert hits == [], f"{what}: {hits}"


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("the address of a registry", "see files.python" + "hosted.org"),
        ("a folder of somebody's machine", "open('/t" + "mp/x')"),
        ("talk about tools", "Co-Authored" + "-By: somebody"),
    ],
)
def test_the_words_are_recognised(what: str, text: str) -> None:
    assert re.search(FORBIDDEN[what], text, re.IGNORECASE)
