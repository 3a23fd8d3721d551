"""Question sets, and what was scored with them."""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models
from kaizen.kernel.migrations import tenant_foreign_keys


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_relation"),
        ("retrieval", "0006_spaces"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="QuestionSet",
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
                ("name", models.CharField(max_length=120, verbose_name="name")),
                ("description", models.TextField(blank=True, verbose_name="description")),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("archived_at", models.DateTimeField(blank=True, editable=False, null=True)),
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
                "verbose_name": "question set",
                "verbose_name_plural": "question sets",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Question",
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
                ("text", models.TextField(verbose_name="question")),
                ("digest", models.CharField(editable=False, max_length=64)),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("removed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
                (
                    "question_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="questions",
                        to="retrieval.questionset",
                        verbose_name="question set",
                    ),
                ),
            ],
            options={
                "verbose_name": "question",
                "verbose_name_plural": "questions",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Persona",
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
                (
                    "membership",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.membership",
                    ),
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
                (
                    "question_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="personas",
                        to="retrieval.questionset",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ScoreRun",
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
                (
                    "started_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, verbose_name="started"),
                ),
                ("ended_at", models.DateTimeField(null=True, verbose_name="ended")),
                (
                    "state",
                    models.CharField(
                        choices=[("running", "running"), ("done", "done"), ("stopped", "stopped")],
                        default="running",
                        max_length=16,
                        verbose_name="state",
                    ),
                ),
                ("message", models.CharField(blank=True, max_length=300, verbose_name="note")),
                ("search_settings", kaizen.kernel.models.ExactJSONField(default=dict)),
                ("settings_digest", models.CharField(max_length=64, verbose_name="settings")),
                ("planned", models.PositiveIntegerField(default=0, verbose_name="searches")),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("broken_off", models.PositiveIntegerField(default=0)),
                ("lease_until", models.DateTimeField(null=True)),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "organization",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
                (
                    "question_set",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="retrieval.questionset",
                        verbose_name="question set",
                    ),
                ),
                (
                    "started_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="started by",
                    ),
                ),
            ],
            options={
                "verbose_name": "scoring",
                "verbose_name_plural": "scorings",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ScoreRow",
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
                ("scored_at", models.DateTimeField(null=True)),
                ("ndcg_10", models.FloatField(null=True)),
                ("recall_10", models.FloatField(null=True)),
                ("recall_50", models.FloatField(null=True)),
                ("first_rank", models.PositiveSmallIntegerField(null=True)),
                ("expected", models.PositiveSmallIntegerField(default=0)),
                ("hidden", models.PositiveSmallIntegerField(default=0)),
                ("found", models.PositiveSmallIntegerField(default=0)),
                (
                    "leaked",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.UUIDField(), default=list, size=None
                    ),
                ),
                ("degraded", models.BooleanField(default=False)),
                ("inactive", models.BooleanField(default=False)),
                (
                    "membership",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.membership",
                    ),
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
                (
                    "question",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="retrieval.question",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="rows",
                        to="retrieval.scorerun",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="QuestionDocument",
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
                (
                    "kind",
                    models.CharField(
                        choices=[("expected", "expected"), ("forbidden", "forbidden")],
                        max_length=16,
                    ),
                ),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="retrieval.document",
                    ),
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
                (
                    "question",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="documents",
                        to="retrieval.question",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "question", "document"),
                        name="question_document_once",
                    )
                ],
            },
        ),
        migrations.AddConstraint(
            model_name="questionset",
            constraint=models.UniqueConstraint(
                fields=("organization", "name"),
                name="question_set_name_once",
                violation_error_message="There is a question set of this name already.",
            ),
        ),
        migrations.AddConstraint(
            model_name="question",
            constraint=models.UniqueConstraint(
                fields=("organization", "question_set", "digest"), name="question_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="persona",
            constraint=models.UniqueConstraint(
                fields=("organization", "question_set", "membership"), name="persona_once"
            ),
        ),
        migrations.AddIndex(
            model_name="scorerun",
            index=models.Index(
                fields=["organization", "question_set", "-started_at"], name="score_run_list"
            ),
        ),
        migrations.AddIndex(
            model_name="scorerun",
            index=models.Index(
                condition=models.Q(("state", "running")),
                fields=["state"],
                name="score_run_unfinished",
            ),
        ),
        migrations.AddConstraint(
            model_name="scorerow",
            constraint=models.UniqueConstraint(
                fields=("organization", "run", "question", "membership"), name="score_row_once"
            ),
        ),
        tenant_foreign_keys(
            ("retrieval_question", "question_set_id", "retrieval_questionset"),
            ("retrieval_persona", "question_set_id", "retrieval_questionset"),
            ("retrieval_persona", "membership_id", "accounts_membership"),
            ("retrieval_questiondocument", "question_id", "retrieval_question"),
            ("retrieval_questiondocument", "document_id", "retrieval_document"),
            ("retrieval_scorerun", "question_set_id", "retrieval_questionset"),
            ("retrieval_scorerow", "run_id", "retrieval_scorerun"),
            ("retrieval_scorerow", "question_id", "retrieval_question"),
            ("retrieval_scorerow", "membership_id", "accounts_membership"),
        ),
    ]
