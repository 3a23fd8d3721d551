"""The one family of errors that may reach a person.

Every refusal Kaizen gives on purpose is a `KaizenError`: a stable code, an HTTP status, a sentence
that says what to do, and data that is safe to show. Pages, API and websockets each turn it into
their own shape once. Anything else that escapes is a bug and is shown as a plain 500 without
details.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar


class KaizenError(Exception):
    """A refusal with a sentence for the person concerned.

    Args:
        message: one plain sentence: what happened and what to do. Shown as it stands.
        code: stable machine word; the class's own when left out.
        data: safe extra members for the problem document, never secrets or foreign names.
    """

    status: ClassVar[int] = 500
    default_code: ClassVar[str] = "error"
    default_message: ClassVar[str] = "Something went wrong. Nothing was lost; please try again."

    def __init__(
        self, message: str = "", *, code: str = "", data: Mapping[str, Any] | None = None
    ) -> None:
        self.message = message or self.default_message
        self.code = code or self.default_code
        self.data: dict[str, Any] = dict(data or {})
        super().__init__(self.message)


class Unauthenticated(KaizenError):
    """Nobody proved who they are."""

    status = 401
    default_code = "unauthenticated"
    default_message = "Sign in, or send a valid API key."


class Denied(KaizenError):
    """The object is visible, the act is not allowed."""

    status = 403
    default_code = "denied"
    default_message = "You may not do this here. Ask an administrator for access."


class Missing(KaizenError):
    """Absent, or not visible to the caller: the two are never told apart."""

    status = 404
    default_code = "missing"
    default_message = "There is nothing here that you may see."


class Invalid(KaizenError):
    """The input can't be taken as it is."""

    status = 400
    default_code = "invalid"
    default_message = "That input can't be used."


class Conflict(KaizenError):
    """The state changed, or the request contradicts an earlier one."""

    status = 409
    default_code = "conflict"
    default_message = "This changed in the meantime. Load it again and repeat."


class TooLarge(KaizenError):
    """More bytes than the stated limit."""

    status = 413
    default_code = "too_large"
    default_message = "That is larger than the limit."


class Unsupported(KaizenError):
    """A kind of content that Kaizen doesn't read."""

    status = 415
    default_code = "unsupported"
    default_message = "Files of this kind can't be read."


class Limited(KaizenError):
    """Too much for now; `retry_at` says when it is possible again."""

    status = 429
    default_code = "limited"
    default_message = "Too many requests. Wait a moment and try again."

    def __init__(self, message: str = "", *, retry_at: datetime, code: str = "") -> None:
        super().__init__(message, code=code, data={"retry_at": retry_at.isoformat()})
        self.retry_at = retry_at


class Unavailable(KaizenError):
    """A part that is needed doesn't answer; `retry_after` is in seconds."""

    status = 503
    default_code = "unavailable"
    default_message = "A part of Kaizen isn't answering just now. Try again in a moment."

    def __init__(self, message: str = "", *, retry_after: int = 5, code: str = "") -> None:
        super().__init__(message, code=code, data={"retry_after": retry_after})
        self.retry_after = retry_after
