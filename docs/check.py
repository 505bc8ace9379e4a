"""Checks what the documentation promises: that every link inside it leads somewhere, that `configuration.md` lists
exactly the environment variables that the settings read, that pages made from the code are what the code makes, and
that the index of decisions names every record once and in order. Run by `make lint`; `--root` checks another tree.

Needs nothing but the standard library, and reads the settings as text: it must not need an environment. The
modules that print pages need no settings either.
"""

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

SETTINGS = Path("governance/project/settings")
CONFIGURATION = Path("docs/configuration.md")
DECISIONS = Path("docs/decisions/README.md")
# Pages that modules print.
PRINTED = {
    Path("docs/settings.md"): Path("governance/settings_store/page.py"),
    Path("docs/protocols.md"): Path("governance/gateway/protocols/page.py"),
    Path("docs/failures.md"): Path("governance/gateway/failures.py"),
}
# The functions of `environment`; a variable that may also be given as a file is documented by its bare name.
READERS = re.compile(r"env[a-z]+")
RECORD_ROW = re.compile(r"^\|\s*\[\d+\]\(([^)]+)\)", re.MULTILINE)
VARIABLE_ROW = re.compile(r"^\|\s*`([A-Z][A-Z0-9_]+)`\s*\|", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
FENCED = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE_SPAN = re.compile(r"`[^`\n]*`")
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    root: Path = parser.parse_args().root.resolve()
    problems = [
        *find_broken_links(root=root),
        *compare_variables(root=root),
        *compare_printed(root=root),
        *compare_records(root=root),
    ]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"docs: {len(pages(root=root))} pages, {len(problems)} problems")
    return 1 if problems else 0


def pages(*, root: Path) -> list[Path]:
    """Every page: those at the top of the tree, and all below `docs`."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def find_broken_links(*, root: Path) -> list[str]:
    """One sentence for each relative link whose file or heading does not exist."""
    problems = []
    for page in pages(root=root):
        text = CODE_SPAN.sub("", FENCED.sub("", page.read_text(encoding="utf-8")))
        for target in LINK.findall(text):
            if EXTERNAL.match(target):
                continue
            path, _, anchor = unquote(target).partition("#")
            file = (page.parent / path).resolve() if path else page
            where = f"{page.relative_to(root)}: the link {target}"
            if not file.is_relative_to(root) or not file.exists():
                problems.append(f"{where} leads to no file")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file=file):
                problems.append(f"{where} leads to no heading")
    return problems


def anchors(*, file: Path) -> set[str]:
    """The anchors of a page's headings, made as the common forges make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", file.read_text(encoding="utf-8"))):
        words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        anchor, count = words, 0
        while anchor in found:
            count += 1
            anchor = f"{words}-{count}"
        found.add(anchor)
    return found


def compare_variables(*, root: Path) -> list[str]:
    """One sentence for each variable that is read and not documented, or the other way round."""
    documented = set(VARIABLE_ROW.findall((root / CONFIGURATION).read_text(encoding="utf-8")))
    read = read_variables(folder=root / SETTINGS)
    return [
        *(f"{CONFIGURATION}: {name} is read and missing here" for name in sorted(read - documented)),
        *(f"{CONFIGURATION}: {name} is read by no setting" for name in sorted(documented - read)),
    ]


def compare_printed(*, root: Path) -> list[str]:
    """One sentence for each page that is not what its module prints."""
    problems = []
    for page, prints in PRINTED.items():
        if not (root / prints).exists():
            continue
        module = ".".join(prints.with_suffix("").parts)
        made = subprocess.run(  # noqa: S603  (our own module)
            [sys.executable, "-m", module], cwd=root, capture_output=True, text=True, encoding="utf-8", check=False
        )
        if made.returncode != 0:
            problems.append(f"{prints}: cannot be run: {made.stderr.strip()}")
        elif not (root / page).exists() or (root / page).read_text(encoding="utf-8") != made.stdout:
            problems.append(f"{page}: is not what the code says; `make format` makes it anew")
    return problems


def compare_records(*, root: Path) -> list[str]:
    """A sentence if the index of decisions does not name the records that are there, in their order."""
    there = sorted(file.name for file in (root / DECISIONS).parent.glob("[0-9]*.md"))
    if not there:
        return []
    named = RECORD_ROW.findall((root / DECISIONS).read_text(encoding="utf-8"))
    problems = [f"{DECISIONS}: {name} is not in the index" for name in there if name not in named]
    if not problems and named != there:
        problems = [f"{DECISIONS}: a record is named twice, or out of its order"]
    return problems


def read_variables(*, folder: Path) -> set[str]:
    """The names that are handed, as literals, to a function called `env…`."""
    names = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            first = node.args[0]
            if READERS.fullmatch(called) and isinstance(first, ast.Constant) and isinstance(first.value, str):
                names.add(first.value)
    return names


if __name__ == "__main__":
    sys.exit(main())
