"""Who there is: organisations, people, memberships, teams, projects, keys. Data and constraints
only.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.base_user import AbstractBaseUser, BaseUserManager
from django.contrib.auth.models import Group, PermissionsMixin
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models.functions import Lower
from django.utils.translation import gettext_lazy as _

from accounts.permissions import (
    TeamGrantBase,
    UserGrantBase,
    team_grant_constraints,
    user_grant_constraints,
    verbs_of,
)
from kaizen.kernel.clock import now
from kaizen.kernel.models import KeyedModel, OrganizationModel, OrganizationQuerySet, uuid7


class Role(models.TextChoices):
    """What a member may configure. Content is opened by grants, never by a role."""

    OWNER = "owner", _("owner")
    ADMIN = "admin", _("admin")
    AUDITOR = "auditor", _("auditor")
    MEMBER = "member", _("member")


class Organization(KeyedModel):
    """The tenant."""

    class State(models.TextChoices):
        ACTIVE = "active", _("active")
        SUSPENDED = "suspended", _("suspended")

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(
        max_length=40, unique=True, help_text=_("In every address: /o/<slug>/.")
    )
    name = models.CharField(max_length=120)
    time_zone = models.CharField(max_length=64, default="UTC")
    locale = models.CharField(max_length=16, default="en")
    state = models.CharField(max_length=16, choices=State.choices, default=State.ACTIVE)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name = _("organisation")
        verbose_name_plural = _("organisations")

    def __str__(self) -> str:
        return self.name


class UserManager(BaseUserManager["User"]):
    """Creates people by e-mail."""

    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        """A new person; without a password nobody can sign in as them."""
        user = self.model(email=self.normalize_email(email).lower(), **fields)
        if password is None:
            user.set_unusable_password()
        else:
            user.set_password(password)
        user.save(using=self._db)
        return user


class User(AbstractBaseUser, PermissionsMixin):
    """A person, in as many organisations as they are members of. Carries no rights of its own."""

    public_id = models.UUIDField(unique=True, default=uuid7, editable=False)
    email = models.EmailField(max_length=254)
    name = models.CharField(max_length=120, blank=True)
    time_zone = models.CharField(max_length=64, blank=True)
    locale = models.CharField(max_length=16, blank=True)
    is_active = models.BooleanField(default=True)
    is_staff = (
        False  # The admin asks the membership's role; this only satisfies Django's interfaces.
    )
    created_at = models.DateTimeField(default=now, editable=False)

    USERNAME_FIELD = "email"
    REQUIRED_FIELDS: ClassVar[list[str]] = []
    objects = UserManager()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(Lower("email"), name="user_email_unique")]
        default_permissions = ()

    def __str__(self) -> str:
        return self.name or self.email


class Membership(OrganizationModel):
    """A person's place in one organisation."""

    class State(models.TextChoices):
        INVITED = "invited", _("invited")
        ACTIVE = "active", _("active")
        SUSPENDED = "suspended", _("suspended")

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.MEMBER)
    state = models.CharField(max_length=16, choices=State.choices, default=State.INVITED)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=models.Q(role__in=Role.values), name="membership_role_known"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["user", "organization"], name="membership_user")]

    def __str__(self) -> str:
        return str(self.user)


class Team(Group):
    """A team, nested by `parent`. Extends Group only because guardian's grants point there."""

    class Kind(models.TextChoices):
        TEAM = "team", _("team")
        EVERYONE = "everyone", _("everyone in the organisation")

    uuid = models.UUIDField(unique=True, default=uuid7, editable=False)
    organization = models.ForeignKey(
        Organization, on_delete=models.PROTECT, editable=False, related_name="+"
    )
    label = models.CharField(_("name"), max_length=120)
    kind = models.CharField(max_length=16, choices=Kind.choices, default=Kind.TEAM, editable=False)
    parent = models.ForeignKey(
        "self",
        null=True,
        blank=True,
        on_delete=models.PROTECT,
        related_name="children",
        help_text=_("Members of this team are members of the parent too."),
    )

    objects = OrganizationQuerySet.as_manager()  # type: ignore[assignment,misc]

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "label"], name="team_label_once"),
            models.UniqueConstraint(
                fields=["organization"],
                condition=models.Q(kind="everyone"),
                name="team_everyone_once",
            ),
        ]

    def __str__(self) -> str:
        return self.label


class TeamMembership(OrganizationModel):
    """A member's place in a team."""

    class TeamRole(models.TextChoices):
        LEAD = "lead", _("lead")
        MEMBER = "member", _("member")

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="team_memberships")
    membership = models.ForeignKey(
        Membership, on_delete=models.CASCADE, related_name="team_memberships"
    )
    role = models.CharField(max_length=16, choices=TeamRole.choices, default=TeamRole.MEMBER)

    class Meta:
        verbose_name = _("team member")
        verbose_name_plural = _("team members")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "team", "membership"], name="team_membership_once"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["membership", "team"], name="team_membership_member")
        ]

    def __str__(self) -> str:
        return f"{self.membership} in {self.team}"


class Project(OrganizationModel, KeyedModel):
    """A common piece of work that carries sources and conversations."""

    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        default_permissions = ()
        permissions: ClassVar = verbs_of("project")
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "name"], name="project_name_once")
        ]

    def __str__(self) -> str:
        return self.name


class ProjectUserGrant(UserGrantBase):
    """A person's grant on a project."""

    content_object = models.ForeignKey(
        Project, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = user_grant_constraints("project_ug")["unique_together"]
        indexes = user_grant_constraints("project_ug")["indexes"]


class ProjectTeamGrant(TeamGrantBase):
    """A team's grant on a project."""

    content_object = models.ForeignKey(
        Project, to_field="key", on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        default_permissions = ()
        unique_together = team_grant_constraints("project_tg")["unique_together"]
        indexes = team_grant_constraints("project_tg")["indexes"]


class ApiKey(OrganizationModel):
    """A key that lets a program act as one member, within its scopes. Only a digest is kept."""

    class Scope(models.TextChoices):
        SEARCH = "search", _("search and read documents")
        CHAT = "chat", _("start and read conversations")
        INGEST = "ingest", _("add and remove documents")
        ADMIN = "admin", _("configure sources and agents")

    membership = models.ForeignKey(Membership, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12, editable=False)
    digest = models.CharField(
        max_length=64, editable=False, validators=[RegexValidator(r"^[0-9a-f]{64}$")]
    )
    scopes = ArrayField(models.CharField(max_length=16, choices=Scope.choices), default=list)
    created_at = models.DateTimeField(default=now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["organization", "digest"], name="api_key_digest_once")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Idempotency(OrganizationModel):
    """The first answer to a keyed request, so that a retry is the same act."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    route = models.CharField(max_length=80)
    key = models.CharField(max_length=255)
    request_digest = models.CharField(max_length=64)
    result_id = models.UUIDField()
    created_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["organization", "user", "route", "key"], name="idempotency_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"
