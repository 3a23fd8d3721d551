"""Connections of sources to the systems their documents come from, and how their syncs went.

Whoever syncs holds a lease: fenced by the attempt's number and the database's clock. The
connection's row in its state is the outbox of its own syncs.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from kaizen.kernel.clock import now
from kaizen.kernel.models import ExactJSONField, OrganizationModel
from kaizen.kernel.secrets import EncryptedTextField
from retrieval.models.library import Document, Source

LONGEST_MESSAGE = 500


class Connection(OrganizationModel):
    """A source's connection: which connector reads what, how often, and how far it is."""

    class State(models.TextChoices):
        ACTIVE = "active", _("active")
        FAILING = "failing", _("failing")
        PAUSED = "paused", _("paused")
        ENDING = "ending", _("being removed with its documents")

    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+")
    connector = models.CharField(max_length=40, editable=False)
    config = ExactJSONField(default=dict, editable=False)
    # JSON of the configuration's secret fields.
    secrets = EncryptedTextField(blank=True, editable=False)
    interval_minutes = models.PositiveIntegerField(
        _("minutes between syncs"),
        default=60,
        validators=[MinValueValidator(1), MaxValueValidator(60 * 24 * 31)],
    )
    requests_a_minute = models.PositiveIntegerField(
        _("requests a minute at most"),
        default=0,
        validators=[MaxValueValidator(60_000)],
        help_text=_("0: as fast as the other side answers."),
    )
    state = models.CharField(
        max_length=16, choices=State.choices, default=State.ACTIVE, editable=False
    )
    created_at = models.DateTimeField(default=now, editable=False)

    # How far it is. A pass is one reading of what changed, from its first page to its last; it
    # outlives the worker that began it.
    checkpoint = models.TextField(blank=True, editable=False)
    pass_number = models.PositiveIntegerField(default=0, editable=False)
    pass_open = models.BooleanField(default=False, editable=False)
    # Whether every page of the open pass was a listing's; None before its first page.
    pass_lists = models.BooleanField(null=True, editable=False)

    # Who syncs, and when it is due.
    attempt = models.PositiveIntegerField(default=0, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    next_sync_at = models.DateTimeField(default=now, editable=False)
    sent_at = models.DateTimeField(null=True, editable=False)

    # How it is.
    last_success_at = models.DateTimeField(null=True, editable=False)
    last_error = models.CharField(max_length=LONGEST_MESSAGE, blank=True, editable=False)
    consecutive_failures = models.PositiveIntegerField(default=0, editable=False)
    held_deletions = models.PositiveIntegerField(default=0, editable=False)
    deletions_allowed = models.BooleanField(default=False, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "source"],
                name="connection_source_once",
                violation_error_message=_("This source has a connection already."),
            )
        ]
        indexes: ClassVar = [models.Index(fields=["next_sync_at"], name="connection_due")]

    def __str__(self) -> str:
        return f"{self.source} · {self.connector}"


class SyncRun(OrganizationModel):
    """One sync: when, how it ended, and what it did."""

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        HELD = "held", _("deletions held back")
        FAILED = "failed", _("failed")
        STOPPED = "stopped", _("stopped")
        LOST = "lost", _("broken off")

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="runs")
    attempt = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.RUNNING)
    started_at = models.DateTimeField(default=now)
    ended_at = models.DateTimeField(null=True)
    seen = models.PositiveIntegerField(default=0)
    added = models.PositiveIntegerField(default=0)
    changed = models.PositiveIntegerField(default=0)
    deleted = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    message = models.CharField(max_length=LONGEST_MESSAGE, blank=True)

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=["organization", "connection", "-started_at"], name="sync_run_list")
        ]

    def __str__(self) -> str:
        return f"{self.connection_id} {self.started_at:%Y-%m-%d %H:%M}"


class SyncItem(OrganizationModel):
    """What a connection knows of one item: its document, the pass that last named it, and why it
    couldn't be fetched.
    """

    connection = models.ForeignKey(Connection, on_delete=models.CASCADE, related_name="items")
    external_id = models.CharField(max_length=1000)
    document = models.ForeignKey(Document, null=True, on_delete=models.PROTECT, related_name="+")
    first_pass = models.PositiveIntegerField()
    last_pass = models.PositiveIntegerField()
    # The item as it was named, kept while fetching it fails: nobody may name it a second time.
    waiting = ExactJSONField(null=True)
    error = models.CharField(max_length=LONGEST_MESSAGE, blank=True)
    failures = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "connection", "external_id"], name="sync_item_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["connection", "retry_at"],
                condition=models.Q(failures__gt=0),
                name="sync_item_failed",
            ),
        ]

    def __str__(self) -> str:
        return self.external_id


class WaitingReader(OrganizationModel):
    """A reader upstream whom nobody here bears the name of yet; the next sync looks again."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16)
    name = models.CharField(max_length=254)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "document", "kind", "name"], name="waiting_reader_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
