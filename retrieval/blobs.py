"""Bytes in the object store: once per organisation and content, under a key that the server makes.

Promises: no name from outside is ever part of a path; bytes are there before a version refers to
them; what no living document needs any more is removed by `purge_document`. Reading goes through a
document's permission: `retrieval.documents.open_blob`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.core.files.base import ContentFile, File
from django.core.files.storage import default_storage
from django.db import transaction

from kaizen.kernel.api import check_size
from retrieval.models import Blob, Document, DocumentVersion


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes to store and their SHA-256."""

    data: bytes
    digest: str


def read_content(data: bytes | File[bytes]) -> Content:
    """All bytes of an upload. Raises TooLarge above the limit, before reading them."""
    limit = settings.KAIZEN_UPLOAD_LIMIT
    content = data if isinstance(data, bytes) else _read(data, limit=limit)
    check_size(len(content), limit=limit)
    return Content(content, hashlib.sha256(content).hexdigest())


def _read(file: File[bytes], *, limit: int) -> bytes:
    check_size(file.size or 0, limit=limit)
    file.seek(0)
    # One byte more than allowed, for a size that was not told truly.
    content: bytes = file.read(limit + 1)
    return content


def store_content(organization_id: UUID, content: Content) -> Blob:
    """The blob of these bytes, written if they aren't there.

    Locks the blob's row until the surrounding transaction ends, so that a purge can't take the
    bytes away first.
    """
    name = f"blobs/{organization_id}/{content.digest[:2]}/{content.digest}"
    Blob.objects.get_or_create(
        organization_id=organization_id,
        digest=content.digest,
        defaults={"size": len(content.data), "storage_name": name},
    )
    blob: Blob = Blob.objects.select_for_update().get(
        organization_id=organization_id, digest=content.digest
    )
    if not default_storage.exists(blob.storage_name):
        stored = default_storage.save(blob.storage_name, ContentFile(content.data))
        if stored != blob.storage_name:
            blob.storage_name = stored
            blob.save(update_fields=["storage_name"])
    return blob


def open_content(blob: Blob) -> File[bytes]:
    """The bytes of a blob, open for reading. Raises FileNotFoundError when the store lost them."""
    return default_storage.open(blob.storage_name, "rb")


def purge_document(document_id: UUID) -> int:
    """Remove versions, passages and bytes of a deleted document for good; returns how many blobs
    went.

    The document's row stays as the mark that it was here. Bytes that another version needs stay
    too.
    """
    with transaction.atomic():
        document = (
            Document.objects.select_for_update(no_key=True)
            .filter(pk=document_id, deleted_at__isnull=False)
            .first()
        )
        if document is None:
            return 0
        versions = DocumentVersion.objects.filter(document=document)
        blob_ids = list(versions.order_by("blob_id").values_list("blob_id", flat=True).distinct())
        document.current_version = None
        document.save(update_fields=["current_version"])
        versions.delete()
        return sum(_remove_unused(blob_id) for blob_id in blob_ids)


def _remove_unused(blob_id: UUID) -> bool:
    """The file goes before the row: if this is cut short, the row is still there to try again."""
    blob = Blob.objects.select_for_update().filter(pk=blob_id).first()
    if blob is None or DocumentVersion.objects.filter(blob=blob).exists():
        return False
    default_storage.delete(blob.storage_name)
    blob.delete()
    return True
