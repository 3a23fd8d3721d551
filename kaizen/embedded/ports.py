"""Ports on the loopback interface: the one members open, and free ones for the stores."""

from __future__ import annotations

import errno
import socket

from kaizen.embedded.environment import HOST
from kaizen.embedded.failures import LaunchError


def listen(port: int) -> socket.socket:
    """Bind the port the web processes share. Raises LaunchError, saying how to take another."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(512)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise LaunchError(
                f"Port {port} on {HOST} is already used by another program. "
                f"Stop that one, or take another port: make up PORT={port + 1}"
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM):
            raise LaunchError(
                f"Port {port} may not be used by this account; ports below 1024 often may not. "
                f"Take another one: make up PORT=8000"
            ) from error
        raise
    listener.set_inheritable(True)
    return listener


def choose_port(preferred: str | None) -> int:
    """Return the preferred port when it is free, else any free one."""
    for port in (int(preferred or 0), 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE or port == 0:
                    raise
            else:
                chosen: int = probe.getsockname()[1]
                return chosen
    raise LaunchError(f"No port is free on {HOST}.")
