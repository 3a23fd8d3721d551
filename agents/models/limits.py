"""What was spent: the append-only ledger, independent of conversations. Budgets will read it."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from kaizen.kernel.clock import now
from kaizen.kernel.models import AppendOnlyModel, OrganizationModel


class LedgerEntry(OrganizationModel, AppendOnlyModel):
    """One settled model call. Ids stand without foreign keys, so the ledger outlives what it
    records.
    """

    run_id = models.UUIDField()
    model_call_id = models.UUIDField()
    user_id = models.BigIntegerField()
    agent_id = models.UUIDField()
    language_model_id = models.UUIDField()
    input_tokens = models.PositiveIntegerField()
    output_tokens = models.PositiveIntegerField()
    estimated = models.BooleanField(default=False)
    cost = models.PositiveBigIntegerField(help_text=_("Millionths of a dollar."))
    at = models.DateTimeField(default=now)

    class Meta:
        verbose_name = _("ledger entry")
        verbose_name_plural = _("ledger entries")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "model_call_id"], name="ledger_once")
        ]
        indexes: ClassVar = [models.Index(fields=["organization", "at"], name="ledger_time")]

    def __str__(self) -> str:
        return f"{self.cost} for {self.model_call_id}"
