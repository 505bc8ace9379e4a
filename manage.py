#!/usr/bin/env python3
"""The command line. What is decided here, before Django loads, is which settings a command runs under:

* `explain` replays a decision from a file. It needs no database and must work without any environment, so
  it runs under `settings.paper`, which reads nothing. That choice cannot be made inside the settings
  without making them guess at `sys.argv`; here `sys.argv` is what we are reading anyway.
* `demo` runs an installation of its own whose keys nobody has to think of: they are made once and kept in
  its data folder, and reach the settings the way every other installation's do, through the environment.
  `remove_demo` finds them there.
* everything else runs under `settings.installation`.

`DJANGO_SETTINGS_MODULE` overrides the choice.
"""

import os
import sys

from django.core.management import execute_from_command_line

from governance.project.settings import demo_environment
from governance.project.settings.environment import EnvironmentProblem

INSTALLATION = "governance.project.settings.installation"
PAPER = "governance.project.settings.paper"


def main() -> None:
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", PAPER if command == "explain" else INSTALLATION)
    try:
        if command in ("demo", "remove_demo"):
            demo_environment.provide(environ=os.environ, make=command == "demo")
        execute_from_command_line(sys.argv)
    except EnvironmentProblem as problem:
        sys.exit(f"signalbox: {problem}")


if __name__ == "__main__":
    main()
