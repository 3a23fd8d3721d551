"""The shapes of "who can see what" in the API: explanations, changes and their impact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from accounts.models import Membership
from accounts.permissions import Origin, Verb
from retrieval.access.explain import Explanation, Lack, Link, Path
from retrieval.access.words import answer_sentence, lack_sentence, path_sentences
from retrieval.models import Document

VERBS = [verb.value for verb in Verb]
KINDS = ("grant", "team_member", "team_parent", "source_project", "acl_state", "member_state")


class ExplainQuerySerializer(serializers.Serializer[Any]):
    """Whom and what to explain. `only_source`, repeatable, asks as in a run that may use no other
    source.
    """

    member = serializers.UUIDField()
    document = serializers.UUIDField()
    verb = serializers.ChoiceField(choices=VERBS, default=Verb.VIEW.value)
    only_source = serializers.ListField(
        child=serializers.UUIDField(), required=False, max_length=100
    )


class ThingSerializer(serializers.Serializer[Any]):
    """An object on the way; its name is empty for auditors."""

    type = serializers.ChoiceField(source="kind", choices=["project", "source", "document"])
    id = serializers.UUIDField()
    name = serializers.CharField()


class TeamStepSerializer(serializers.Serializer[Any]):
    """A team on the way."""

    id = serializers.UUIDField()
    name = serializers.CharField(source="label")


class PathSerializer(serializers.Serializer[Path]):
    """One grant and how it leads from the person to the document."""

    principal = serializers.ChoiceField(
        source="principal.kind", choices=["person", "team", "everyone"]
    )
    teams = TeamStepSerializer(source="principal.teams", many=True)
    verb = serializers.ChoiceField(source="grant.verb", choices=VERBS)
    origin = serializers.ChoiceField(source="grant.origin", choices=Origin.choices)
    granted_at = serializers.DateTimeField(source="grant.granted_at")
    expires_at = serializers.DateTimeField(source="grant.expires_at", allow_null=True)
    things = ThingSerializer(many=True)


class LackSerializer(serializers.Serializer[Lack]):
    """The first missing link."""

    link = serializers.ChoiceField(choices=[link.value for link in Link])
    sentence = serializers.SerializerMethodField()
    nearest = PathSerializer(source="path", allow_null=True)

    def get_sentence(self, lack: Lack) -> str:
        return lack_sentence(self.context["explanation"], lack)


class ExplanationSerializer(serializers.Serializer[Explanation]):
    """Whether a member holds a verb on a document, and why or why not."""

    member = serializers.UUIDField(source="membership_id")
    person = serializers.CharField()
    document = ThingSerializer()
    verb = serializers.ChoiceField(choices=VERBS)
    visible = serializers.BooleanField()
    sentence = serializers.SerializerMethodField()
    paths = PathSerializer(many=True)
    sentences = serializers.SerializerMethodField(help_text="The paths in words, in their order.")
    missing = serializers.SerializerMethodField()

    def get_sentence(self, explanation: Explanation) -> str:
        return answer_sentence(explanation)

    def get_sentences(self, explanation: Explanation) -> list[list[str]]:
        return [path_sentences(explanation, path) for path in explanation.paths]

    @extend_schema_field(LackSerializer(allow_null=True))
    def get_missing(self, explanation: Explanation) -> Mapping[str, Any] | None:
        if explanation.lack is None:
            return None
        return LackSerializer(explanation.lack, context={"explanation": explanation}).data


class ChangeSerializer(serializers.Serializer[Any]):
    """A change to think through. `change` says which of the other members it needs."""

    change = serializers.ChoiceField(
        choices=KINDS,
        help_text=(
            "grant: act, principal, principal_id (not for everyone), verb, type, object, "
            "expires_at. team_member: act, team, member. team_parent: team, parent. "
            "source_project: source, project. acl_state: document, state. member_state: "
            "member, state."
        ),
    )
    act = serializers.ChoiceField(choices=["add", "remove"], required=False)
    principal = serializers.ChoiceField(choices=["person", "team", "everyone"], required=False)
    principal_id = serializers.UUIDField(required=False, allow_null=True, default=None)
    verb = serializers.ChoiceField(choices=VERBS, required=False)
    type = serializers.ChoiceField(choices=["project", "source", "document"], required=False)
    object = serializers.UUIDField(required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    team = serializers.UUIDField(required=False)
    member = serializers.UUIDField(required=False)
    parent = serializers.UUIDField(  # type: ignore[assignment]
        required=False, allow_null=True, default=None
    )
    source = serializers.UUIDField(required=False)  # type: ignore[assignment]
    project = serializers.UUIDField(required=False, allow_null=True, default=None)
    document = serializers.UUIDField(required=False)
    state = serializers.ChoiceField(
        choices=[*Document.AclState.values, *Membership.State.values], required=False
    )

    NEEDED: ClassVar[dict[str, tuple[str, ...]]] = {
        "grant": ("act", "principal", "verb", "type", "object"),
        "team_member": ("act", "team", "member"),
        "team_parent": ("team",),
        "source_project": ("source",),
        "acl_state": ("document", "state"),
        "member_state": ("member", "state"),
    }
    STATES: ClassVar[dict[str, list[str]]] = {
        "acl_state": Document.AclState.values,
        "member_state": Membership.State.values,
    }

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Everything that this kind of change needs is there."""
        kind = attrs["change"]
        missing = [name for name in self.NEEDED[kind] if name not in attrs]
        if missing:
            raise serializers.ValidationError(
                {name: [f"Needed for a change of the kind {kind}."] for name in missing}
            )
        if kind in self.STATES and attrs["state"] not in self.STATES[kind]:
            raise serializers.ValidationError({"state": ["Not a state of this."]})
        return attrs


class PersonImpactSerializer(serializers.Serializer[Any]):
    """What one member gains and loses, with up to five titles of each."""

    member = serializers.UUIDField(source="membership_id")
    person = serializers.CharField()
    email = serializers.EmailField()
    gained = serializers.IntegerField()
    lost = serializers.IntegerField()
    gained_titles = serializers.ListField(child=serializers.CharField())
    lost_titles = serializers.ListField(child=serializers.CharField())


class ImpactSerializer(serializers.Serializer[Any]):
    """Who gains and loses. Where `compared` is less than `reached`, only the first by e-mail were
    compared.
    """

    reached = serializers.IntegerField()
    compared = serializers.IntegerField()
    gained = serializers.IntegerField()
    lost = serializers.IntegerField()
    people = PersonImpactSerializer(many=True)
