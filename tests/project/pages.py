"""What a page of the documentation tells its readers to type, so that tests can do so."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.project.processes import ROOT

_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its sections, which second-level headings begin."""

    sections: dict[str, str]

    def blocks(self, section: str, language: str) -> list[str]:
        """The fenced blocks of a language below a heading, in their order."""
        return [text for found, text in _FENCED.findall(self.sections[section]) if found == language]

    def block(self, section: str, language: str, *, containing: str = "") -> str:
        """The only such block, or the only one with a word in it."""
        (found,) = (text for text in self.blocks(section, language) if containing in text)
        return found


def read_page(path: str) -> Page:
    """A page below the project's folder."""
    text = (ROOT / path).read_text(encoding="utf-8")
    parts = _HEADING.split(text)
    return Page(dict(zip(parts[1::2], parts[2::2], strict=True)))


def read_assignments(block: str) -> dict[str, str]:
    """The lines `NAME=value` of a block."""
    return dict(line.split("=", 1) for line in block.splitlines() if line and not line.startswith("#"))


def installed_at(text: str, *, configuration: Path) -> str:
    """The text for an installation whose configuration lies in another folder, and that runs from this one."""
    return text.replace("/etc/signalbox", str(configuration)).replace("/opt/signalbox", str(ROOT))
