"""What an admin configures: providers, models, prompts, agents; and the immutable versions that
runs execute.
"""

from __future__ import annotations

from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from accounts.permissions import (
    TeamGrantBase,
    UserGrantBase,
    team_grant_constraints,
    user_grant_constraints,
    verbs_of,
)
from kaizen.kernel.clock import now
from kaizen.kernel.models import AppendOnlyModel, ExactJSONField, OrganizationModel
from kaizen.kernel.secrets import EncryptedTextField
from retrieval.models import Source


class ModelProvider(OrganizationModel):
    """An account at a model vendor, or a server that speaks a vendor's protocol."""

    class Kind(models.TextChoices):
        EXTRACTIVE = "extractive", _("built in: quotes the best passages, needs no key")
        OPENAI = "openai", _("OpenAI")
        ANTHROPIC = "anthropic", _("Anthropic")
        COMPATIBLE = "openai_compatible", _("compatible with OpenAI Chat Completions")

    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=24, choices=Kind.choices)
    base_url = models.URLField(blank=True, help_text=_("Leave empty for the vendor's own address."))
    api_key = EncryptedTextField(
        blank=True, default="", help_text=_("Kept encrypted and never shown again.")
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "name"], name="provider_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class LanguageModel(OrganizationModel):
    """One model of a provider, with its limits and prices."""

    provider = models.ForeignKey(
        ModelProvider, on_delete=models.PROTECT, related_name="language_models"
    )
    name = models.CharField(
        max_length=120, help_text=_("The vendor's own name, as sent on the wire.")
    )
    label = models.CharField(max_length=120)
    context_tokens = models.PositiveIntegerField(default=128_000)
    max_output_tokens = models.PositiveIntegerField(default=4_096)
    input_price = models.PositiveBigIntegerField(
        default=0, help_text=_("Millionths of a dollar per million tokens.")
    )
    output_price = models.PositiveBigIntegerField(
        default=0, help_text=_("Millionths of a dollar per million tokens.")
    )
    cached_input_price = models.PositiveBigIntegerField(
        default=0, help_text=_("Millionths of a dollar per million tokens.")
    )
    is_default = models.BooleanField(
        default=False, help_text=_("Used by agents that name no model. One per organisation.")
    )
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("languagemodel")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "label"], name="model_label_once"),
            models.UniqueConstraint(
                fields=["organization"],
                condition=models.Q(is_default=True),
                name="model_one_default",
            ),
        ]

    def __str__(self) -> str:
        return self.label


class Prompt(OrganizationModel):
    """A persona text that agents share. What runs is a version of it."""

    name = models.CharField(max_length=120)
    text = models.TextField(help_text=_("Who the agent is and how it answers."))
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("prompt")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "name"], name="prompt_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class PromptVersion(OrganizationModel, AppendOnlyModel):
    """One published text of a prompt. Immutable."""

    prompt = models.ForeignKey(Prompt, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    text = models.TextField()
    digest = models.CharField(max_length=64)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "prompt", "number"], name="prompt_version_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.prompt} v{self.number}"


class Agent(OrganizationModel):
    """What members talk to. Edited here; every run executes one of its versions."""

    name = models.CharField(max_length=120)
    description = models.CharField(max_length=300, blank=True)
    prompt = models.ForeignKey(Prompt, on_delete=models.PROTECT, related_name="agents")
    language_model = models.ForeignKey(
        LanguageModel,
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="agents",
        help_text=_("Empty: the organisation's default model."),
    )
    tools = ArrayField(models.CharField(max_length=64), default=list, blank=True)
    all_sources = models.BooleanField(
        default=True,
        help_text=_("Off: only the sources below. Either way, never more than the member may see."),
    )
    sources = models.ManyToManyField(
        Source, through="AgentSource", blank=True, related_name="agents"
    )
    max_steps = models.PositiveIntegerField(
        default=12,
        validators=[MinValueValidator(1), MaxValueValidator(50)],
        help_text=_("Model calls in one run at most."),
    )
    max_seconds = models.PositiveIntegerField(
        default=300,
        validators=[MinValueValidator(10), MaxValueValidator(3600)],
        help_text=_("Seconds a run may take at most."),
    )
    current_version = models.ForeignKey(
        "AgentVersion",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="+",
        editable=False,
    )
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("agent")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "name"], name="agent_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class AgentSource(OrganizationModel):
    """A source that an agent may use. Attaching one can only narrow."""

    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="agent_sources")
    source = models.ForeignKey(Source, on_delete=models.PROTECT, related_name="+")

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "agent", "source"], name="agent_source_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.agent} may use {self.source}"


class AgentVersion(OrganizationModel, AppendOnlyModel):
    """What a run executes: immutable, numbered, with a digest over everything that bears on
    authority.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    prompt_version = models.ForeignKey(PromptVersion, on_delete=models.PROTECT, related_name="+")
    language_model = models.ForeignKey(
        LanguageModel, null=True, on_delete=models.PROTECT, related_name="+"
    )
    definition = ExactJSONField()
    digest = models.CharField(max_length=64)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    created_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "agent", "number"], name="agent_version_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.agent} v{self.number}"


class AgentUserGrant(UserGrantBase):
    """A person's grant on an agent."""

    content_object = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("agent_ug")["unique_together"]
        indexes = user_grant_constraints("agent_ug")["indexes"]


class AgentTeamGrant(TeamGrantBase):
    """A team's grant on an agent."""

    content_object = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("agent_tg")["unique_together"]
        indexes = team_grant_constraints("agent_tg")["indexes"]


class PromptUserGrant(UserGrantBase):
    """A person's grant on a prompt."""

    content_object = models.ForeignKey(Prompt, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("prompt_ug")["unique_together"]
        indexes = user_grant_constraints("prompt_ug")["indexes"]


class PromptTeamGrant(TeamGrantBase):
    """A team's grant on a prompt."""

    content_object = models.ForeignKey(Prompt, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("prompt_tg")["unique_together"]
        indexes = team_grant_constraints("prompt_tg")["indexes"]


class LanguageModelUserGrant(UserGrantBase):
    """A person's grant on a language model."""

    content_object = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("model_ug")["unique_together"]
        indexes = user_grant_constraints("model_ug")["indexes"]


class LanguageModelTeamGrant(TeamGrantBase):
    """A team's grant on a language model."""

    content_object = models.ForeignKey(LanguageModel, on_delete=models.CASCADE, related_name="+")

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("model_tg")["unique_together"]
        indexes = team_grant_constraints("model_tg")["indexes"]
