"""Asks as a caller and judges the answer: status, shape, canaries; digests what is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db import connection, transaction
from django.test import Client
from django.test.client import ClientHandler
from psycopg import sql

from accounts.models import User
from tests.security.walk_routes import Sent
from tests.security.walk_world import World

# What differs from answer to answer without saying anything.
_CHANGING = re.compile(
    r'(csrfmiddlewaretoken" value="|X-CSRFToken[^A-Za-z0-9]+|name="key" value="|nonce[=-]"?)'
    r"[A-Za-z0-9+/=_-]+"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An answer, whole: what a caller could read from it."""

    status: int
    headers: dict[str, str]
    body: str
    crash: str = ""

    @property
    def text(self) -> str:
        """Headers and body as one text to look for canaries in."""
        return "\n".join(f"{name}: {value}" for name, value in self.headers.items()) + self.body

    @property
    def media_type(self) -> str:
        return self.headers.get("Content-Type", "").partition(";")[0]

    def shape(self, ids: Iterable[object]) -> str:
        """What the answer says, with the ids that were asked for taken out."""
        kept = {k: v for k, v in self.headers.items() if k in ("Content-Type", "Location", "Allow")}
        text = _CHANGING.sub(r"\1", f"{self.status} {json.dumps(kept)} {self.body}")
        for value in ids:
            text = text.replace(str(value), "<id>")
        return text


@dataclass
class Caller:
    """Somebody who asks: a signed-in person, a key, or nobody."""

    name: str
    user: User | None = None
    secret: str = ""
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.sign_in()

    def sign_in(self) -> None:
        """A fresh browser."""
        self.client = Client(raise_request_exception=False)
        self.client.handler = _handler()
        if self.user is not None:
            self.client.force_login(self.user)

    def ask(self, method: str, address: str, sent: Sent | None = None) -> Answer:
        """Send one request."""
        sent = sent or Sent()
        extra: dict[str, Any] = {}
        if self.secret:
            extra["headers"] = {"Authorization": f"Bearer {self.secret}"}
        if sent.json is not None:
            extra |= {"data": json.dumps(sent.json), "content_type": "application/json"}
        elif sent.form is not None and method == "POST":
            extra["data"] = sent.form
        elif method in ("PUT", "PATCH", "DELETE"):
            extra |= {"data": "{}", "content_type": "application/json"}
        path = f"{address}?{sent.query}" if sent.query else address
        response = getattr(self.client, method.lower())(path, **extra)
        body = b"".join(response.streaming_content) if response.streaming else response.content
        crash = "" if response.status_code != 500 else repr(getattr(response, "exc_info", None))
        return Answer(
            status=response.status_code,
            headers=dict(response.headers),
            body=body.decode("utf-8", "replace"),
            crash=crash,
        )


@dataclass(frozen=True)
class Worlds:
    """Two organisations that know nothing of each other, and somebody in neither."""

    home: World
    foreign: World
    stranger: Caller


@cache
def _handler() -> ClientHandler:
    """One for all clients: building the middleware costs more than a request."""
    handler = ClientHandler(enforce_csrf_checks=False)
    handler.load_middleware()
    return handler


@contextmanager
def undone() -> Iterator[None]:
    """What happens in the block leaves no trace in the database."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# Tables that change by being asked at all, and say nothing of an organisation.
_NOT_OF_RECORD = frozenset({"django_session"})


def digest(world: World, *, but: Iterable[str] = ()) -> dict[str, tuple[int, str]]:
    """Rows and a digest of every table that has rows of the organisation, its people included.

    `but` leaves out tables whose name begins so.
    """
    without = (*_NOT_OF_RECORD, *but)
    columns = {"organization_id": world.organization.id, "organization_key": world.organization.key}
    found: dict[str, tuple[int, str]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.table_name, c.column_name FROM information_schema.columns c "
            "JOIN pg_class t ON t.relname = c.table_name AND NOT t.relispartition "
            "AND t.relkind IN ('r', 'p') "
            "WHERE c.table_schema = 'public' AND c.column_name = ANY(%s)",
            [list(columns)],
        )
        tables = [(table, column, columns[column]) for table, column in cursor.fetchall()]
        tables.append(("accounts_organization", "id", world.organization.id))
        for member in (world.owner, world.member, world.loner, world.suspended):
            tables.append(("accounts_user", "id", member.user_id))
        for table, column, value in tables:
            if any(table.startswith(name) for name in without):
                continue
            cursor.execute(
                sql.SQL(
                    "SELECT count(*), coalesce(md5(string_agg(t::text, '|' ORDER BY t::text)), '') "
                    "FROM {} t WHERE {} = %s"
                ).format(sql.Identifier(table), sql.Identifier(column)),
                [value],
            )
            found[f"{table} {value}"] = cursor.fetchone()
    return found
