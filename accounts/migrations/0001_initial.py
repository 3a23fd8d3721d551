import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
from django.conf import settings
from django.db import migrations, models

import kaizen.kernel.clock
import kaizen.kernel.models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
    ]

    operations = [
        # The key defaults below name this sequence, so it comes first.
        migrations.RunSQL(
            sql="CREATE SEQUENCE IF NOT EXISTS kaizen_key_seq",
            reverse_sql="DROP SEQUENCE IF EXISTS kaizen_key_seq",
        ),
        migrations.CreateModel(
            name="Organization",
            fields=[
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
                    "slug",
                    models.SlugField(
                        help_text="In every address: /o/<slug>/.", max_length=40, unique=True
                    ),
                ),
                ("name", models.CharField(max_length=120)),
                ("time_zone", models.CharField(default="UTC", max_length=64)),
                ("locale", models.CharField(default="en", max_length=16)),
                (
                    "state",
                    models.CharField(
                        choices=[("active", "active"), ("suspended", "suspended")],
                        default="active",
                        max_length=16,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
            ],
            options={
                "verbose_name": "organisation",
                "verbose_name_plural": "organisations",
                "abstract": False,
            },
        ),
        migrations.CreateModel(
            name="User",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("password", models.CharField(max_length=128, verbose_name="password")),
                (
                    "last_login",
                    models.DateTimeField(blank=True, null=True, verbose_name="last login"),
                ),
                (
                    "is_superuser",
                    models.BooleanField(
                        default=False,
                        help_text="Designates that this user has all permissions without explicitly assigning them.",
                        verbose_name="superuser status",
                    ),
                ),
                (
                    "public_id",
                    models.UUIDField(
                        default=kaizen.kernel.models.uuid7, editable=False, unique=True
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("name", models.CharField(blank=True, max_length=120)),
                ("time_zone", models.CharField(blank=True, max_length=64)),
                ("locale", models.CharField(blank=True, max_length=16)),
                ("is_active", models.BooleanField(default=True)),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "groups",
                    models.ManyToManyField(
                        blank=True,
                        help_text="The groups this user belongs to. A user will get all permissions granted to each of their groups.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.group",
                        verbose_name="groups",
                    ),
                ),
                (
                    "user_permissions",
                    models.ManyToManyField(
                        blank=True,
                        help_text="Specific permissions for this user.",
                        related_name="user_set",
                        related_query_name="user",
                        to="auth.permission",
                        verbose_name="user permissions",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        django.db.models.functions.text.Lower("email"), name="user_email_unique"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
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
                        choices=[
                            ("owner", "owner"),
                            ("admin", "admin"),
                            ("auditor", "auditor"),
                            ("member", "member"),
                        ],
                        default="member",
                        max_length=16,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("invited", "invited"),
                            ("active", "active"),
                            ("suspended", "suspended"),
                        ],
                        default="invited",
                        max_length=16,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="memberships",
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
                "indexes": [models.Index(fields=["user", "organization"], name="membership_user")],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "user"), name="membership_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("role__in", ["owner", "admin", "auditor", "member"])),
                        name="membership_role_known",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="Idempotency",
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
                ("route", models.CharField(max_length=80)),
                ("key", models.CharField(max_length=255)),
                ("request_digest", models.CharField(max_length=64)),
                ("result_id", models.UUIDField()),
                ("created_at", models.DateTimeField(default=kaizen.kernel.clock.now)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
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
                        fields=("organization", "user", "route", "key"), name="idempotency_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
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
                ("prefix", models.CharField(editable=False, max_length=12)),
                (
                    "digest",
                    models.CharField(
                        editable=False,
                        max_length=64,
                        validators=[django.core.validators.RegexValidator("^[0-9a-f]{64}$")],
                    ),
                ),
                (
                    "scopes",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("search", "search and read documents"),
                                ("chat", "start and read conversations"),
                                ("ingest", "add and remove documents"),
                                ("admin", "configure sources and agents"),
                            ],
                            max_length=16,
                        ),
                        default=list,
                        size=None,
                    ),
                ),
                (
                    "created_at",
                    models.DateTimeField(default=kaizen.kernel.clock.now, editable=False),
                ),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                (
                    "membership",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_keys",
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
            ],
            options={
                "verbose_name": "API key",
                "verbose_name_plural": "API keys",
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "digest"), name="api_key_digest_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Project",
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
                ("archived_at", models.DateTimeField(blank=True, null=True)),
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
                    ("view_project", "Can view project"),
                    ("use_project", "Can use project"),
                    ("change_project", "Can change project"),
                    ("share_project", "Can share project"),
                    ("manage_project", "Can manage project"),
                ],
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "name"), name="project_name_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="ProjectTeamGrant",
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
                        to="accounts.project",
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
                        fields=["group", "permission", "content_object"], name="project_tg_group"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "group"], name="project_tg_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "group", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="ProjectUserGrant",
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
                        to="accounts.project",
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
                        fields=["user", "permission", "content_object"], name="project_ug_user"
                    ),
                    models.Index(
                        fields=["content_object", "permission", "user"], name="project_ug_object"
                    ),
                ],
                "unique_together": {
                    ("organization", "user", "permission", "content_object", "origin")
                },
            },
        ),
        migrations.CreateModel(
            name="Team",
            fields=[
                (
                    "group_ptr",
                    models.OneToOneField(
                        auto_created=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        parent_link=True,
                        primary_key=True,
                        serialize=False,
                        to="auth.group",
                    ),
                ),
                (
                    "uuid",
                    models.UUIDField(
                        default=kaizen.kernel.models.uuid7, editable=False, unique=True
                    ),
                ),
                ("label", models.CharField(max_length=120, verbose_name="name")),
                (
                    "kind",
                    models.CharField(
                        choices=[("team", "team"), ("everyone", "everyone in the organisation")],
                        default="team",
                        editable=False,
                        max_length=16,
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
                        blank=True,
                        help_text="Members of this team are members of the parent too.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="children",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "label"), name="team_label_once"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("kind", "everyone")),
                        fields=("organization",),
                        name="team_everyone_once",
                    ),
                ],
            },
            bases=("auth.group",),
        ),
        migrations.CreateModel(
            name="TeamMembership",
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
                        choices=[("lead", "lead"), ("member", "member")],
                        default="member",
                        max_length=16,
                    ),
                ),
                (
                    "membership",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="team_memberships",
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
                    "team",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="team_memberships",
                        to="accounts.team",
                    ),
                ),
            ],
            options={
                "verbose_name": "team member",
                "verbose_name_plural": "team members",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["membership", "team"], name="team_membership_member")
                ],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("organization", "team", "membership"), name="team_membership_once"
                    )
                ],
            },
        ),
    ]
