"""The spaces that passages are embedded in, one model's vectors each; the models to choose from;
and the models that order results anew.
"""

from __future__ import annotations

from typing import ClassVar

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from kaizen.kernel.clock import now
from kaizen.kernel.models import ExactJSONField, KeyedModel, OrganizationModel
from kaizen.kernel.secrets import EncryptedTextField

LONGEST_ERROR = 500


class EmbeddingModel(OrganizationModel):
    """A model that an organisation may embed with. What its vectors follow from can't change."""

    class Kind(models.TextChoices):
        LOCAL = "local", _("built in: runs on this machine, costs nothing")
        COMPATIBLE = (
            "compatible",
            _("a server with /v1/embeddings (OpenAI, Voyage, vLLM …)"),
        )

    class Sizing(models.TextChoices):
        ASKED = "asked", _("is asked for the index's size (OpenAI's text-embedding-3 and others)")
        CUT = "cut", _("was trained to be cut to a shorter vector (Voyage 3.5 and others)")
        OWN = "own", _("has the index's size by itself")

    label = models.CharField(_("name shown"), max_length=120)
    kind = models.CharField(_("kind"), max_length=16, choices=Kind.choices)
    name = models.CharField(
        _("model"),
        max_length=120,
        blank=True,
        help_text=_("The provider's own name, as sent on the wire."),
    )
    # Not a URLField: that one refuses names without a dot, which inner servers often have.
    base_url = models.CharField(
        _("address"),
        max_length=500,
        blank=True,
        help_text=_("Without /embeddings; it usually ends in /v1."),
    )
    api_key = EncryptedTextField(blank=True, default="", editable=False)
    dimension = models.PositiveIntegerField(_("numbers in a vector"), default=384)
    sizing = models.CharField(
        _("size"), max_length=16, choices=Sizing.choices, default=Sizing.ASKED
    )
    query_prefix = models.CharField(
        _("put before a query"),
        max_length=200,
        blank=True,
        help_text=_("Some models want “query: ”. Spaces count."),
    )
    passage_prefix = models.CharField(
        _("put before a passage"),
        max_length=200,
        blank=True,
        help_text=_("Some models want “passage: ”. Spaces count."),
    )
    batch = models.PositiveIntegerField(
        _("texts in one request"),
        default=64,
        validators=[MinValueValidator(1), MaxValueValidator(512)],
    )
    price = models.PositiveBigIntegerField(
        _("price"), default=0, help_text=_("Millionths of a dollar per million tokens.")
    )
    digest = models.CharField(max_length=64, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        verbose_name = _("embedding model")
        verbose_name_plural = _("embedding models")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "label"], name="embedding_model_label_once"
            ),
            models.UniqueConstraint(
                fields=["organization", "digest"],
                name="embedding_model_once",
                violation_error_message=_("This model is there already, with the same settings."),
            ),
        ]

    def __str__(self) -> str:
        return self.label


class EmbeddingSpace(OrganizationModel, KeyedModel):
    """One model's vectors. A query names exactly one space, so sizes and models are never mixed.

    Its row is the outbox of its own building and emptying.
    """

    class State(models.TextChoices):
        BUILDING = "building", _("building")
        ACTIVE = "active", _("active")
        RETIRED = "retired", _("retired")

    model = models.CharField(max_length=120)
    # None: the built-in model, as every organisation starts with.
    embedding_model = models.ForeignKey(
        EmbeddingModel, null=True, on_delete=models.PROTECT, related_name="+", editable=False
    )
    digest = models.CharField(max_length=64)
    dimension = models.PositiveIntegerField()
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    created_at = models.DateTimeField(default=now, editable=False)
    # What was said before it began: see `retrieval.spaces.changes.Estimate`.
    estimate = ExactJSONField(null=True, editable=False)
    done = models.PositiveIntegerField(default=0, editable=False)
    tokens = models.PositiveBigIntegerField(default=0, editable=False)
    # The key of the last passage that this round of building looked at.
    cursor = models.BigIntegerField(default=0, editable=False)
    attempt = models.PositiveIntegerField(default=0, editable=False)
    lease_until = models.DateTimeField(null=True, editable=False)
    sent_at = models.DateTimeField(null=True, editable=False)
    retry_at = models.DateTimeField(null=True, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False)
    last_error = models.CharField(max_length=LONGEST_ERROR, blank=True, editable=False)
    activated_at = models.DateTimeField(null=True, editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)
    emptied_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        default_permissions = ()
        verbose_name = _("embedding space")
        verbose_name_plural = _("embedding spaces")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization"], condition=models.Q(state="active"), name="space_one_active"
            ),
            models.UniqueConstraint(
                fields=["organization"],
                condition=models.Q(state="building"),
                name="space_one_building",
            ),
        ]
        indexes: ClassVar = [
            models.Index(
                fields=["state"],
                condition=models.Q(state="building")
                | models.Q(state="retired", emptied_at__isnull=True),
                name="space_unfinished",
            )
        ]

    def __str__(self) -> str:
        return self.model


class RerankModel(OrganizationModel):
    """A cross-encoder that orders the best passages anew. Off unless one is enabled."""

    class Wire(models.TextChoices):
        DOCUMENTS = "documents", _("Cohere, Voyage, Jina, vLLM and most others")
        TEXTS = "texts", _("Text Embeddings Inference")

    label = models.CharField(_("name shown"), max_length=120)
    wire = models.CharField(
        _("protocol"), max_length=16, choices=Wire.choices, default=Wire.DOCUMENTS
    )
    name = models.CharField(
        _("model"),
        max_length=120,
        blank=True,
        help_text=_("The provider's own name, as sent on the wire."),
    )
    base_url = models.CharField(
        _("address"),
        max_length=500,
        help_text=_("Without /rerank, for instance https://api.cohere.com/v2."),
    )
    api_key = EncryptedTextField(blank=True, default="", editable=False)
    seconds = models.FloatField(
        _("seconds to wait"),
        default=3.0,
        validators=[MinValueValidator(0.2), MaxValueValidator(15.0)],
        help_text=_("A search that waited for so long goes on without it."),
    )
    enabled = models.BooleanField(
        _("used in searches"),
        default=False,
        help_text=_("Query and found passages are sent to this address."),
    )
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        verbose_name = _("rerank model")
        verbose_name_plural = _("rerank models")
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "label"], name="rerank_model_label_once"
            ),
            models.UniqueConstraint(
                fields=["organization"],
                condition=models.Q(enabled=True),
                name="rerank_one_enabled",
                violation_error_message=_("Another one is used already: switch that off first."),
            ),
        ]

    def __str__(self) -> str:
        return self.label
