"""A real PostgreSQL with pgvector from a Python wheel, run by our own launcher.

Loopback only, scram passwords, as root or not. A killed server, a killed launcher and a half-made
data folder are repaired by the next start. Only the wheel's programs are used, never its Python
code.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import psycopg

from kaizen.embedded import roles
from kaizen.embedded.account import AS_ROOT, Account, Way, choose_account
from kaizen.embedded.cluster import bare_environment, check_version, find_installation, make_cluster
from kaizen.embedded.environment import APP_ROLE, DATABASE, HOST, OWNER_ROLE, SUPERUSER_ROLE
from kaizen.embedded.failures import LaunchError, disk_is_full, tail
from kaizen.embedded.leftovers import describe, stop_process
from kaizen.embedded.ports import choose_port
from kaizen.embedded.state import State
from kaizen.embedded.tuning import has_small_shared_memory, machine_megabytes, server_settings

logger = logging.getLogger("kaizen.up")

READY_SECONDS = 120.0
STALE_LOCK_SECONDS = 8.0
TOLD_AFTER_SECONDS = 2.0
CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C")


def reason_in(log: str) -> str:
    """Return what the server called fatal, ready to follow a sentence; else nothing."""
    fatal = [line.partition("FATAL:")[2].strip() for line in log.splitlines() if "FATAL:" in line]
    return f": {fatal[-1]}" if fatal else ""


class Postgres:
    """One server in one folder.

    Args:
        directory: holds data and log; made when missing.
        state: where passwords and port are kept; a file in the directory by default.
        durable: False turns crash safety off, for tests.
        ways: how root may run the server.
        tell: told about a start that takes long.
    """

    def __init__(
        self,
        directory: Path,
        *,
        state: State | None = None,
        log: Path | None = None,
        durable: bool = True,
        ways: Iterable[Way] = AS_ROOT,
        tell: Callable[[str], None] = logger.info,
    ) -> None:
        self.directory = directory.absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.state = state or State(self.directory.with_name(f"{directory.name}.json"))
        self.log = log or self.directory.with_name(f"{directory.name}.log")
        self.durable = durable
        self.process: subprocess.Popen[bytes] | None = None
        self._ways = tuple(ways)
        self._tell = tell
        self._passwords = {
            role: self.state.secret(f"postgres.{role}")
            for role in (SUPERUSER_ROLE, OWNER_ROLE, APP_ROLE)
        }

    def url(self, role: str = APP_ROLE, database: str = DATABASE) -> str:
        """Return the URL with which a role reaches a database of the started server."""
        port = self.state.get("postgres.port")
        return f"postgresql://{role}:{self._passwords[role]}@{HOST}:{port}/{database}"

    def superuser_url(self, database: str = "postgres") -> str:
        """Return the launcher's own URL; no process of the product may hold it."""
        return self.url(SUPERUSER_ROLE, database)

    def start(self) -> None:
        """Start the server and wait until it answers. Raises LaunchError with the reason."""
        account = choose_account(
            installation=find_installation(), directory=self.directory, ways=self._ways
        )
        account.take_over()
        data = account.directory / "data"
        self._stop_leftover(data)
        if not (data / "PG_VERSION").exists():
            make_cluster(
                account, data, password=self._passwords[SUPERUSER_ROLE], durable=self.durable
            )
        # A copied or restored folder may have lost its mode, and the server insists on it.
        data.chmod(0o700)
        check_version(account, data)
        give_up = time.monotonic() + STALE_LOCK_SECONDS
        while not self._attempt(account, data):
            said = tail(self.log, lines=20)
            logger.warning("postgres did not start:\n%s", said)
            if "No space left on device" in said:
                raise LaunchError(disk_is_full(self.directory))
            in_passing = ("lock file", "shared memory block", "could not bind", "in use")
            if time.monotonic() > give_up or not any(words in said for words in in_passing):
                raise LaunchError(f"PostgreSQL does not start{reason_in(said)}. Log: {self.log}")
            time.sleep(0.3)

    def stop(self, *, seconds: float = 5.0) -> None:
        """Stop the server as quickly as its data allows; returns when it is gone."""
        if self.process is not None:
            for number, patience in ((signal.SIGINT, seconds), (signal.SIGQUIT, 3.0)):
                if self.process.poll() is None:
                    self.process.send_signal(number)
                    try:
                        self.process.wait(patience)
                    except subprocess.TimeoutExpired:
                        continue
            self.process.kill()
            self.process.wait()
            self.process = None

    def create_roles_and_database(self, name: str = DATABASE) -> None:
        """Make the roles, the database and its extensions, or what is missing of them."""
        try:
            with psycopg.connect(self.superuser_url(), autocommit=True) as connection:
                roles.create_roles(connection, self._passwords)
                roles.create_database(connection, name)
            with psycopg.connect(self.superuser_url(name), autocommit=True) as connection:
                roles.prepare_database(connection)
        except psycopg.errors.DiskFull as error:
            raise LaunchError(disk_is_full(self.directory)) from error

    def _attempt(self, account: Account, data: Path) -> bool:
        port = choose_port(self.state.get("postgres.port"))
        self.state.put("postgres.port", str(port))
        settings = server_settings(
            megabytes=machine_megabytes(),
            durable=self.durable,
            small_shared_memory=has_small_shared_memory(),
        )
        settings |= {"listen_addresses": HOST, "port": str(port), "unix_socket_directories": ""}
        words = [word for name in settings for word in ("-c", f"{name}={settings[name]}")]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603  our own command line
                account.command("postgres", "-D", str(data), *words),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=bare_environment(),
                start_new_session=True,
                **account.options(),
            )
        return self._wait_until_ready(self.process)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bool:
        started, told = time.monotonic(), False
        while time.monotonic() < started + READY_SECONDS:
            if process.poll() is not None:
                return False
            try:
                psycopg.connect(self.superuser_url(), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return True
            if not told and time.monotonic() > started + TOLD_AFTER_SECONDS:
                told = True
                self._tell("PostgreSQL is recovering from an unclean stop ...")
        self.stop()
        raise LaunchError(f"PostgreSQL did not answer in {READY_SECONDS:.0f} s. See {self.log}")

    def _stop_leftover(self, data: Path) -> None:
        """Stop a server that a killed launcher left on this very data folder."""
        record = data / "postmaster.pid"
        if not record.exists():
            return
        first = record.read_text().split("\n", 1)[0].strip()
        if first.isdigit() and str(data) in describe(int(first)):
            logger.info("stopping the database server of an earlier run, process %s", first)
            stop_process(int(first), first=signal.SIGINT, seconds=10.0)
