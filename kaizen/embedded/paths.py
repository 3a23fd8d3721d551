"""Where things lie: the checkout, and the folder that holds all that Kaizen keeps here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from kaizen.embedded.failures import LaunchError

ROOT = Path(__file__).resolve().parent.parent.parent
PRIVATE = 0o700
# Others may pass through to what is theirs (as root, PostgreSQL's folder may be nobody's).
PASSABLE = 0o711


@dataclass(frozen=True)
class Layout:
    """The folders of one installation."""

    root: Path
    home: Path

    @property
    def state(self) -> Path:
        """Generated secrets and chosen ports; readable by its owner only."""
        return self.home / "state.json"

    @property
    def lock(self) -> Path:
        """Held by the one running supervisor."""
        return self.home / "up.lock"

    @property
    def running(self) -> Path:
        """Address and processes of the present or last run."""
        return self.home / "running.json"

    @property
    def log(self) -> Path:
        """The folder of the logs."""
        return self.home / "log"

    @property
    def postgres(self) -> Path:
        """The embedded database."""
        return self.home / "postgres"

    @property
    def valkey(self) -> Path:
        """The embedded Valkey's working folder; nothing in it is kept."""
        return self.home / "valkey"

    @property
    def storage(self) -> Path:
        """Uploaded bytes."""
        return self.home / "storage"

    @property
    def python(self) -> Path:
        """The interpreter that runs this, which serves the product too."""
        return Path(sys.executable)

    @property
    def runtime_python(self) -> Path:
        """The interpreter of the agent runtime, in which Django can't be imported."""
        return self.home / "runtime-venv" / "bin" / "python"

    def prepare(self) -> None:
        """Make the folders with their modes. Raises LaunchError when they are someone else's."""
        try:
            self.home.mkdir(parents=True, exist_ok=True)
            if self.home.stat().st_mode & 0o777 != PASSABLE:
                self.home.chmod(PASSABLE)
            # The static folder stays empty here; the web process looks for it all the same.
            (self.home / "static").mkdir(exist_ok=True)
            for folder in (self.log, self.storage):
                folder.mkdir(mode=PRIVATE, exist_ok=True)
                if folder.stat().st_mode & 0o777 != PRIVATE:
                    folder.chmod(PRIVATE)
            if not os.access(self.home, os.W_OK) or not os.access(self.log, os.W_OK | os.X_OK):
                raise PermissionError
        except PermissionError as error:
            raise LaunchError(
                f"{self.home} can't be written by this account. It was probably made by another "
                f"one: use that account, or give the folder to this one with "
                f"chown -R $(id -un) {self.home}"
            ) from error


def find_layout() -> Layout:
    """Return the layout of this checkout; KAIZEN_HOME moves the data elsewhere."""
    home = os.environ.get("KAIZEN_HOME")
    return Layout(root=ROOT, home=Path(home).absolute() if home else ROOT / ".kaizen")
