"""Live sources, their tools, members' own credentials, and what was read lately."""

import django.db.models.deletion
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models
import kaizen.kernel.secrets
from kaizen.kernel.migrations import cascade_in_database, tenant_foreign_keys


def identity() -> tuple[str, models.UUIDField]:
    return (
        "id",
        models.UUIDField(
            default=kaizen.kernel.models.uuid7,
            editable=False,
            primary_key=True,
            serialize=False,
        ),
    )


def organization() -> tuple[str, models.ForeignKey]:
    return (
        "organization",
        models.ForeignKey(
            editable=False,
            on_delete=django.db.models.deletion.PROTECT,
            related_name="+",
            to="accounts.organization",
        ),
    )


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_relation"), ("retrieval", "0007_questions")]
    operations = [
        migrations.CreateModel(
            name="LiveSource",
            fields=[
                identity(),
                ("url", models.CharField(editable=False, max_length=2000, verbose_name="address")),
                ("protocol", models.CharField(blank=True, editable=False, max_length=16)),
                (
                    "asked_at",
                    models.DateTimeField(
                        editable=False, null=True, verbose_name="asked for its tools"
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                organization(),
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
                "verbose_name": "live source",
                "verbose_name_plural": "live sources",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="LiveTool",
            fields=[
                identity(),
                ("name", models.CharField(max_length=128)),
                ("title", models.CharField(blank=True, max_length=200)),
                ("description", models.TextField(blank=True)),
                ("schema", kaizen.kernel.models.ExactJSONField(default=dict)),
                ("read_only", models.BooleanField(default=False)),
                ("digest", models.CharField(max_length=64)),
                ("allowed", models.BooleanField(default=False)),
                (
                    "live_source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="tools",
                        to="retrieval.livesource",
                    ),
                ),
                organization(),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="MemberCredential",
            fields=[
                identity(),
                ("token", kaizen.kernel.secrets.EncryptedTextField()),
                ("created_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("last_used_at", models.DateTimeField(null=True)),
                ("last_error", models.CharField(blank=True, max_length=300)),
                (
                    "live_source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="retrieval.livesource",
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
                organization(),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="LiveResult",
            fields=[
                identity(),
                ("digest", models.CharField(max_length=64)),
                ("text", kaizen.kernel.secrets.EncryptedTextField()),
                ("read_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("kept_until", models.DateTimeField()),
                organization(),
                (
                    "credential",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="retrieval.membercredential",
                    ),
                ),
            ],
            options={"default_permissions": ()},
        ),
        migrations.AddConstraint(
            model_name="livesource",
            constraint=models.UniqueConstraint(
                fields=("organization", "source"), name="live_source_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="livetool",
            constraint=models.UniqueConstraint(
                fields=("organization", "live_source", "name"), name="live_tool_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="membercredential",
            constraint=models.UniqueConstraint(
                fields=("organization", "membership", "live_source"),
                name="member_credential_once",
            ),
        ),
        migrations.AddIndex(
            model_name="liveresult",
            index=models.Index(fields=["kept_until"], name="live_result_end"),
        ),
        migrations.AddConstraint(
            model_name="liveresult",
            constraint=models.UniqueConstraint(
                fields=("organization", "credential", "digest"), name="live_result_once"
            ),
        ),
        tenant_foreign_keys(
            ("retrieval_livesource", "source_id", "retrieval_source"),
            ("retrieval_livetool", "live_source_id", "retrieval_livesource"),
            ("retrieval_membercredential", "live_source_id", "retrieval_livesource"),
            ("retrieval_membercredential", "membership_id", "accounts_membership"),
            ("retrieval_liveresult", "credential_id", "retrieval_membercredential"),
        ),
        # A read may end while its account is being disconnected: what it brought goes too.
        cascade_in_database(
            ("retrieval_liveresult", "credential_id", "retrieval_membercredential", "id")
        ),
    ]
