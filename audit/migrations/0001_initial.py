from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="AuditPersonal",
            fields=[
                ("event_id", models.UUIDField(primary_key=True, serialize=False)),
                ("organization_id", models.UUIDField()),
                ("salt", models.CharField(max_length=32)),
                ("data", kaizen.kernel.models.ExactJSONField(default=dict)),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="AuditEvent",
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
                ("organization_id", models.UUIDField()),
                ("at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("action", models.CharField(max_length=64)),
                ("actor_id", models.UUIDField(null=True)),
                ("channel", models.CharField(max_length=16)),
                ("run_id", models.UUIDField(null=True)),
                ("object_type", models.CharField(blank=True, max_length=40)),
                ("object_id", models.CharField(blank=True, max_length=64)),
                ("data", kaizen.kernel.models.ExactJSONField(default=dict)),
                ("personal_digest", models.CharField(blank=True, max_length=64)),
            ],
            options={
                "verbose_name": "audit event",
                "verbose_name_plural": "audit events",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["organization_id", "-at"], name="audit_event_time"),
                    models.Index(
                        fields=["organization_id", "object_type", "object_id"],
                        name="audit_event_object",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditLink",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("organization_id", models.UUIDField()),
                ("seq", models.BigIntegerField()),
                ("event_id", models.UUIDField(unique=True)),
                ("previous", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                ("sealed_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
            ],
            options={
                "verbose_name": "chain link",
                "verbose_name_plural": "chain links",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization_id", "seq"), name="audit_link_once"
                    ),
                    models.UniqueConstraint(
                        fields=("organization_id", "previous"), name="audit_link_no_fork"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditPending",
            fields=[
                ("event_id", models.UUIDField(primary_key=True, serialize=False)),
                ("organization_id", models.UUIDField()),
                ("at", models.DateTimeField(default=kaizen.kernel.clock.now)),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["organization_id", "event_id"], name="audit_pending_order")
                ],
            },
        ),
    ]
