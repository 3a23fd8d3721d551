import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models
import kaizen.kernel.secrets


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0002_relation"),
        ("accounts", "__first__"),
        ("auth", "0012_alter_user_first_name_max_length"),
        ("retrieval", "0003_relation"),
    ]

    operations = [
        migrations.CreateModel(
            name="Agent",
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
                ("name", models.CharField(max_length=120)),
                ("description", models.CharField(blank=True, max_length=300)),
                (
                    "tools",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=64),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "all_sources",
                    models.BooleanField(
                        default=True,
                        help_text="Off: only the sources below. Either way, never more than the member may see.",
                    ),
                ),
                (
                    "max_steps",
                    models.PositiveIntegerField(
                        default=12,
                        help_text="Model calls in one run at most.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(50),
                        ],
                    ),
                ),
                (
                    "max_seconds",
                    models.PositiveIntegerField(
                        default=300,
                        help_text="Seconds a run may take at most.",
                        validators=[
                            django.core.validators.MinValueValidator(10),
                            django.core.validators.MaxValueValidator(3600),
                        ],
                    ),
                ),
                ("archived_at", models.DateTimeField(blank=True, editable=False, null=True)),
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
                "permissions": [
                    ("view_agent", "Can view agent"),
                    ("use_agent", "Can use agent"),
                    ("change_agent", "Can change agent"),
                    ("share_agent", "Can share agent"),
                    ("manage_agent", "Can manage agent"),
                ],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("organization", "name"), name="agent_name_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="AgentSource",
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
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="agent_sources",
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "agent", "source"), name="agent_source_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="agent",
            name="sources",
            field=models.ManyToManyField(
                blank=True,
                related_name="agents",
                through="agents.AgentSource",
                to="retrieval.source",
            ),
        ),
        migrations.CreateModel(
            name="AgentTeamGrant",
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
                        to="agents.agent",
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
                        fields=["group", "permission", "content_object"], name="agent_tg_group"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"], name="agent_tg_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="AgentUserGrant",
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
                        to="agents.agent",
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
                        fields=["user", "permission", "content_object"], name="agent_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"], name="agent_ug_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="AgentVersion",
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
                ("number", models.PositiveIntegerField()),
                ("definition", kaizen.kernel.models.ExactJSONField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                (
                    "agent",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="agents.agent",
                    ),
                ),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "agent", "number"), name="agent_version_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="agent",
            name="current_version",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.agentversion",
            ),
        ),
        migrations.CreateModel(
            name="LanguageModel",
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
                    "name",
                    models.CharField(
                        help_text="The vendor's own name, as sent on the wire.", max_length=120
                    ),
                ),
                ("label", models.CharField(max_length=120)),
                ("context_tokens", models.PositiveIntegerField(default=128000)),
                ("max_output_tokens", models.PositiveIntegerField(default=4096)),
                (
                    "input_price",
                    models.PositiveBigIntegerField(
                        default=0, help_text="Millionths of a dollar per million tokens."
                    ),
                ),
                (
                    "output_price",
                    models.PositiveBigIntegerField(
                        default=0, help_text="Millionths of a dollar per million tokens."
                    ),
                ),
                (
                    "cached_input_price",
                    models.PositiveBigIntegerField(
                        default=0, help_text="Millionths of a dollar per million tokens."
                    ),
                ),
                (
                    "is_default",
                    models.BooleanField(
                        default=False,
                        help_text="Used by agents that name no model. One per organisation.",
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
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
                "permissions": [
                    ("view_languagemodel", "Can view languagemodel"),
                    ("use_languagemodel", "Can use languagemodel"),
                    ("change_languagemodel", "Can change languagemodel"),
                    ("share_languagemodel", "Can share languagemodel"),
                    ("manage_languagemodel", "Can manage languagemodel"),
                ],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "label"), name="model_label_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("is_default", True)),
                        fields=("organization",),
                        name="model_one_default",
                    ),
                ],
            },
        ),
        migrations.AddField(
            model_name="agentversion",
            name="language_model",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.languagemodel",
            ),
        ),
        migrations.AddField(
            model_name="agent",
            name="language_model",
            field=models.ForeignKey(
                blank=True,
                help_text="Empty: the organisation's default model.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="agents",
                to="agents.languagemodel",
            ),
        ),
        migrations.CreateModel(
            name="LanguageModelTeamGrant",
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
                        to="agents.languagemodel",
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
                        fields=["group", "permission", "content_object"], name="model_tg_group"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"], name="model_tg_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="LanguageModelUserGrant",
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
                        to="agents.languagemodel",
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
                        fields=["user", "permission", "content_object"], name="model_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"], name="model_ug_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="LedgerEntry",
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
                ("run_id", models.UUIDField()),
                ("model_call_id", models.UUIDField()),
                ("user_id", models.BigIntegerField()),
                ("agent_id", models.UUIDField()),
                ("language_model_id", models.UUIDField()),
                ("input_tokens", models.PositiveIntegerField()),
                ("output_tokens", models.PositiveIntegerField()),
                ("estimated", models.BooleanField(default=False)),
                ("cost", models.PositiveBigIntegerField(help_text="Millionths of a dollar.")),
                ("at", models.DateTimeField(default=kaizen.kernel.clock.now)),
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
                "verbose_name": "ledger entry",
                "verbose_name_plural": "ledger entries",
                "default_permissions": (),
                "indexes": [models.Index(fields=["organization", "at"], name="ledger_time")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "model_call_id"), name="ledger_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ModelCall",
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
                ("run_id", models.UUIDField(db_index=True)),
                ("attempt", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("started", "started"),
                            ("finished", "finished"),
                            ("stopped", "stopped"),
                            ("failed", "failed"),
                        ],
                        default="started",
                        max_length=16,
                    ),
                ),
                ("input_tokens", models.PositiveIntegerField(default=0)),
                ("output_tokens", models.PositiveIntegerField(default=0)),
                ("cached_input_tokens", models.PositiveIntegerField(default=0)),
                ("usage_estimated", models.BooleanField(default=False)),
                ("raw_usage", kaizen.kernel.models.ExactJSONField(null=True)),
                ("price", kaizen.kernel.models.ExactJSONField(default=dict)),
                (
                    "cost",
                    models.PositiveBigIntegerField(default=0, help_text="Millionths of a dollar."),
                ),
                ("error_code", models.CharField(blank=True, max_length=40)),
                ("started_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("finished_at", models.DateTimeField(null=True)),
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
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ModelProvider",
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
                ("name", models.CharField(max_length=80)),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("extractive", "built in: quotes the best passages, needs no key"),
                            ("openai", "OpenAI"),
                            ("anthropic", "Anthropic"),
                            ("openai_compatible", "compatible with OpenAI Chat Completions"),
                        ],
                        max_length=24,
                    ),
                ),
                (
                    "base_url",
                    models.URLField(
                        blank=True, help_text="Leave empty for the vendor's own address."
                    ),
                ),
                (
                    "api_key",
                    kaizen.kernel.secrets.EncryptedTextField(
                        blank=True, default="", help_text="Kept encrypted and never shown again."
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
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
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "name"), name="provider_name_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="languagemodel",
            name="provider",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="language_models",
                to="agents.modelprovider",
            ),
        ),
        migrations.CreateModel(
            name="Prompt",
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
                ("name", models.CharField(max_length=120)),
                ("text", models.TextField(help_text="Who the agent is and how it answers.")),
                ("archived_at", models.DateTimeField(blank=True, editable=False, null=True)),
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
                "permissions": [
                    ("view_prompt", "Can view prompt"),
                    ("use_prompt", "Can use prompt"),
                    ("change_prompt", "Can change prompt"),
                    ("share_prompt", "Can share prompt"),
                    ("manage_prompt", "Can manage prompt"),
                ],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "name"), name="prompt_name_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="agent",
            name="prompt",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="agents",
                to="agents.prompt",
            ),
        ),
        migrations.CreateModel(
            name="PromptTeamGrant",
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
                        to="agents.prompt",
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
                        fields=["group", "permission", "content_object"], name="prompt_tg_group"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"], name="prompt_tg_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="PromptUserGrant",
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
                        to="agents.prompt",
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
                        fields=["user", "permission", "content_object"], name="prompt_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"], name="prompt_ug_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="PromptVersion",
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
                ("number", models.PositiveIntegerField()),
                ("text", models.TextField()),
                ("digest", models.CharField(max_length=64)),
                ("created_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
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
                    "prompt",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
                        to="agents.prompt",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "prompt", "number"), name="prompt_version_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="agentversion",
            name="prompt_version",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="agents.promptversion",
            ),
        ),
        migrations.CreateModel(
            name="ToolCall",
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
                ("run_id", models.UUIDField(db_index=True)),
                ("attempt", models.PositiveIntegerField()),
                ("step", models.PositiveIntegerField()),
                ("call_id", models.CharField(max_length=128)),
                ("name", models.CharField(max_length=64)),
                ("arguments_raw", models.TextField(blank=True)),
                ("arguments", kaizen.kernel.models.ExactJSONField(null=True)),
                ("effect", models.CharField(blank=True, max_length=16)),
                ("idempotency_key", models.CharField(max_length=64)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("intent", "started"),
                            ("done", "done"),
                            ("error", "refused or failed, the model was told"),
                            ("denied", "denied"),
                        ],
                        default="intent",
                        max_length=16,
                    ),
                ),
                ("record", kaizen.kernel.models.ExactJSONField(null=True)),
                ("label", models.CharField(blank=True, max_length=200)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("started_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                ("finished_at", models.DateTimeField(null=True)),
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "idempotency_key"), name="tool_call_once"
                    )
                ],
            },
        ),
    ]
