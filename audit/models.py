"""What happened. No foreign keys, so that it outlives its subjects. Written only by `audit.record`
and `audit.chain`.
"""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from kaizen.kernel.clock import now
from kaizen.kernel.models import AppendOnlyModel, ExactJSONField, uuid7

PLATFORM = uuid.UUID(int=0)
"""The chain of what belongs to no organisation, such as failed sign-ins."""


class AuditEvent(AppendOnlyModel):
    """One act or one read that matters. Personal values live beside; here stands their salted
    digest.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    organization_id = models.UUIDField()
    at = models.DateTimeField(default=now)
    action = models.CharField(max_length=64)
    actor_id = models.UUIDField(null=True)
    channel = models.CharField(max_length=16)
    run_id = models.UUIDField(null=True)
    object_type = models.CharField(max_length=40, blank=True)
    object_id = models.CharField(max_length=64, blank=True)
    data = ExactJSONField(default=dict)
    personal_digest = models.CharField(max_length=64, blank=True)

    class Meta:
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=["organization_id", "-at"], name="audit_event_time"),
            models.Index(
                fields=["organization_id", "object_type", "object_id"], name="audit_event_object"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.object_type} {self.object_id}"


class AuditPersonal(models.Model):
    """Values about persons in an event, erasable: the event keeps only their salted digest."""

    event_id = models.UUIDField(primary_key=True)
    organization_id = models.UUIDField()
    salt = models.CharField(max_length=32)
    data = ExactJSONField(default=dict)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.event_id)


class AuditPending(models.Model):
    """Events that are not sealed yet. Inserted with the event, deleted by the sealer."""

    event_id = models.UUIDField(primary_key=True)
    organization_id = models.UUIDField()
    at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=["organization_id", "event_id"], name="audit_pending_order")
        ]

    def __str__(self) -> str:
        return str(self.event_id)


class AuditLink(AppendOnlyModel):
    """One link of an organisation's chain: hash over the previous hash and the whole event."""

    id = models.BigAutoField(primary_key=True)
    organization_id = models.UUIDField()
    seq = models.BigIntegerField()
    event_id = models.UUIDField(unique=True)
    previous = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)
    sealed_at = models.DateTimeField(default=now)

    class Meta:
        verbose_name = _("chain link")
        verbose_name_plural = _("chain links")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization_id", "seq"], name="audit_link_once"),
            models.UniqueConstraint(
                fields=["organization_id", "previous"], name="audit_link_no_fork"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.event_id}"
