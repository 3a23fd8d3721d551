"""Bases and fields that every app's tables stand on. Knows no app.

Public identity is a uuid7 `id`; rows that search touches also have an integer `key`, five times
smaller, which never leaves the server. Append-only tables are marked here and denied UPDATE and
DELETE in the database.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Self

from django.db import models
from django.db.models import Func, Value

if TYPE_CHECKING:
    from accounts.authority import Authority


_SURROGATE = re.compile("[\ud800-\udfff]")


def uuid7() -> uuid.UUID:
    """A time-ordered UUID (RFC 9562, section 5.7): 48 bits of Unix milliseconds, 74 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return uuid.UUID(int=value)


KEY_SEQUENCE = "kaizen_key_seq"


def next_key() -> Func:
    """The database default of a `key` column: the next number of the one key sequence."""
    return Func(Value(KEY_SEQUENCE), function="nextval", output_field=models.BigIntegerField())


class ExactJSONField(models.TextField[Any, Any]):
    """JSON kept as the exact text that was written (jsonb reorders keys and rewrites numbers).

    The journal, the audit and provider blocks need to read back what they hashed or must return
    unchanged.
    """

    description = "JSON stored as its exact text"
    _pyi_private_set_type: Any
    _pyi_private_get_type: Any

    def from_db_value(self, value: str | None, expression: object, connection: object) -> Any:
        return None if value is None else json.loads(value)

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else exact_json(value)

    def value_to_string(self, obj: models.Model) -> str:
        return exact_json(self.value_from_object(obj))


def exact_json(value: Any) -> str:
    """The one spelling of JSON that Kaizen stores and hashes: no spaces, no escapes, key order
    kept.

    Lone surrogates, which UTF-8 can't hold, are the exception: they are written as escapes and read
    back as they were.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class OrganizationQuerySet(models.QuerySet[Any]):
    """Rows of one organisation; the only way in for views, admin, tools and jobs."""

    def for_authority(self, authority: Authority) -> Self:
        """Rows of the caller's organisation. Object permission is a further step:
        `accounts.relation`.
        """
        return self.filter(organization_id=authority.organization_id)


class OrganizationModel(models.Model):
    """A table of record: belongs to exactly one organisation, has a public uuid7."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization = models.ForeignKey(
        "accounts.Organization", on_delete=models.PROTECT, editable=False, related_name="+"
    )

    objects = OrganizationQuerySet.as_manager()

    class Meta:
        abstract = True


class KeyedModel(models.Model):
    """Adds the integer key that the relation, vectors and postings use."""

    key = models.BigIntegerField(unique=True, editable=False, db_default=next_key())

    class Meta:
        abstract = True


class AppendOnlyModel(models.Model):
    """Rows that may be inserted and read, never changed: `kernel.privileges` denies the app role
    the rest.
    """

    append_only: ClassVar[bool] = True

    class Meta:
        abstract = True
