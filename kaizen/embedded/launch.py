"""`make up` from top to bottom: stores, database, demo, processes, watch, stop.

What is set in the environment is used as it is and nothing embedded is started for it. Everything
that was started is stopped on the way out, whatever the reason.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType

from kaizen.embedded.child import describe_exit
from kaizen.embedded.console import Console, log_to
from kaizen.embedded.environment import (
    OWNER_ROLE,
    embedded_environment,
    inherited,
    outside,
)
from kaizen.embedded.failures import LaunchError, explain_refusal, show_plainly
from kaizen.embedded.paths import Layout
from kaizen.embedded.ports import listen
from kaizen.embedded.postgres import Postgres
from kaizen.embedded.running import (
    AlreadyRunning,
    clear_record,
    hold_lock,
    sweep_leftovers,
    write_record,
)
from kaizen.embedded.state import State, new_password
from kaizen.embedded.steps import Step, wait_until_healthy
from kaizen.embedded.supervisor import StackConfig, Supervisor, process_specs
from kaizen.embedded.valkey import Valkey

logger = logging.getLogger("kaizen.up")

WATCH_SECONDS = 0.25
LEAST_FREE_MEGABYTES = 300
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Options:
    """What the person asked for on the command line."""

    port: int
    web_processes: int = 1
    demo: bool | None = None


def serve(layout: Layout, options: Options, *, console: Console) -> int:
    """Serve until told to stop; return the exit code. Tells every failure in one sentence."""
    for number in STOP_SIGNALS:
        signal.signal(number, _interrupt)
    try:
        layout.prepare()
        log = layout.log / "up.log"
        log_to(log)
        show_plainly(home=layout.home, log=log)
        with hold_lock(layout):
            Launch(layout, options, console=console).run()
    except AlreadyRunning as running:
        where = f" at {running.address}" if running.address else "; it is still starting"
        console.say(f"Kaizen is already running{where}. Stop it with Ctrl-C where it was started.")
    except KeyboardInterrupt:
        return 0
    except LaunchError as error:
        logger.exception("not started")
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        logger.exception("not started")
        sys.stderr.write(f"{explain_refusal(error, home=layout.home)}\n")
        return 1
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


class Launch:
    """One run of everything."""

    def __init__(self, layout: Layout, options: Options, *, console: Console) -> None:
        self.layout = layout
        self.options = options
        self.console = console
        self.address = f"http://localhost:{options.port}/"
        self.log = layout.log / "up.log"
        self.postgres: Postgres | None = None
        self.valkey: Valkey | None = None

    def run(self) -> None:
        """Start all of it, watch, and stop all of it when interrupted."""
        swept = sweep_leftovers(self.layout)
        if swept:
            self.console.say(f"Ended what a killed earlier run had left: {', '.join(swept)}.")
        self._check_space()
        with contextlib.ExitStack() as stops:
            listener = stops.enter_context(listen(self.options.port))
            state = State(self.layout.state)
            self._start_stores(state, stops)
            environment = inherited() | embedded_environment(self.layout, state)
            self._prepare_database(environment)
            logins = self._load_demo(environment)
            config = StackConfig(
                root=self.layout.root,
                home=self.layout.home,
                python=self.layout.python,
                runtime_python=self.layout.runtime_python,
                environment=environment,
                runtime_token=outside("KAIZEN_RUNTIME_TOKEN") or new_password(),
                port=self.options.port,
                listener=listener.fileno(),
                web_processes=self.options.web_processes,
            )
            supervisor = Supervisor(process_specs(config), console=self.console)
            stops.callback(self._stop, supervisor)
            supervisor.start("web", "worker", "beat")
            self._record(supervisor)
            wait_until_healthy(
                supervisor, port=self.options.port, console=self.console, log=self.log
            )
            # Only now, so that a runtime needn't complain that nobody answers yet.
            supervisor.start("runtime")
            self._record(supervisor)
            self._welcome(logins)
            self._watch(supervisor)

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.layout.home).free // (1024 * 1024)
        if free < LEAST_FREE_MEGABYTES:
            raise LaunchError(
                f"Only {free} MB are free on the disk that holds {self.layout.home}; Kaizen needs "
                f"{LEAST_FREE_MEGABYTES} MB to start. Free some space and run make up again."
            )

    def _start_stores(self, state: State, stops: contextlib.ExitStack) -> None:
        if outside("DATABASE_URL") is None:
            self.postgres = Postgres(
                self.layout.postgres,
                state=state,
                log=self.layout.log / "postgres.log",
                tell=self.console.say,
            )
            stops.callback(self.postgres.stop)
            self.postgres.start()
            self.postgres.create_roles_and_database()
        if outside("VALKEY_URL") is None:
            self.valkey = Valkey(
                self.layout.valkey, state=state, log=self.layout.log / "valkey.log"
            )
            stops.callback(self.valkey.stop)
            self.valkey.start()

    def _manage(
        self, title: str, *words: str, environment: Mapping[str, str], keep: bool = False
    ) -> list[str]:
        step = Step(title, words[0].split("_")[0], console=self.console, keep_output=keep)
        command = [str(self.layout.python), "manage.py", *words]
        if not step.run(
            command,
            environment={**environment, "PYTHONUNBUFFERED": "1"},
            folder=self.layout.root,
        ):
            why = f": {step.reason}" if step.reason else ", as said above"
            raise LaunchError(f"{title} failed{why}. Details: {self.log}")
        return step.output

    def _prepare_database(self, environment: Mapping[str, str]) -> None:
        """Migrate with the owner's URL, which only this one child sees; without one, only check."""
        owner = self.postgres.url(OWNER_ROLE) if self.postgres else outside("DATABASE_OWNER_URL")
        title = "Preparing the database"
        if owner is None:
            self._manage(title, "prepare_database", "--check", environment=environment)
        else:
            with_owner = {**environment, "DATABASE_OWNER_URL": owner}
            self._manage(title, "prepare_database", environment=with_owner)

    def _load_demo(self, environment: Mapping[str, str]) -> list[str]:
        """Load the demo into the embedded database when it is empty; leave any other one alone."""
        wanted = self.postgres is not None if self.options.demo is None else self.options.demo
        if not wanted:
            return []
        words = ("demo", "--load-if-empty")
        return self._manage("Loading the demo", *words, environment=environment, keep=True)

    def _record(self, supervisor: Supervisor) -> None:
        write_record(self.layout, address=self.address, children=list(supervisor.children.values()))

    def _welcome(self, logins: list[str]) -> None:
        self.console.say("")
        self.console.say(f"Kaizen is ready: {self.address}")
        for line in logins:
            self.console.say(line)
        self.console.say("Ctrl-C stops it; the data stays.")
        self.console.say("")

    def _watch(self, supervisor: Supervisor) -> None:
        while True:
            time.sleep(WATCH_SECONDS)
            for store in (self.postgres, self.valkey):
                if store is not None:
                    self._watch_store(store)
            if supervisor.watch():
                self._record(supervisor)

    def _watch_store(self, store: Postgres | Valkey) -> None:
        code = store.process.poll() if store.process is not None else None
        if code is None:
            return
        name = type(store).__name__.lower()
        self.console.line(name, f"{describe_exit(code)}; starting again")
        before = store.url()
        store.start()
        if store.url() != before:
            raise LaunchError(f"The port of {name} was taken meanwhile. Start Kaizen again.")
        self.console.line(name, "answers again")

    def _stop(self, supervisor: Supervisor) -> None:
        """Stop the processes in order; a second interrupt ends them at once."""
        self.console.say("\nStopping ...")
        try:
            supervisor.stop()
        except KeyboardInterrupt:
            supervisor.kill()
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        clear_record(self.layout)
