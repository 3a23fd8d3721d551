"""Work without a member present: tasks, their due times, and the consent they run under."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.permissions import (
    TeamGrantBase,
    UserGrantBase,
    team_grant_constraints,
    user_grant_constraints,
    verbs_of,
)
from agents.models import Agent
from conversations.models import Conversation, Run
from kaizen.kernel.clock import now
from kaizen.kernel.models import OrganizationModel


class Task(OrganizationModel):
    """A prompt that an agent works on at due times."""

    class State(models.TextChoices):
        ACTIVE = "active", _("active")
        PAUSED = "paused", _("paused")
        ARCHIVED = "archived", _("archived")

    name = models.CharField(max_length=120)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", editable=False
    )
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    prompt = models.TextField()
    cron = models.CharField(
        max_length=120, help_text=_("Five fields: minute, hour, day, month, weekday.")
    )
    time_zone = models.CharField(max_length=64)
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    next_due_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("task")
        indexes: ClassVar = [
            models.Index(
                fields=["next_due_at"], condition=models.Q(state="active"), name="task_due"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Delegation(OrganizationModel):
    """A member's dated consent for one task digest; revocable at once."""

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="delegations")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    digest = models.CharField(max_length=64)
    granted_at = models.DateTimeField(default=now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=["organization", "task", "-granted_at"], name="delegation_latest")
        ]

    def __str__(self) -> str:
        return f"{self.task} until {self.expires_at:%Y-%m-%d}"


class Occurrence(OrganizationModel):
    """One due time of a task; unique, so that two schedulers start it once."""

    class State(models.TextChoices):
        DUE = "due", _("due")
        RUNNING = "running", _("running")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        REFUSED = "refused", _("not started")

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="occurrences")
    due_at = models.DateTimeField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.DUE)
    reason = models.CharField(max_length=200, blank=True)
    conversation = models.ForeignKey(
        Conversation, null=True, on_delete=models.PROTECT, related_name="+"
    )
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(default=now)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "task", "due_at"], name="occurrence_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["created_at"],
                condition=models.Q(state__in=["due", "running"]),
                name="occurrence_open",
            )
        ]

    def __str__(self) -> str:
        return f"{self.task} at {self.due_at:%Y-%m-%d %H:%M}"


class TaskUserGrant(UserGrantBase):
    """A person's grant on a task."""

    content_object = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("task_ug")["unique_together"]
        indexes = user_grant_constraints("task_ug")["indexes"]


class TaskTeamGrant(TeamGrantBase):
    """A team's grant on a task."""

    content_object = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("task_tg")["unique_together"]
        indexes = team_grant_constraints("task_tg")["indexes"]
