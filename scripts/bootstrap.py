"""Makes the virtual environments that the other make targets need, from the locked requirements.

Runs on the bare interpreter that `make` found, before anything is installed. This file is only the
gate: it must parse on any Python 3 from 3.6 on, so that an old one gets a sentence and not a
traceback. A newer interpreter found beside the old one takes over.
"""

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)
NEWER_NAMES = ("python3.14", "python3.13", "python3.12", "python3.11")


def is_new_enough(command: str) -> bool:
    """Say whether this interpreter runs and is new enough."""
    check = f"import sys; sys.exit(sys.version_info < {OLDEST!r})"
    return subprocess.call([command, "-c", check], stderr=subprocess.DEVNULL) == 0  # noqa: S603  our own command line


def main() -> int:
    """Hand over to `environments`, on this interpreter or on a newer one that is installed."""
    if sys.version_info >= OLDEST:
        from environments import main as make_environments

        return make_environments(sys.argv[1:])
    for name in NEWER_NAMES:
        found = shutil.which(name)
        if found and is_new_enough(found):
            sys.stdout.flush()
            os.execv(found, [found, *sys.argv])  # noqa: S606
    have = ".".join(str(part) for part in sys.version_info[:3])
    sys.stderr.write(
        f"Kaizen needs Python 3.11 or newer, and this is Python {have} ({sys.executable}).\n"
        "Install a newer one (Debian, Ubuntu: apt-get install python3.11 python3.11-venv), "
        "or name it: make up PYTHON=/path/to/python3.11\n"
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
