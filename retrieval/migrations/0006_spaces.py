"""The models to embed with and to rerank by, and how far the building of an embedding space is."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models
import kaizen.kernel.secrets
from kaizen.kernel.migrations import tenant_foreign_keys


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_relation"),
        ("retrieval", "0005_connections"),
    ]

    operations = [
        migrations.CreateModel(
            name="RerankModel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=kaizen.kernel.models.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("label", models.CharField(max_length=120, verbose_name="name shown")),
                (
                    "wire",
                    models.CharField(
                        choices=[
                            ("documents", "Cohere, Voyage, Jina, vLLM and most others"),
                            ("texts", "Text Embeddings Inference"),
                        ],
                        default="documents",
                        max_length=16,
                        verbose_name="protocol",
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        blank=True,
                        help_text="The provider's own name, as sent on the wire.",
                        max_length=120,
                        verbose_name="model",
                    ),
                ),
                (
                    "base_url",
                    models.CharField(
                        help_text="Without /rerank, for instance https://api.cohere.com/v2.",
                        max_length=500,
                        verbose_name="address",
                    ),
                ),
                (
                    "api_key",
                    kaizen.kernel.secrets.EncryptedTextField(
                        blank=True, default="", editable=False
                    ),
                ),
                (
                    "seconds",
                    models.FloatField(
                        default=3.0,
                        help_text="A search that waited for so long goes on without it.",
                        validators=[
                            django.core.validators.MinValueValidator(0.2),
                            django.core.validators.MaxValueValidator(15.0),
                        ],
                        verbose_name="seconds to wait",
                    ),
                ),
                (
                    "enabled",
                    models.BooleanField(
                        default=False,
                        help_text="Query and found passages are sent to this address.",
                        verbose_name="used in searches",
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
            ],
            options={
                "verbose_name": "rerank model",
                "verbose_name_plural": "rerank models",
                "default_permissions": (),
            },
        ),
        migrations.AlterModelOptions(
            name="embeddingspace",
            options={
                "default_permissions": (),
                "verbose_name": "embedding space",
                "verbose_name_plural": "embedding spaces",
            },
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="activated_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="attempt",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="cursor",
            field=models.BigIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="done",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="emptied_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="estimate",
            field=kaizen.kernel.models.ExactJSONField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="failures",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="last_error",
            field=models.CharField(blank=True, editable=False, max_length=500),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="lease_until",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="retired_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="retry_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="sent_at",
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="tokens",
            field=models.PositiveBigIntegerField(default=0, editable=False),
        ),
        migrations.CreateModel(
            name="EmbeddingModel",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=kaizen.kernel.models.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("label", models.CharField(max_length=120, verbose_name="name shown")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("local", "built in: runs on this machine, costs nothing"),
                            (
                                "compatible",
                                "a server with /v1/embeddings (OpenAI, Voyage, vLLM …)",
                            ),
                        ],
                        max_length=16,
                        verbose_name="kind",
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        blank=True,
                        help_text="The provider's own name, as sent on the wire.",
                        max_length=120,
                        verbose_name="model",
                    ),
                ),
                (
                    "base_url",
                    models.CharField(
                        blank=True,
                        help_text="Without /embeddings; it usually ends in /v1.",
                        max_length=500,
                        verbose_name="address",
                    ),
                ),
                (
                    "api_key",
                    kaizen.kernel.secrets.EncryptedTextField(
                        blank=True, default="", editable=False
                    ),
                ),
                (
                    "dimension",
                    models.PositiveIntegerField(default=384, verbose_name="numbers in a vector"),
                ),
                (
                    "sizing",
                    models.CharField(
                        choices=[
                            (
                                "asked",
                                "is asked for the index's size (OpenAI's text-embedding-3 and others)",
                            ),
                            (
                                "cut",
                                "was trained to be cut to a shorter vector (Voyage 3.5 and others)",
                            ),
                            ("own", "has the index's size by itself"),
                        ],
                        default="asked",
                        max_length=16,
                        verbose_name="size",
                    ),
                ),
                (
                    "query_prefix",
                    models.CharField(
                        blank=True,
                        help_text="Some models want “query: ”. Spaces count.",
                        max_length=200,
                        verbose_name="put before a query",
                    ),
                ),
                (
                    "passage_prefix",
                    models.CharField(
                        blank=True,
                        help_text="Some models want “passage: ”. Spaces count.",
                        max_length=200,
                        verbose_name="put before a passage",
                    ),
                ),
                (
                    "batch",
                    models.PositiveIntegerField(
                        default=64,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(512),
                        ],
                        verbose_name="texts in one request",
                    ),
                ),
                (
                    "price",
                    models.PositiveBigIntegerField(
                        default=0,
                        help_text="Millionths of a dollar per million tokens.",
                        verbose_name="price",
                    ),
                ),
                ("digest", models.CharField(editable=False, max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
            ],
            options={
                "verbose_name": "embedding model",
                "verbose_name_plural": "embedding models",
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="embeddingspace",
            name="embedding_model",
            field=models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="retrieval.embeddingmodel",
            ),
        ),
        migrations.AddIndex(
            model_name="embeddingspace",
            index=models.Index(
                condition=models.Q(
                    ("state", "building"),
                    models.Q(("emptied_at__isnull", True), ("state", "retired")),
                    _connector="OR",
                ),
                fields=["state"],
                name="space_unfinished",
            ),
        ),
        migrations.AddConstraint(
            model_name="embeddingspace",
            constraint=models.UniqueConstraint(
                condition=models.Q(("state", "building")),
                fields=("organization",),
                name="space_one_building",
            ),
        ),
        migrations.AddConstraint(
            model_name="embeddingmodel",
            constraint=models.UniqueConstraint(
                fields=("organization", "label"), name="embedding_model_label_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="embeddingmodel",
            constraint=models.UniqueConstraint(
                fields=("organization", "digest"),
                name="embedding_model_once",
                violation_error_message="This model is there already, with the same settings.",
            ),
        ),
        migrations.AddConstraint(
            model_name="rerankmodel",
            constraint=models.UniqueConstraint(
                fields=("organization", "label"), name="rerank_model_label_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="rerankmodel",
            constraint=models.UniqueConstraint(
                condition=models.Q(("enabled", True)),
                fields=("organization",),
                name="rerank_one_enabled",
                violation_error_message="Another one is used already: switch that off first.",
            ),
        ),
        tenant_foreign_keys(
            ("retrieval_embeddingspace", "embedding_model_id", "retrieval_embeddingmodel")
        ),
    ]
