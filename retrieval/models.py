"""What can be found: sources, documents, their versions and passages, and the spaces they are
embedded in.

The narrow index tables (`retrieval_vector`, `retrieval_lexeme`) are plain SQL, partitioned by
organisation, written by `ingest.store` and read by `search`; they hold integer keys only and no
copy of any grant.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.models import Project
from accounts.permissions import (
    TeamGrantBase,
    UserGrantBase,
    team_grant_constraints,
    user_grant_constraints,
    verbs_of,
)
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
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("source")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "name"], name="source_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class EmbeddingSpace(OrganizationModel, KeyedModel):
    """One model's vectors. A query names exactly one space, so sizes and models are never mixed."""

    class State(models.TextChoices):
        BUILDING = "building", _("building")
        ACTIVE = "active", _("active")
        RETIRED = "retired", _("retired")

    model = models.CharField(max_length=120)
    digest = models.CharField(max_length=64)
    dimension = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization"], condition=models.Q(state="active"), name="space_one_active"
            )
        ]

    def __str__(self) -> str:
        return self.model


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

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "version", "ordinal"], name="chunk_ordinal_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.document_id} #{self.ordinal}"


class SourceUserGrant(UserGrantBase):
    """A person's grant on a source."""

    content_object = models.ForeignKey(
        Source, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("source_ug")["unique_together"]
        indexes = user_grant_constraints("source_ug")["indexes"]


class SourceTeamGrant(TeamGrantBase):
    """A team's grant on a source."""

    content_object = models.ForeignKey(
        Source, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("source_tg")["unique_together"]
        indexes = team_grant_constraints("source_tg")["indexes"]


class DocumentUserGrant(UserGrantBase):
    """A person's grant on one document."""

    content_object = models.ForeignKey(
        Document, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("document_ug")["unique_together"]
        indexes = user_grant_constraints("document_ug")["indexes"]


class DocumentTeamGrant(TeamGrantBase):
    """A team's grant on one document."""

    content_object = models.ForeignKey(
        Document, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("document_tg")["unique_together"]
        indexes = team_grant_constraints("document_tg")["indexes"]
