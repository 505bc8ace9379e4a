"""``manage.py demo``: a running installation with simulated providers, a past and traffic, until it is stopped."""

import os
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connections
from django.utils import timezone

from governance.audit.actions import Author, Channel
from governance.changes.settings import store_setting
from governance.demo import arguments, running
from governance.demo.folder import DemoFolder
from governance.demo.operator import DemoLogin, provide_logins
from governance.demo.ownership import claim, start_over
from governance.demo.processes import Children
from governance.demo.removal import RemovalBlocked
from governance.demo.running import DemoProblem
from governance.demo.seed import SeedConflict, Seeded, seed
from governance.demo.spending import book_past
from governance.settings_store.registry import CALL_HISTORY
from governance.settings_store.store import load_settings
from routing.vault import Vault

SCENARIO = "docs/scenarios/demo-support-chat.json"

_YES = frozenset({"1", "true", "yes", "on"})
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_EVERY = 0.2


class Command(BaseCommand):
    """Migrate, seed, start everything, say what to do, and stop everything at the end."""

    help = "Run a demo: an installation with simulated providers, thirty days of calls, and new ones all the time."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options; each has a variable that ``make demo`` passes on."""
        environ = os.environ
        parser.add_argument(
            "--port",
            type=arguments.port,
            default=environ.get("PORT", "").strip() or "8000",
            help="port of the web server (variable PORT; default: 8000)",
        )
        parser.add_argument(
            "--reset",
            action="store_true",
            default=environ.get("RESET", "").strip().lower() in _YES,
            help="forget everything of an earlier demo first (variable RESET=1)",
        )
        parser.add_argument(
            "--speed",
            type=arguments.speed,
            default=environ.get("DEMO_SPEED", "").strip() or "1",
            help="how many times faster the simulated providers answer than they did in the seeded past (variable "
            "DEMO_SPEED; default: 1). New calls then pull the measured latencies down",
        )
        parser.add_argument(
            "--history",
            choices=("on", "off"),
            help="switch routing.callHistory of the demo, also of one that runs, and do nothing else",
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        """Run until a signal, or until one of the processes falls."""
        folder = DemoFolder(Path(settings.DATA_DIR))
        if options["history"] is not None:
            self._switch_history(options["history"] == "on")
            return
        for number in _STOPPING:
            signal.signal(number, _interrupt)
        try:
            with running.alone(folder):
                self._run(folder, port=options["port"], reset=options["reset"], speed=options["speed"])
        except (DemoProblem, SeedConflict, RemovalBlocked) as problem:
            raise CommandError(str(problem)) from problem
        except KeyboardInterrupt as signalled:
            self._say(f"\nStopped ({signalled}). The demo is kept in {_shown(folder.path)} for the next start.")

    def _run(self, folder: DemoFolder, *, port: int, reset: bool, speed: float) -> None:
        if not running.is_free(port):
            other = port + 1 if port < arguments.LAST_PORT else port - 1
            raise DemoProblem(f"Port {port} is taken. Choose another one: make demo PORT={other}")
        seeded, logins = self._prepare(folder, reset=reset, simulator=(simulator := running.simulator_port()))
        children = Children(folder=running.PROJECT, environment=running.environment(simulator=simulator))
        try:
            self._say("Starting the simulated providers, the web server and a worker …")
            running.start_servers(children, folder=folder, port=port, simulator=simulator, speed=speed)
            running.make_first_call(port=port, keys=seeded.keys)
            running.start_worker(children, folder=folder)
            running.start_traffic(children, folder=folder, port=port)
            self._introduce(folder, logins, port=port)
            while (fallen := children.fallen()) is None:
                time.sleep(_LOOK_EVERY)
            raise DemoProblem(running.describe_fall(fallen))
        finally:
            for number in _STOPPING:
                signal.signal(number, signal.SIG_IGN)
            children.stop()

    def _prepare(self, folder: DemoFolder, *, reset: bool, simulator: int) -> tuple[Seeded, tuple[DemoLogin, ...]]:
        """Tables, records, past, keys and log-ins."""
        if reset:
            self._say("Forgetting the earlier demo …")
            start_over(folder)
        self._say("Preparing the database and thirty days of calls …")
        call_command("migrate", verbosity=0)
        own = claim(folder)
        seeded = seed(
            now=timezone.now(),
            simulator=f"http://{running.HOST}:{simulator}",
            vault=Vault(settings.SIGNALBOX_ENCRYPTION_KEYS),
            keys=folder.read_keys(),
            set_policy=own,
        )
        book_past(now=timezone.now())
        folder.write_keys(seeded.keys)
        logins = provide_logins(folder)
        connections.close_all()
        self._say(f"{seeded.calls} calls added.")
        return seeded, logins

    def _introduce(self, folder: DemoFolder, logins: Sequence[DemoLogin], *, port: int) -> None:
        widest = max(len(login.password or "") for login in logins)
        log_ins = "\n".join(
            f"  Log in as     {login.username:<10} {login.password or '(the password that you chose)':<{widest}}   "
            f"{login.description}"
            for login in logins
        )
        base, key = f"http://{running.HOST}:{port}", _shown(folder.visitor_key)
        manage = f"{_shown(Path(sys.executable))} manage.py"
        request = '{"model": "support-chat", "messages": [{"role": "user", "content": "Where is my parcel?"}]'
        anything = '{"model": "ask-anything", "messages": [{"role": "user", "content": "Where do parcels go?"}]'
        auth = f"""-H "Authorization: Bearer $(cat {key})" -H 'Content-Type: application/json'"""
        curl = f"{base}/v1/chat/completions {auth} -d"
        reads_history = load_settings().routing.call_history
        connections.close_all()
        if reads_history:
            chosen = "Of two models the faster one is chosen, since the call history is read"
            switch = "Switch the call history off, and the slower model wins, which measures slightly better"
        else:
            chosen = "Of two models the slower one is chosen, since it measures slightly better"
            switch = "Switch the call history on, and the faster model wins"
        self._say(
            f"""
The demo runs. Every answer comes from a simulator, never from a model; everything is marked as demo.

  Admin         {base}/admin/
{log_ins}
  API           {base}/v1   (OpenAI's protocol)
  Virtual key   {key}
  Logs          {_shown(folder.path / "logs")}/

Try, in another terminal:

  1. A call. {chosen}:
     curl -i {curl} '{request}}}'

  2. The same, streamed:
     curl -N {curl} '{request}, "stream": true}}'

  3. That decision on paper, with the call history read:
     {manage} explain {SCENARIO}

  4. A call for later, made by the worker; the answer says where to ask. With ?wait=20 it waits for the answer:
     curl -i {base}/api/v1/calls {auth} -d '{{"request": {request}}}}}'
     curl "{base}/api/v1/calls?wait=20" {auth} -d '{{"request": {request}}}}}'

  5. A batch of two, and how far it is: {base}/admin/governance/batch/
     curl {base}/api/v1/batches {auth} -d '{{"calls": [{{"request": {request}}}}}, {{"request": {request}}}}}]}}'

  6. Vectors of two texts, for a search; the answer says which model made them and what that cost:
     curl -i {base}/v1/embeddings {auth} -d '{{"model": "help-search", "input": ["lost parcel", "opening hours"]}}'

  7. Eight answers at once could cost more than your budget of a day: 402, with what is left. Nothing is sent.
     curl -i {curl} '{request}, "n": 8}}'
     All budgets: {base}/admin/governance-tab/budgets/

  8. A budget with tiers: past half of it a cheaper model serves, past the whole of it a free one. Where three calls go:
     for call in 1 2 3; do curl -sS -D - -o /dev/null {curl} '{anything}}}' | grep x-signalbox-route; sleep 1; done
     Why: {base}/admin/governance-tab/why-this-model/?configuration=ask-anything&operation=chat

{switch}:
     {manage} demo --history {"off" if reads_history else "on"}
     or, in the admin, the setting {CALL_HISTORY.key}: {base}/admin/governance/settingvalue/

Ctrl-C stops everything and keeps the data; `make demo RESET=1` starts afresh."""
        )

    def _switch_history(self, on: bool) -> None:
        try:
            store_setting(CALL_HISTORY.key, on, author=Author("manage.py demo --history", Channel.COMMAND))
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        self._say(f"{CALL_HISTORY.key} is {'on' if on else 'off'}; it counts from the next call on.")

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """Every signal that ends us does so in the same way."""
    raise KeyboardInterrupt(signal.Signals(number).name)


def _shown(path: Path) -> str:
    """A path as one would type it from the project's folder."""
    return str(path.relative_to(running.PROJECT)) if path.is_relative_to(running.PROJECT) else str(path)
