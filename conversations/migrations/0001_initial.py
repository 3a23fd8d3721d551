import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0002_relation"),
        ("accounts", "__first__"),
        ("agents", "0001_initial"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="Conversation",
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
                ("title", models.CharField(blank=True, max_length=200)),
                (
                    "visibility",
                    models.CharField(
                        choices=[("private", "by grants only")], default="private", max_length=16
                    ),
                ),
                ("last_seq", models.BigIntegerField(default=0, editable=False)),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "updated_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("archived_at", models.DateTimeField(editable=False, null=True)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.agent",
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
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.project",
                    ),
                ),
                (
                    "started_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "permissions": [
                    ("view_conversation", "Can view conversation"),
                    ("use_conversation", "Can use conversation"),
                    ("change_conversation", "Can change conversation"),
                    ("share_conversation", "Can share conversation"),
                    ("manage_conversation", "Can manage conversation"),
                ],
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        fields=["organization", "-updated_at", "-id"], name="conversation_list"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Message",
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
                    "role",
                    models.CharField(
                        choices=[("user", "member"), ("assistant", "agent")], max_length=16
                    ),
                ),
                ("text", models.TextField()),
                ("created_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                (
                    "author",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="messages",
                        to="conversations.conversation",
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
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="conversations.message",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        fields=["organization", "conversation", "id"], name="message_order"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="conversation",
            name="head",
            field=models.ForeignKey(
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="conversations.message",
            ),
        ),
        migrations.CreateModel(
            name="Run",
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
                    "trigger",
                    models.CharField(
                        choices=[("chat", "a member's message"), ("task", "a task's due time")],
                        default="chat",
                        max_length=16,
                    ),
                ),
                ("answer_id", models.UUIDField(default=kaizen.kernel.models.uuid7, editable=False)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("waiting", "waiting"),
                            ("succeeded", "succeeded"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                        ],
                        default="queued",
                        max_length=16,
                    ),
                ),
                ("salvaged", models.BooleanField(default=False)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("lease_hash", models.CharField(blank=True, max_length=64)),
                ("lease_until", models.DateTimeField(null=True)),
                ("stop_requested_at", models.DateTimeField(null=True)),
                ("error_code", models.CharField(blank=True, max_length=40)),
                ("error_message", models.CharField(blank=True, max_length=500)),
                ("created_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                (
                    "agent_version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.agentversion",
                    ),
                ),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="conversations.conversation",
                    ),
                ),
                (
                    "language_model",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="agents.languagemodel",
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
                    "parent",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="conversations.run",
                    ),
                ),
                (
                    "question",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="conversations.message",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "queued")),
                        fields=["created_at"],
                        name="run_queued",
                    ),
                    models.Index(
                        condition=models.Q(("state", "running")),
                        fields=["lease_until"],
                        name="run_leases",
                    ),
                ],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["queued", "running", "waiting"])),
                        fields=("organization", "conversation"),
                        name="run_one_active",
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="message",
            name="run",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="messages",
                to="conversations.run",
            ),
        ),
        migrations.CreateModel(
            name="ConversationTeamGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("manual", "by hand"),
                            ("connector", "from the source system"),
                            ("share", "shared by a member"),
                        ],
                        default="manual",
                        max_length=16,
                    ),
                ),
                ("granted_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "content_object",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="conversations.conversation",
                    ),
                ),
                (
                    "granted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="auth.group",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
                (
                    "permission",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="auth.permission"
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        fields=["group", "permission", "content_object"],
                        name="conversation_tg_group",
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"],
                        name="conversation_tg_object",
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="ConversationUserGrant",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "origin",
                    models.CharField(
                        choices=[
                            ("manual", "by hand"),
                            ("connector", "from the source system"),
                            ("share", "shared by a member"),
                        ],
                        default="manual",
                        max_length=16,
                    ),
                ),
                ("granted_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                (
                    "content_object",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="conversations.conversation",
                    ),
                ),
                (
                    "granted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
                (
                    "permission",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, to="auth.permission"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        fields=["user", "permission", "content_object"], name="conversation_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"],
                        name="conversation_ug_object",
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="JournalEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("seq", models.BigIntegerField()),
                ("run_id", models.UUIDField(null=True)),
                ("attempt", models.PositiveIntegerField(default=0)),
                ("kind", models.CharField(max_length=32)),
                ("data", kaizen.kernel.models.ExactJSONField()),
                ("at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                (
                    "conversation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="conversations.conversation",
                    ),
                ),
                (
                    "organization",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.organization",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        fields=["organization", "run_id", "kind", "seq"], name="journal_run"
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "conversation", "seq"), name="journal_seq_once"
                    )
                ],
            },
        ),
    ]
