"""Generated secrets and chosen ports, in one file that only its owner can read.

Written whole and then renamed, so a killed writer or a full disk never leaves half a file.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from kaizen.embedded.failures import LaunchError


def new_password() -> str:
    """Return a secret that needs no quoting in a URL."""
    return secrets.token_urlsafe(32)


def new_field_key() -> str:
    """Return a Fernet key."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


class State:
    """A small file of text values."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values = self._read()

    def _read(self) -> dict[str, str]:
        if not self.path.exists():
            return {}
        try:
            values = json.loads(self.path.read_text())
            return {str(name): str(value) for name, value in values.items()}
        except (ValueError, AttributeError) as error:
            raise LaunchError(
                f"{self.path} is damaged. It holds the passwords of the local database: restore it "
                f"from a backup, or start afresh by moving {self.path.parent} away."
            ) from error
        except PermissionError as error:
            raise LaunchError(
                f"{self.path} belongs to another account. Use that account, or give the folder to "
                f"this one with chown -R $(id -un) {self.path.parent}"
            ) from error

    def get(self, name: str) -> str | None:
        """Return a value, None when there is none."""
        return self._values.get(name)

    def put(self, name: str, value: str) -> None:
        """Store a value on disk."""
        if self._values.get(name) != value:
            self._values[name] = value
            self._write()

    def secret(self, name: str, *, make: Callable[[], str] = new_password) -> str:
        """Return the secret of this name, made and stored on first use."""
        value = self._values.get(name)
        if value is None:
            value = make()
            self.put(name, value)
        return value

    def _write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_private(self.path, json.dumps(self._values, indent=1, sort_keys=True))


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner only."""
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    draft.replace(path)
