"""Connections to source systems, their syncs, and what they know of each item."""

import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models
import kaizen.kernel.secrets
from kaizen.kernel.migrations import tenant_foreign_keys


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_relation"), ("retrieval", "0003_relation")]
    operations = [
        migrations.CreateModel(
            name="Connection",
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
                ("connector", models.CharField(editable=False, max_length=40)),
                ("config", kaizen.kernel.models.ExactJSONField(default=dict, editable=False)),
                ("secrets", kaizen.kernel.secrets.EncryptedTextField(blank=True, editable=False)),
                (
                    "interval_minutes",
                    models.PositiveIntegerField(
                        default=60,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(44640),
                        ],
                        verbose_name="minutes between syncs",
                    ),
                ),
                (
                    "requests_a_minute",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="0: as fast as the other side answers.",
                        validators=[django.core.validators.MaxValueValidator(60000)],
                        verbose_name="requests a minute at most",
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("active", "active"),
                            ("failing", "failing"),
                            ("paused", "paused"),
                            ("ending", "being removed with its documents"),
                        ],
                        default="active",
                        editable=False,
                        max_length=16,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("checkpoint", models.TextField(blank=True, editable=False)),
                ("pass_number", models.PositiveIntegerField(default=0, editable=False)),
                ("pass_open", models.BooleanField(default=False, editable=False)),
                ("pass_lists", models.BooleanField(editable=False, null=True)),
                ("attempt", models.PositiveIntegerField(default=0, editable=False)),
                ("lease_until", models.DateTimeField(editable=False, null=True)),
                (
                    "next_sync_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("sent_at", models.DateTimeField(editable=False, null=True)),
                ("last_success_at", models.DateTimeField(editable=False, null=True)),
                ("last_error", models.CharField(blank=True, editable=False, max_length=500)),
                ("consecutive_failures", models.PositiveIntegerField(default=0, editable=False)),
                ("held_deletions", models.PositiveIntegerField(default=0, editable=False)),
                ("deletions_allowed", models.BooleanField(default=False, editable=False)),
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
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="retrieval.source",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SyncItem",
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
                ("external_id", models.CharField(max_length=1000)),
                ("first_pass", models.PositiveIntegerField()),
                ("last_pass", models.PositiveIntegerField()),
                ("waiting", kaizen.kernel.models.ExactJSONField(null=True)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("failures", models.PositiveIntegerField(default=0)),
                ("retry_at", models.DateTimeField(null=True)),
                (
                    "connection",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="retrieval.connection",
                    ),
                ),
                (
                    "document",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
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
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="SyncRun",
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
                ("attempt", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("running", "running"),
                            ("succeeded", "succeeded"),
                            ("held", "deletions held back"),
                            ("failed", "failed"),
                            ("stopped", "stopped"),
                            ("lost", "broken off"),
                        ],
                        default="running",
                        max_length=16,
                    ),
                ),
                ("started_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("ended_at", models.DateTimeField(null=True)),
                ("seen", models.PositiveIntegerField(default=0)),
                ("added", models.PositiveIntegerField(default=0)),
                ("changed", models.PositiveIntegerField(default=0)),
                ("deleted", models.PositiveIntegerField(default=0)),
                ("failed", models.PositiveIntegerField(default=0)),
                ("message", models.CharField(blank=True, max_length=500)),
                (
                    "connection",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="runs",
                        to="retrieval.connection",
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
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="WaitingReader",
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
                ("kind", models.CharField(max_length=16)),
                ("name", models.CharField(max_length=254)),
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
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.AddIndex(
            model_name="connection",
            index=models.Index(fields=["next_sync_at"], name="connection_due"),
        ),
        migrations.AddConstraint(
            model_name="connection",
            constraint=models.UniqueConstraint(
                fields=("organization", "source"),
                name="connection_source_once",
                violation_error_message="This source has a connection already.",
            ),
        ),
        migrations.AddIndex(
            model_name="syncitem",
            index=models.Index(
                condition=models.Q(("failures__gt", 0)),
                fields=["connection", "retry_at"],
                name="sync_item_failed",
            ),
        ),
        migrations.AddConstraint(
            model_name="syncitem",
            constraint=models.UniqueConstraint(
                fields=("organization", "connection", "external_id"), name="sync_item_once"
            ),
        ),
        migrations.AddIndex(
            model_name="syncrun",
            index=models.Index(
                fields=["organization", "connection", "-started_at"], name="sync_run_list"
            ),
        ),
        migrations.AddConstraint(
            model_name="waitingreader",
            constraint=models.UniqueConstraint(
                fields=("organization", "document", "kind", "name"), name="waiting_reader_once"
            ),
        ),
        tenant_foreign_keys(
            ("retrieval_connection", "source_id", "retrieval_source"),
            ("retrieval_syncrun", "connection_id", "retrieval_connection"),
            ("retrieval_syncitem", "connection_id", "retrieval_connection"),
            ("retrieval_syncitem", "document_id", "retrieval_document"),
            ("retrieval_waitingreader", "document_id", "retrieval_document"),
        ),
    ]
