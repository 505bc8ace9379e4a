"""The files and commands of a page of the documentation."""

import re
from pathlib import Path

from tests.servers.web import ROOT

FILE = re.compile(r"^`([\w/]+\.py)`:\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files_of(page: str) -> dict[str, str]:
    """The content of each file that the page shows, by path."""
    return dict(FILE.findall(_read(page)))


def commands_of(page: str) -> list[str]:
    """Each command line that the page shows."""
    return [line for block in COMMANDS.findall(_read(page)) for line in block.splitlines()]


def write_files(page: str, folder: Path) -> None:
    """Make the files of a page in a folder."""
    for path, content in files_of(page).items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")


def _read(page: str) -> str:
    return (ROOT / "docs" / page).read_text(encoding="utf-8")
