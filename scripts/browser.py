"""Installs Debian's Chromium for the browser tests, where that can be done without asking anyone.

Only as root, only with apt, only when no Chromium is there. Otherwise it says why the browser
tests will skip; it never fails the bootstrap.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from progress import run, say

NAMES = ("chromium", "chromium-browser", "google-chrome")
PACKAGES = ("chromium", "fonts-noto-cjk", "fonts-noto-color-emoji")


def install_browser(*, log: Path) -> None:
    """Make a Chromium available, or say why not."""
    if any(shutil.which(name) for name in NAMES):
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        say(
            "No Chromium here, so the browser tests will be skipped. "
            f"To run them: sudo apt-get install {' '.join(PACKAGES)}"
        )
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("Reading Debian's package lists", ["apt-get", "update"], log=log, environment=quiet)
    command = ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES]
    if not run("Installing Chromium for the browser tests", command, log=log, environment=quiet):
        say(f"Chromium could not be installed, so the browser tests will be skipped (see {log}).")
