"""What can be found: sources, documents, their versions and passages.

The narrow index tables are plain SQL, partitioned by organisation, written by `ingest.index` and
read by `search`; they hold integer keys only and no copy of any grant.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.models import Project
from accounts.permissions import verbs_of
from kaizen.kernel.clock import now
from kaizen.kernel.models import KeyedModel, OrganizationModel


class Source(OrganizationModel, KeyedModel):
    """A collection of documents that is usually granted as one."""

    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.PROTECT, related_name="sources"
    )
    passage_count = models.PositiveIntegerField(default=0, editable=False)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    # Set while the rights upstream can't be read: until then nothing here is anybody's.
    acl_unknown_since = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("source")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "name"], name="source_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class Blob(OrganizationModel):
    """Bytes by content, once per organisation. Reading them always goes through a document's
    permission.
    """

    digest = models.CharField(max_length=64)
    size = models.PositiveBigIntegerField()
    storage_name = models.CharField(max_length=120)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "digest"], name="blob_once")
        ]

    def __str__(self) -> str:
        return self.digest[:12]


class Document(OrganizationModel, KeyedModel):
    """Something a person wrote or uploaded; its content lives in versions."""

    class AclState(models.TextChoices):
        INHERIT = "inherit", _("as its source")
        RESTRICTED = "restricted", _("only by its own grants")
        UNKNOWN = "unknown", _("unknown: visible to nobody")

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting")
        READING = "reading", _("being read")
        INDEXED = "indexed", _("indexed")
        FAILED = "failed", _("failed")

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="documents")
    title = models.CharField(max_length=300)
    file_name = models.CharField(max_length=255)
    path = models.CharField(max_length=1000, blank=True)
    external_id = models.CharField(max_length=1000)
    # What the source system calls this state of it; a sync reads it again when that changes.
    revision = models.CharField(max_length=200, blank=True, editable=False)
    url = models.CharField(max_length=2000, blank=True)
    author = models.CharField(max_length=200, blank=True)
    tags = ArrayField(models.CharField(max_length=60), default=list, blank=True)
    # When its author says it was written; `updated_at` where nobody says.
    dated_at = models.DateTimeField(null=True, blank=True)
    acl_state = models.CharField(max_length=16, choices=AclState.choices, default=AclState.INHERIT)
    language = models.CharField(max_length=16, blank=True)
    media_type = models.CharField(max_length=120, blank=True)
    current_version = models.ForeignKey(
        "DocumentVersion",
        null=True,
        blank=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
    )
    state = models.CharField(
        max_length=16, choices=State.choices, default=State.WAITING, editable=False
    )
    state_code = models.CharField(max_length=40, blank=True, editable=False)
    state_message = models.CharField(max_length=500, blank=True, editable=False)
    state_at = models.DateTimeField(default=now, editable=False)
    passage_count = models.PositiveIntegerField(default=0, editable=False)
    uploaded_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        on_delete=models.SET_NULL,
        related_name="+",
        editable=False,
    )
    created_at = models.DateTimeField(default=now, editable=False)
    updated_at = models.DateTimeField(default=now, editable=False)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("document")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "source", "external_id"],
                condition=models.Q(deleted_at=None),
                name="document_external_once",
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["organization", "source", "-updated_at"], name="document_list"),
            models.Index(
                fields=["state_at"],
                condition=models.Q(state__in=["waiting", "reading"]),
                name="document_waiting",
            ),
        ]

    def __str__(self) -> str:
        return self.title


class DocumentVersion(OrganizationModel):
    """One content of a document. The newest readable one is indexed; older ones stay openable for
    citations.
    """

    document = models.ForeignKey(Document, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    file_name = models.CharField(max_length=255)
    media_type = models.CharField(max_length=120, blank=True)
    encoding = models.CharField(max_length=40, blank=True)
    warnings = ArrayField(models.CharField(max_length=300), default=list, blank=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "document", "number"], name="version_number_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.document} v{self.number}"


class Chunk(OrganizationModel, KeyedModel):
    """A passage: the unit that is found and cited."""

    version = models.ForeignKey(DocumentVersion, on_delete=models.CASCADE, related_name="chunks")
    document = models.ForeignKey(Document, on_delete=models.PROTECT, related_name="+")
    ordinal = models.PositiveIntegerField()
    text = models.TextField()
    heading_path = ArrayField(models.CharField(max_length=300), default=list)
    page = models.PositiveIntegerField(null=True)
    kind = models.CharField(max_length=16)
    token_count = models.PositiveIntegerField()
    # Of the text that is embedded: equal passages share one computation of their vector.
    digest = models.CharField(max_length=32, default="", editable=False)

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [models.Index(fields=["organization", "digest"], name="chunk_digest")]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "version", "ordinal"], name="chunk_ordinal_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.document_id} #{self.ordinal}"
