"""What runs called: one row per model call and per tool call. Hold a run's id without a foreign
key.
"""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents.models.catalogue import LanguageModel
from kaizen.kernel.clock import now
from kaizen.kernel.models import ExactJSONField, OrganizationModel


class ModelCall(OrganizationModel):
    """One request to a model, with the provider's own usage and the price it was charged at."""

    class State(models.TextChoices):
        STARTED = "started", _("started")
        FINISHED = "finished", _("finished")
        STOPPED = "stopped", _("stopped")
        FAILED = "failed", _("failed")

    run_id = models.UUIDField(db_index=True)
    attempt = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    language_model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+")
    state = models.CharField(max_length=16, choices=State.choices, default=State.STARTED)
    input_tokens = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    cached_input_tokens = models.PositiveIntegerField(default=0)
    usage_estimated = models.BooleanField(default=False)
    raw_usage = ExactJSONField(null=True)
    price = ExactJSONField(default=dict)
    cost = models.PositiveBigIntegerField(default=0, help_text=_("Millionths of a dollar."))
    error_code = models.CharField(max_length=40, blank=True)
    started_at = models.DateTimeField(default=now)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.language_model_id} step {self.step}"


class ToolCall(OrganizationModel):
    """One tool call: the intent before it runs, the result after. Never runs twice under one
    key.
    """

    class State(models.TextChoices):
        INTENT = "intent", _("started")
        DONE = "done", _("done")
        ERROR = "error", _("refused or failed, the model was told")
        DENIED = "denied", _("denied")

    run_id = models.UUIDField(db_index=True)
    attempt = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    call_id = models.CharField(max_length=128)
    name = models.CharField(max_length=64)
    arguments_raw = models.TextField(blank=True)
    arguments = ExactJSONField(null=True)
    effect = models.CharField(max_length=16, blank=True)
    idempotency_key = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=State.choices, default=State.INTENT)
    record = ExactJSONField(null=True)
    label = models.CharField(max_length=200, blank=True)
    error = models.CharField(max_length=500, blank=True)
    started_at = models.DateTimeField(default=now)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "idempotency_key"], name="tool_call_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.call_id}"
