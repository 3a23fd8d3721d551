"""Uploaded bytes on their way out: never shown as a page, whatever they are."""

from __future__ import annotations

from django.core.files.base import File
from django.http import FileResponse

SANDBOX = "default-src 'none'; sandbox"


def as_attachment(file: File[bytes], name: str, media_type: str) -> FileResponse:
    """A response that a browser saves and neither renders, guesses about nor keeps."""
    response = FileResponse(file, as_attachment=True, filename=name, content_type=media_type)
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = SANDBOX
    response["Cache-Control"] = "private, no-store"
    return response
