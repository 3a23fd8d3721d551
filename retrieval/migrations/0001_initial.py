import django.contrib.postgres.fields
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("accounts", "0001_initial"),
        ("accounts", "__first__"),
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        migrations.CreateModel(
            name="Blob",
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
                ("digest", models.CharField(max_length=64)),
                ("size", models.PositiveBigIntegerField()),
                ("storage_name", models.CharField(max_length=120)),
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
                    models.UniqueConstraint(fields=("organization", "digest"), name="blob_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Document",
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
                    "key",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("kaizen_key_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                        unique=True,
                    ),
                ),
                ("title", models.CharField(max_length=300)),
                ("file_name", models.CharField(max_length=255)),
                ("path", models.CharField(blank=True, max_length=1000)),
                ("external_id", models.CharField(max_length=1000)),
                ("revision", models.CharField(blank=True, editable=False, max_length=200)),
                ("url", models.CharField(blank=True, max_length=2000)),
                ("author", models.CharField(blank=True, max_length=200)),
                (
                    "tags",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=60),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                ("dated_at", models.DateTimeField(blank=True, null=True)),
                (
                    "acl_state",
                    models.CharField(
                        choices=[
                            ("inherit", "as its source"),
                            ("restricted", "only by its own grants"),
                            ("unknown", "unknown: visible to nobody"),
                        ],
                        default="inherit",
                        max_length=16,
                    ),
                ),
                ("language", models.CharField(blank=True, max_length=16)),
                ("media_type", models.CharField(blank=True, max_length=120)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("reading", "being read"),
                            ("indexed", "indexed"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        editable=False,
                        max_length=16,
                    ),
                ),
                ("state_code", models.CharField(blank=True, editable=False, max_length=40)),
                ("state_message", models.CharField(blank=True, editable=False, max_length=500)),
                ("state_at", models.DateTimeField(default=kaizen.kernel.clock.now, editable=False)),
                ("passage_count", models.PositiveIntegerField(default=0, editable=False)),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "updated_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("deleted_at", models.DateTimeField(blank=True, editable=False, null=True)),
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
                    "uploaded_by",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "permissions": [
                    ("view_document", "Can view document"),
                    ("use_document", "Can use document"),
                    ("change_document", "Can change document"),
                    ("share_document", "Can share document"),
                    ("manage_document", "Can manage document"),
                ],
                "default_permissions": (),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["waiting", "reading"])),
                        fields=["state_at"],
                        name="document_waiting",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="DocumentTeamGrant",
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
                        to="retrieval.document",
                        to_field="key",
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
                        fields=["group", "permission", "content_object"], name="document_tg_group"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"], name="document_tg_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="DocumentUserGrant",
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
                        to="retrieval.document",
                        to_field="key",
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
                        fields=["user", "permission", "content_object"], name="document_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"], name="document_ug_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="DocumentVersion",
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
                ("file_name", models.CharField(max_length=255)),
                ("media_type", models.CharField(blank=True, max_length=120)),
                ("encoding", models.CharField(blank=True, max_length=40)),
                (
                    "warnings",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=300),
                        blank=True,
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "blob",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="retrieval.blob",
                    ),
                ),
                (
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="versions",
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
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "document", "number"), name="version_number_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="document",
            name="current_version",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="retrieval.documentversion",
            ),
        ),
        migrations.CreateModel(
            name="Chunk",
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
                    "key",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("kaizen_key_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                        unique=True,
                    ),
                ),
                ("ordinal", models.PositiveIntegerField()),
                ("text", models.TextField()),
                (
                    "heading_path",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(max_length=300), default=list, size=None
                    ),
                ),
                ("page", models.PositiveIntegerField(null=True)),
                ("kind", models.CharField(max_length=16)),
                ("token_count", models.PositiveIntegerField()),
                ("digest", models.CharField(default="", editable=False, max_length=32)),
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
                    "document",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="retrieval.document",
                    ),
                ),
                (
                    "version",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="chunks",
                        to="retrieval.documentversion",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "version", "ordinal"), name="chunk_ordinal_once"
                    )
                ],
                "indexes": [
                    models.Index(fields=["organization", "digest"], name="chunk_digest"),
                ],
            },
        ),
        migrations.CreateModel(
            name="EmbeddingSpace",
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
                    "key",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("kaizen_key_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                        unique=True,
                    ),
                ),
                ("model", models.CharField(max_length=120)),
                ("digest", models.CharField(max_length=64)),
                ("dimension", models.PositiveIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("building", "building"),
                            ("active", "active"),
                            ("retired", "retired"),
                        ],
                        default="active",
                        max_length=16,
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
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "active")),
                        fields=("organization",),
                        name="space_one_active",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Source",
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
                    "key",
                    models.BigIntegerField(
                        db_default=models.Func(
                            models.Value("kaizen_key_seq"),
                            function="nextval",
                            output_field=models.BigIntegerField(),
                        ),
                        editable=False,
                        unique=True,
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("description", models.TextField(blank=True)),
                ("passage_count", models.PositiveIntegerField(default=0, editable=False)),
                ("archived_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("acl_unknown_since", models.DateTimeField(blank=True, editable=False, null=True)),
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
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="sources",
                        to="accounts.project",
                    ),
                ),
            ],
            options={
                "permissions": [
                    ("view_source", "Can view source"),
                    ("use_source", "Can use source"),
                    ("change_source", "Can change source"),
                    ("share_source", "Can share source"),
                    ("manage_source", "Can manage source"),
                ],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "name"), name="source_name_once"
                    )
                ],
            },
        ),
        migrations.AddField(
            model_name="document",
            name="source",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT,
                related_name="documents",
                to="retrieval.source",
            ),
        ),
        migrations.CreateModel(
            name="SourceTeamGrant",
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
                        to="retrieval.source",
                        to_field="key",
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
                        fields=["group", "permission", "content_object"], name="source_tg_group"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"], name="source_tg_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="SourceUserGrant",
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
                        to="retrieval.source",
                        to_field="key",
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
                        fields=["user", "permission", "content_object"], name="source_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"], name="source_ug_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.AddIndex(
            model_name="document",
            index=models.Index(
                fields=["organization", "source", "-updated_at"], name="document_list"
            ),
        ),
        migrations.AddConstraint(
            model_name="document",
            constraint=models.UniqueConstraint(
                condition=models.Q(("deleted_at", None)),
                fields=("organization", "source", "external_id"),
                name="document_external_once",
            ),
        ),
    ]
