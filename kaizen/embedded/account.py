"""Under which account the database server runs: PostgreSQL refuses root.

An ordinary user runs it as it is. For root there are three ways, tried in this order: a user
namespace that shows root as `nobody` (nothing changes owner, and it works below a closed folder
such as /root); really becoming `nobody`; the same with the programs and data in a folder `nobody`
can reach.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kaizen.embedded.failures import LaunchError

Way = Literal["own", "namespace", "nobody", "copied"]
AS_ROOT: tuple[Way, ...] = ("namespace", "nobody", "copied")
NOBODY = 65534
PUBLIC_FOLDER = Path("/var/lib/kaizen")


@dataclass(frozen=True)
class Account:
    """How to run the server's programs, where they are, and where the data lies."""

    way: Way
    programs: Path
    directory: Path

    def command(self, program: str, *arguments: str) -> list[str]:
        """Return the command line of one of the server's programs."""
        line = [str(self.programs / program), *arguments]
        if self.way == "namespace":
            return ["unshare", "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", *line]
        return line

    def options(self) -> dict[str, Any]:
        """Return the arguments of `subprocess` that change the account."""
        if self.way in ("nobody", "copied"):
            return {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        return {}

    def owner(self) -> tuple[int, int]:
        """Return the user and group that own the data."""
        if self.way in ("nobody", "copied"):
            return NOBODY, NOBODY
        return os.geteuid(), os.getegid()

    def take_over(self) -> None:
        """Make the data folder this account's own, should an earlier run have used another way."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        user, group = self.owner()
        if os.geteuid() != 0 or self.directory.stat().st_uid == user:
            return
        for folder, _, files in os.walk(self.directory):
            os.chown(folder, user, group)
            for name in files:
                os.chown(Path(folder) / name, user, group, follow_symlinks=False)


def choose_account(
    *, installation: Path, directory: Path, ways: Iterable[Way] = AS_ROOT
) -> Account:
    """Return the first way that works here. Raises LaunchError when root has none.

    Args:
        installation: the folder whose `bin` holds the server's programs.
        directory: where the data should lie; the copied way moves it.
        ways: what root may try.
    """
    if os.geteuid() != 0:
        # A user without a passwd entry, as in some containers, is refused by initdb too.
        way: Way = "own" if _is_known(os.geteuid()) else "namespace"
        return Account(way, installation / "bin", directory)
    for way in ways:
        account = _try(way, installation=installation, directory=directory)
        if account is not None:
            return account
    raise LaunchError(
        "PostgreSQL does not run as root, and this machine lets root neither open a user namespace "
        "nor become the user nobody. Run Kaizen as an ordinary user, or set DATABASE_URL."
    )


def _try(way: Way, *, installation: Path, directory: Path) -> Account | None:
    if not _is_known(NOBODY):
        return None
    if way == "copied":
        place = PUBLIC_FOLDER / hashlib.sha256(str(directory).encode()).hexdigest()[:12]
        account = Account(way, _copy(installation, to=place / "programs") / "bin", place / "data")
    else:
        account = Account(way, installation / "bin", directory)
    if way == "namespace" and shutil.which("unshare") is None:
        return None
    account.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return account if _is_working(account) else None


def _is_known(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _is_working(account: Account) -> bool:
    """Run `postgres --version` and reach the folder of the data, the way the server will be run."""
    reach = ["/bin/sh", "-c", 'cd "$0"', str(account.directory.parent)]
    probes = [account.command("postgres", "--version")]
    if account.way != "namespace":
        probes.append(reach)
    try:
        return all(
            subprocess.run(  # noqa: S603  our own command line
                probe,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
                **account.options(),
            ).returncode
            == 0
            for probe in probes
        )
    except PermissionError:
        return False


def _copy(installation: Path, *, to: Path) -> Path:
    """Copy the programs, and the libraries beside them, to where everyone can read."""
    libraries = installation.parent.parent / f"{installation.parent.name}.libs"
    copied = to / installation.parent.name / installation.name
    server = copied / "bin" / "postgres"
    if not server.exists() or not filecmp.cmp(installation / "bin" / "postgres", server):
        draft = to.with_name(f"{to.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(
            installation, draft / installation.parent.name / installation.name, symlinks=True
        )
        if libraries.exists():
            shutil.copytree(libraries, draft / libraries.name, symlinks=True)
        shutil.rmtree(to, ignore_errors=True)
        draft.rename(to)
    for folder in (PUBLIC_FOLDER, to.parent, to):
        folder.chmod(0o755)
    return copied
