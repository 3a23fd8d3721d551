"""Question sets, and what was scored with them.

A question's text never changes: rewording makes a new one and takes the old one out, so that older
scores keep saying what was asked. A run's rows are planned when it is started; a row without a time
is still to be scored, and the run's own row is the outbox of its scoring.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.models import Membership
from kaizen.kernel.clock import now
from kaizen.kernel.models import ExactJSONField, OrganizationModel
from retrieval.models.library import Document

LONGEST_MESSAGE = 300


class QuestionSet(OrganizationModel):
    """Questions with the documents that should be found, and the members to ask them as."""

    name = models.CharField(_("name"), max_length=120)
    description = models.TextField(_("description"), blank=True)
    created_at = models.DateTimeField(default=now, editable=False)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        default_permissions = ()
        verbose_name = _("question set")
        verbose_name_plural = _("question sets")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "name"],
                name="question_set_name_once",
                violation_error_message=_("There is a question set of this name already."),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Persona(OrganizationModel):
    """A member as whom a set's questions are asked."""

    question_set = models.ForeignKey(QuestionSet, on_delete=models.CASCADE, related_name="personas")
    membership = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "question_set", "membership"], name="persona_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.question_set_id} {self.membership_id}"


class Question(OrganizationModel):
    """What is asked. `digest` is the SHA-256 of the text, which may be too long for an index."""

    question_set = models.ForeignKey(
        QuestionSet,
        on_delete=models.PROTECT,
        related_name="questions",
        verbose_name=_("question set"),
    )
    text = models.TextField(_("question"))
    digest = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)
    removed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        default_permissions = ()
        verbose_name = _("question")
        verbose_name_plural = _("questions")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "question_set", "digest"], name="question_once"
            )
        ]

    def __str__(self) -> str:
        return self.text if len(self.text) <= 80 else f"{self.text[:79]}…"


class QuestionDocument(OrganizationModel):
    """A document that a question should find, or never may."""

    class Kind(models.TextChoices):
        EXPECTED = "expected", _("expected")
        FORBIDDEN = "forbidden", _("forbidden")

    question = models.ForeignKey(Question, on_delete=models.CASCADE, related_name="documents")
    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16, choices=Kind.choices)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "question", "document"], name="question_document_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.question_id} {self.kind} {self.document_id}"


class ScoreRun(OrganizationModel):
    """One scoring of a set: who started it, under which settings, and how far it is."""

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        STOPPED = "stopped", _("stopped")

    question_set = models.ForeignKey(
        QuestionSet, on_delete=models.PROTECT, related_name="runs", verbose_name=_("question set")
    )
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="+",
        verbose_name=_("started by"),
    )
    started_at = models.DateTimeField(_("started"), default=now)
    ended_at = models.DateTimeField(_("ended"), null=True)
    state = models.CharField(
        _("state"), max_length=16, choices=State.choices, default=State.RUNNING
    )
    message = models.CharField(_("note"), max_length=LONGEST_MESSAGE, blank=True)
    # What a score depends on besides the documents: `retrieval.quality.score_runs` says what.
    search_settings = ExactJSONField(default=dict)
    settings_digest = models.CharField(_("settings"), max_length=64)
    planned = models.PositiveIntegerField(_("searches"), default=0)
    attempt = models.PositiveIntegerField(default=0)
    # How often in a row a worker began and scored nothing: a question may be what kills it.
    broken_off = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        verbose_name = _("scoring")
        verbose_name_plural = _("scorings")
        indexes: ClassVar = [
            models.Index(
                fields=["organization", "question_set", "-started_at"], name="score_run_list"
            ),
            models.Index(
                fields=["state"],
                condition=models.Q(state="running"),
                name="score_run_unfinished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.question_set} {self.started_at:%Y-%m-%d %H:%M}"


class ScoreRow(OrganizationModel):
    """One question asked as one member. Shares are None where nothing counts towards them."""

    run = models.ForeignKey(ScoreRun, on_delete=models.CASCADE, related_name="rows")
    question = models.ForeignKey(Question, on_delete=models.PROTECT, related_name="+")
    membership = models.ForeignKey(Membership, on_delete=models.PROTECT, related_name="+")
    scored_at = models.DateTimeField(null=True)
    ndcg_10 = models.FloatField(null=True)
    recall_10 = models.FloatField(null=True)
    recall_50 = models.FloatField(null=True)
    first_rank = models.PositiveSmallIntegerField(null=True)
    # Documents that were expected and that the member may view, and those that they may not.
    expected = models.PositiveSmallIntegerField(default=0)
    hidden = models.PositiveSmallIntegerField(default=0)
    found = models.PositiveSmallIntegerField(default=0)
    leaked = ArrayField(models.UUIDField(), default=list)
    # Searched by words alone, since the embedding model failed.
    degraded = models.BooleanField(default=False)
    # The member was suspended or gone: they see nothing.
    inactive = models.BooleanField(default=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "run", "question", "membership"], name="score_row_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.question_id} {self.membership_id}"
