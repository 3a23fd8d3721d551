"""The spaces that passages are embedded in: one model's vectors each."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from kaizen.kernel.clock import now
from kaizen.kernel.models import KeyedModel, OrganizationModel


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
