"""``manage.py explain``: decisions on paper, over scenario files, without database, checks or environment."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from routing.core.decision import Decision
from routing.core.fields import printable
from routing.core.scenario import Scenario, ScenarioError, differences, load_scenario
from routing.core.transcript import outline
from routing.management.rendering import describe

MALFORMED = 2
UNMET = 1


class _Unreadable(Exception):
    """A path that is no scenario: the message is the one line a person reads."""


@dataclass(frozen=True, slots=True)
class _Explained:
    """A scenario file, its decision, and where that departs from what the file expects."""

    name: str
    decision: Decision
    differences: tuple[str, ...]
    has_expectation: bool


class Command(BaseCommand):
    """Explain scenario files; a file with an ``expect`` block is a test as well."""

    help = "Explain which model a scenario file leads to, and check it against its `expect` block."
    requires_system_checks: list[str] = []  # noqa: RUF012  (as Django declares it)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", metavar="SCENARIO", help="a scenario file, or a folder of *.json files")
        parser.add_argument("--json", action="store_true", help="print the outcome as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        paths = [Path(each) for each in options["paths"]]
        explained, problems = _explain(paths)
        for problem in problems:
            self.stderr.write(problem)
        if problems:
            sys.exit(MALFORMED)
        if options["json"]:
            several = len(paths) > 1 or paths[0].is_dir()
            self.stdout.write(json.dumps(_result(explained, several=several), indent=2))
        else:
            self.stdout.write("\n\n".join("\n".join(_text(each)) for each in explained))
        unmet = [each for each in explained if each.differences]
        if options["json"]:
            for each in unmet:
                self.stderr.write("\n".join(f"{each.name}: {line}" for line in each.differences))
        if unmet:
            sys.exit(UNMET)


def _explain(paths: Iterable[Path]) -> tuple[list[_Explained], list[str]]:
    """Every scenario behind the paths, and a line for each that cannot be read."""
    explained, problems = [], []
    for path in paths:
        try:
            files = _files(path)
        except _Unreadable as error:
            problems.append(str(error))
            continue
        for file in files:
            try:
                explained.append(_decided(file, _scenario(file)))
            except _Unreadable as error:
                problems.append(str(error))
    return explained, problems


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.glob("*.json"))
    if not files:
        raise _Unreadable(f"{printable(str(path))}: the folder holds no *.json file")
    return files


def _scenario(file: Path) -> Scenario:
    name = printable(str(file))
    try:
        return load_scenario(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise _Unreadable(f"{name}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _Unreadable(f"{name}: not UTF-8 from byte {error.start}") from error
    except ScenarioError as error:
        raise _Unreadable(f"{name}: {error}") from error


def _decided(file: Path, scenario: Scenario) -> _Explained:
    decision = scenario.decide()
    expect = scenario.expect
    return _Explained(
        name=printable(str(file)),
        decision=decision,
        differences=() if expect is None else tuple(differences(expect, decision)),
        has_expectation=expect is not None,
    )


def _result(explained: list[_Explained], *, several: bool) -> object:
    if several:
        return [{"file": each.name, "result": outline(each.decision)} for each in explained]
    return outline(explained[0].decision)


def _text(each: _Explained) -> list[str]:
    lines = [each.name, *describe(each.decision)]
    if each.differences:
        return [*lines, "", "NOT as expected:", *(f"  {line}" for line in each.differences)]
    return [*lines, "", "As expected."] if each.has_expectation else lines
