"""The former place of `retrieval.documents` and `retrieval.sources`; goes once nobody asks here."""

from __future__ import annotations

from retrieval.documents import (
    INGEST_JOB,
    PURGE_JOB,
    delete_document,
    open_blob,
    retry_document,
    set_acl_state,
    upload,
)
from retrieval.sources import archive_source, create_source, move_source, update_source

__all__ = [
    "INGEST_JOB",
    "PURGE_JOB",
    "archive_source",
    "create_source",
    "delete_document",
    "move_source",
    "open_blob",
    "retry_document",
    "set_acl_state",
    "update_source",
    "upload",
]
