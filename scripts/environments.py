"""Builds `.venv` and the agent runtime's own environment, again only when their locks changed.

Every package comes from a lock with hashes. uv installs when it can be had, pip otherwise. A
failure is told in one sentence with the name of the log; an environment that is half built is
built anew on the next call.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from browser import install_browser
from progress import run, say

ROOT = Path(__file__).resolve().parent.parent
HOME = Path(os.environ.get("KAIZEN_HOME") or ROOT / ".kaizen").absolute()
LOG = HOME / "log" / "bootstrap.log"
LEAST_FREE_MEGABYTES = 100
INSTALLER = ROOT / "scripts" / "installer.lock"


class BootstrapError(Exception):
    """The environment can't be built; the text says why and what to do."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment, the files it is installed from, and the locks these fulfil."""

    title: str
    folder: Path
    files: tuple[Path, ...]
    locks: tuple[Path, ...]

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """The file that says which locks are installed in it."""
        return self.folder / "kaizen-locks"

    def wanted(self) -> list[str]:
        """Name what has to be installed: one line a lock, with its digest and this Python."""
        python = "{}.{}.{}".format(*sys.version_info[:3])
        digests = [hashlib.sha256(lock.read_bytes()).hexdigest() for lock in self.locks]
        return [
            f"{lock.name} {digest} {python}"
            for lock, digest in zip(self.locks, digests, strict=True)
        ]

    def installed(self) -> list[str]:
        """Return the stamp's lines; none when the environment is missing, half built or broken."""
        if not self.stamp.exists() or not self.is_working():
            return []
        return self.stamp.read_text().splitlines()

    def is_working(self) -> bool:
        """Say whether its interpreter still runs: the Python it points to may be gone."""
        return self.python.exists() and not subprocess.call(  # noqa: S603  our own command line
            [str(self.python), "-c", "pass"], stderr=subprocess.DEVNULL
        )


def check_space() -> None:
    """Raise BootstrapError when what has just failed did so because the disk is full."""
    free = min(shutil.disk_usage(place).free for place in (ROOT, HOME)) // (1024 * 1024)
    if free < LEAST_FREE_MEGABYTES:
        raise BootstrapError(
            f"The disk that holds {HOME} and {ROOT} is full ({free} MB free). "
            "Free about 1 GB and run the command again."
        )


def create(environment: Environment) -> None:
    """Make the empty virtual environment with pip in it, replacing a broken one."""
    has_pip = environment.is_working() and not subprocess.call(  # noqa: S603  our own command line
        [str(environment.python), "-m", "pip", "--version"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    if has_pip:
        return
    command = [sys.executable, "-m", "venv", "--clear", str(environment.folder)]
    if not run(f"Creating {environment.title}", command, log=LOG):
        check_space()
        version = "{}.{}".format(*sys.version_info[:2])
        raise BootstrapError(
            f"Python {version} could not make a virtual environment in {environment.folder}. "
            f"On Debian and Ubuntu install the missing part: apt-get install python{version}-venv "
            f"(details: {LOG})."
        )


def installer(environment: Environment) -> Path | None:
    """Return uv, installed here when it is missing; None when it can't be had."""
    command = environment.folder / "bin" / "uv"
    if not command.exists():
        pip: list[str | Path] = [
            environment.python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-input",
        ]
        pip += ["--disable-pip-version-check", "--require-hashes", "-r", INSTALLER]
        if not run("Installing the installer (uv)", pip, log=LOG):
            return None
    return command if command.exists() else None


def has_writable_cache() -> bool:
    """Say whether the account has a home to keep a download cache in."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    return home.is_dir() and os.access(home, os.W_OK)


def install(environment: Environment, *, uv: Path | None) -> None:
    """Install the locks: the whole tree is in them, so nothing is resolved (`--no-deps`)."""
    locked = ["--no-deps", "--require-hashes"]
    for lock in environment.files:
        locked += ["-r", str(lock)]
    cache = [] if has_writable_cache() else ["--no-cache"]
    title = f"Installing {environment.title}"
    plain = {**os.environ, "NO_COLOR": "1"}
    if uv is not None:
        python = str(environment.python)
        words = [str(uv), "pip", "install", *cache, "--python", python, *locked]
        if run(f"{title} with uv", words, log=LOG, environment=plain):
            return
        say("uv did not succeed; trying pip, which takes longer.")
    cache = [] if has_writable_cache() else ["--no-cache-dir"]
    flags = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    words = [str(environment.python), "-m", "pip", "install", *flags, *cache, *locked]
    if not run(f"{title} with pip", words, log=LOG, environment=plain):
        check_space()
        raise BootstrapError(
            f"The packages for {environment.title} could not be installed. "
            f"Is the network reachable and the disk not full? The reason is at the end of {LOG}."
        )


def prepare(environment: Environment, *, uv: Path | None = None) -> None:
    """Bring the environment to its locks; returns at once when it is there already."""
    wanted = environment.wanted()
    if set(wanted) <= set(environment.installed()):
        return
    create(environment)
    environment.stamp.unlink(missing_ok=True)
    install(environment, uv=uv or installer(environment))
    environment.stamp.write_text("".join(f"{line}\n" for line in wanted))


def prepare_all(*, development: bool) -> None:
    """Bring both environments to their locks. Development packages, once asked for, are kept."""
    nodeps = ROOT / "requirements-nodeps.txt"
    product = ROOT / "requirements.lock"
    tools = ROOT / "requirements-dev.lock"
    folder = ROOT / ".venv"
    main_environment = Environment(
        "Kaizen's packages", folder, files=(product, nodeps), locks=(product, nodeps)
    )
    # The lock with the tools holds the product's packages too, in the same versions.
    with_tools = Environment(
        "Kaizen's packages and tools",
        folder,
        files=(tools, nodeps),
        locks=(product, tools, nodeps),
    )
    had_tools = any(line.startswith(tools.name) for line in with_tools.installed())
    prepare(with_tools if development or had_tools else main_environment)
    runtime_lock = ROOT / "agents" / "runtime" / "requirements.lock"
    uv = folder / "bin" / "uv"
    runtime = Environment(
        "the agent runtime's packages",
        HOME / "runtime-venv",
        files=(runtime_lock,),
        locks=(runtime_lock,),
    )
    prepare(runtime, uv=uv if uv.exists() else None)


def explain(error: OSError) -> str:
    """Turn a refusal of the operating system into a sentence."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk that holds {ROOT} is full. Free about 1 GB and run the command again."
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"{error.filename or ROOT} may not be written by this account. If an earlier run was "
            f"made by another account, give the folder to this one: chown -R $(id -un) {ROOT}"
        )
    return f"The operating system refused: {error}."


def main(arguments: Sequence[str]) -> int:
    """Build what the flags ask for; 0 when it is there."""
    parser = argparse.ArgumentParser(prog="bootstrap", description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also the tools for tests and lint")
    parser.add_argument("--browser", action="store_true", help="also a browser, where possible")
    options = parser.parse_args(arguments)
    try:
        prepare_all(development=options.dev)
        if options.browser:
            install_browser(log=LOG)
    except BootstrapError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{explain(error)}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped. The next run goes on from here.\n")
        return 130
    return 0
