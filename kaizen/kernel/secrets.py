"""Secrets at rest: a text column encrypted with Fernet under rotatable keys.

The newest key (first in KAIZEN_FIELD_KEYS) encrypts, all of them decrypt. A value that no key
opens raises rather than reading as empty.
"""

from __future__ import annotations

from typing import Any

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.db import models


def encrypt(text: str) -> str:
    """The token for `text` under the newest key."""
    return _fernet().encrypt(text.encode()).decode()


def decrypt(token: str) -> str:
    """The text of `token`. Raises cryptography.fernet.InvalidToken when no configured key opens
    it.
    """
    return _fernet().decrypt(token.encode()).decode()


def _fernet() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.KAIZEN_FIELD_KEYS])


class EncryptedTextField(models.TextField[Any, Any]):
    """Text that is encrypted in the database and plain in Python. Can't be searched or sorted
    by.
    """

    def from_db_value(
        self, value: str | None, expression: object, connection: object
    ) -> str | None:
        return value if value is None or value == "" else decrypt(value)

    def get_prep_value(self, value: str | None) -> str | None:
        return value if value is None or value == "" else encrypt(value)
