"""Gives an old world today's functions, so that a change of a query needs no new world.

Takes every CREATE FUNCTION and ALTER FUNCTION of retrieval's and accounts' migrations; tables stay
as they are.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import psycopg
from django.db import migrations
from django.db.migrations.operations.base import Operation

import accounts.migrations
import retrieval.migrations
from kaizen.embedded.environment import APP_ROLE, OWNER_ROLE
from tests.bench.server import say
from tests.bench.world import DATABASE, World

_FUNCTION = re.compile(r"CREATE (?:OR REPLACE )?FUNCTION\s+(\w+)")
_CHANGE = re.compile(r"ALTER FUNCTION [^;]*")


def renew(world: World) -> None:
    """Replace what has a new body; drop and create what has a new signature."""
    with world.server.connect(DATABASE, role=OWNER_ROLE) as owner:
        owner.execute("SELECT '[1]'::vector, similarity('a', 'b')")
        names: dict[str, None] = {}
        texts = []
        for package in (accounts.migrations, retrieval.migrations):
            for file in sorted(Path(package.__path__[0]).glob("0*.py")):
                module = import_module(f"{package.__name__}.{file.stem}")
                for operation in module.Migration.operations:
                    text = _sql(operation)
                    if text and (_FUNCTION.search(text) or _CHANGE.search(text)):
                        names |= dict.fromkeys(_FUNCTION.findall(text))
                        texts.append(text)
        _drop(owner, list(names))
        for text in texts:
            for statement in _functions(text):
                replacing = statement.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1)
                owner.execute(replacing.encode())
            for change in _CHANGE.findall(text):
                owner.execute(change.encode())
        owner.execute(f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {APP_ROLE}")
    say(f"{len(names)} functions renewed")


def _sql(operation: Operation) -> str:
    text = operation.sql if isinstance(operation, migrations.RunSQL) else ""
    return text if isinstance(text, str) else ""


def _functions(text: str) -> list[str]:
    """The CREATE FUNCTION statements of a text, each from its head to the end of its body."""
    return re.findall(r"CREATE (?:OR REPLACE )?FUNCTION.*?\$\$.*?\$\$", text, flags=re.DOTALL)


def _drop(owner: psycopg.Connection, names: list[str]) -> None:
    """All but those that triggers hang on; their bodies are replaced in place."""
    rows = owner.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.proname = ANY (%s) "
        "AND p.prorettype <> 'trigger'::regtype",
        [names],
    ).fetchall()
    for (signature,) in rows:
        owner.execute(f"DROP FUNCTION IF EXISTS {signature} CASCADE".encode())
