"""The accounts API's shapes. Ids are public; keys, digests and integer ids never appear."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework import serializers

from accounts.models import ApiKey, Membership, Organization, Project, Role, Team
from accounts.permissions import Origin, Verb


class OrganizationOut(serializers.ModelSerializer[Organization]):
    """An organisation."""

    class Meta:
        model = Organization
        fields: ClassVar = ["id", "slug", "name", "time_zone", "locale"]


class MeOut(serializers.Serializer[Any]):
    """Who is asking."""

    id = serializers.UUIDField()
    membership = serializers.UUIDField()
    email = serializers.EmailField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=Role.choices)
    channel = serializers.CharField()
    scopes = serializers.ListField(child=serializers.CharField(), allow_null=True)
    capabilities = serializers.ListField(child=serializers.CharField())
    organization = OrganizationOut()


class MemberOut(serializers.ModelSerializer[Membership]):
    """A member; `person` is the id that grants name."""

    person = serializers.UUIDField(source="user.public_id")
    email = serializers.EmailField(source="user.email")
    name = serializers.CharField(source="user.name")

    class Meta:
        model = Membership
        fields: ClassVar = ["id", "person", "email", "name", "role", "state", "created_at"]


class MemberIn(serializers.Serializer[Any]):
    """An invitation."""

    email = serializers.EmailField(max_length=254)
    role = serializers.ChoiceField(choices=Role.choices, default=Role.MEMBER)


class InvitedOut(serializers.Serializer[Any]):
    """An invited member and the link to hand over."""

    member = MemberOut()
    link = serializers.URLField()


class TeamOut(serializers.ModelSerializer[Team]):
    """A team."""

    id = serializers.UUIDField(source="uuid")
    name = serializers.CharField(source="label")
    parent = serializers.UUIDField(  # type: ignore[assignment]
        source="parent.uuid", default=None, allow_null=True
    )

    class Meta:
        model = Team
        fields: ClassVar = ["id", "name", "kind", "parent"]


class TeamIn(serializers.Serializer[Any]):
    """A new team."""

    name = serializers.CharField(max_length=120)
    parent = serializers.UUIDField(  # type: ignore[assignment]
        required=False, allow_null=True, default=None
    )


class ProjectOut(serializers.ModelSerializer[Project]):
    """A project."""

    class Meta:
        model = Project
        fields: ClassVar = ["id", "name", "description", "archived_at", "created_at"]


class ProjectIn(serializers.Serializer[Any]):
    """A new project."""

    name = serializers.CharField(max_length=120)
    description = serializers.CharField(max_length=10_000, allow_blank=True, default="")


class KeyOut(serializers.ModelSerializer[ApiKey]):
    """An API key without its secret."""

    class Meta:
        model = ApiKey
        fields: ClassVar = [
            "id",
            "name",
            "prefix",
            "scopes",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        ]


class KeyIn(serializers.Serializer[Any]):
    """A new API key."""

    name = serializers.CharField(max_length=80)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=ApiKey.Scope.choices), min_length=1, max_length=8
    )
    expires_at = serializers.DateTimeField()


class KeyMadeOut(KeyOut):
    """A new API key with its secret, shown this once."""

    secret = serializers.CharField()

    class Meta(KeyOut.Meta):
        fields: ClassVar = [*KeyOut.Meta.fields, "secret"]


class GrantQuery(serializers.Serializer[Any]):
    """The object whose grants are meant."""

    type = serializers.CharField(max_length=40)
    object = serializers.UUIDField()


class GrantIn(GrantQuery):
    """One verb on one object for one principal."""

    principal = serializers.ChoiceField(choices=["person", "team", "everyone"])
    principal_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    verb = serializers.ChoiceField(choices=[verb.value for verb in Verb])
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class GrantOut(serializers.Serializer[Any]):
    """A grant as it stands."""

    principal = serializers.ChoiceField(choices=["person", "team", "everyone"])
    principal_id = serializers.UUIDField()
    label = serializers.CharField()  # type: ignore[assignment]
    verb = serializers.ChoiceField(choices=[verb.value for verb in Verb])
    origin = serializers.ChoiceField(choices=Origin.choices)
    granted_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
