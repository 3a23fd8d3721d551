"""Talk and its record: conversations, the message tree, runs, and the journal that is the truth."""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
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
from agents.models import Agent, AgentVersion, LanguageModel
from kaizen.kernel.clock import now
from kaizen.kernel.models import AppendOnlyModel, ExactJSONField, OrganizationModel, uuid7


class Conversation(OrganizationModel):
    """A thread of talk with one agent. Its row is the lock under which the journal is numbered."""

    class Visibility(models.TextChoices):
        PRIVATE = "private", _("by grants only")

    title = models.CharField(max_length=200, blank=True)
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="+")
    started_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+"
    )
    project = models.ForeignKey(
        Project, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    visibility = models.CharField(
        max_length=16, choices=Visibility.choices, default=Visibility.PRIVATE
    )
    head = models.ForeignKey(
        "Message", null=True, on_delete=models.PROTECT, related_name="+", editable=False
    )
    last_seq = models.BigIntegerField(default=0, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)
    updated_at = models.DateTimeField(default=now, editable=False)
    archived_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("conversation")
        indexes: ClassVar = [
            models.Index(fields=["organization", "-updated_at", "-id"], name="conversation_list")
        ]

    def __str__(self) -> str:
        return self.title or str(self.id)


class Run(OrganizationModel):
    """One execution of an agent version."""

    class State(models.TextChoices):
        QUEUED = "queued", _("queued")
        RUNNING = "running", _("running")
        WAITING = "waiting", _("waiting")
        SUCCEEDED = "succeeded", _("succeeded")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")

    class Trigger(models.TextChoices):
        CHAT = "chat", _("a member's message")
        TASK = "task", _("a task's due time")

    ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)

    conversation = models.ForeignKey(Conversation, on_delete=models.PROTECT, related_name="runs")
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    trigger = models.CharField(max_length=16, choices=Trigger.choices, default=Trigger.CHAT)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    agent_version = models.ForeignKey(AgentVersion, on_delete=models.PROTECT, related_name="+")
    language_model = models.ForeignKey(LanguageModel, on_delete=models.PROTECT, related_name="+")
    question = models.ForeignKey("Message", on_delete=models.PROTECT, related_name="+")
    answer_id = models.UUIDField(default=uuid7, editable=False)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    salvaged = models.BooleanField(default=False)
    attempt = models.PositiveIntegerField(default=0)
    lease_hash = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    error_code = models.CharField(max_length=40, blank=True)
    error_message = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=now)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "conversation"],
                condition=models.Q(state__in=["queued", "running", "waiting"]),
                name="run_one_active",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["created_at"], condition=models.Q(state="queued"), name="run_queued"
            ),
            models.Index(
                fields=["lease_until"], condition=models.Q(state="running"), name="run_leases"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.state}"


class Message(OrganizationModel):
    """One node of the message tree. Written once."""

    class Role(models.TextChoices):
        USER = "user", _("member")
        ASSISTANT = "assistant", _("agent")

    conversation = models.ForeignKey(
        Conversation, on_delete=models.PROTECT, related_name="messages"
    )
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    role = models.CharField(max_length=16, choices=Role.choices)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="messages")
    text = models.TextField()
    created_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        indexes: ClassVar = [
            models.Index(fields=["organization", "conversation", "id"], name="message_order")
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.id}"


class JournalEvent(AppendOnlyModel):
    """One numbered row of a conversation's history. Written only by `journal.py`."""

    id = models.BigAutoField(primary_key=True)
    organization = models.ForeignKey(
        "accounts.Organization", on_delete=models.PROTECT, related_name="+"
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.PROTECT, related_name="events")
    seq = models.BigIntegerField()
    run_id = models.UUIDField(null=True)
    attempt = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=32)
    data = ExactJSONField()
    at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "conversation", "seq"], name="journal_seq_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["organization", "run_id", "kind", "seq"], name="journal_run")
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"


class ConversationUserGrant(UserGrantBase):
    """A person's grant on a conversation."""

    content_object = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("conversation_ug")["unique_together"]
        indexes = user_grant_constraints("conversation_ug")["indexes"]


class ConversationTeamGrant(TeamGrantBase):
    """A team's grant on a conversation."""

    content_object = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("conversation_tg")["unique_together"]
        indexes = team_grant_constraints("conversation_tg")["indexes"]
