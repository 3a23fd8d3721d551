"""Who can see what, over HTTP: why a member sees a document, and what a change would do.

Keys need the scope `admin`. Ids that are foreign, unknown or wrong get the same answer; callers
without the right get none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar
from uuid import UUID

from django.db import models
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.authority import Authority, Capability, Narrowing
from accounts.models import Membership, Project, Team
from accounts.permissions import Verb
from accounts.sharing import get_principal
from kaizen.kernel.api import AuthorityView
from kaizen.kernel.errors import Missing
from retrieval.access.changes import (
    AclStateChange,
    Change,
    GrantChange,
    MembershipStateChange,
    SourceProjectChange,
    TeamMembershipChange,
    TeamParentChange,
)
from retrieval.access.explain import check_may_explain, explain
from retrieval.access.serializers import (
    ChangeSerializer,
    ExplainQuerySerializer,
    ExplanationSerializer,
    ImpactSerializer,
)
from retrieval.access.what_if import what_if
from retrieval.models import Document, Source

GRANTED: dict[str, type[models.Model]] = {
    "project": Project,
    "source": Source,
    "document": Document,
}
NOT_KEPT = {"Cache-Control": "no-store"}


class ExplainView(AuthorityView):
    """Why a member sees a document, or what is missing."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(
        operation_id="access_explain",
        parameters=[ExplainQuerySerializer],
        responses=ExplanationSerializer,
        tags=["access"],
    )
    def get(self, request: Request) -> Response:
        """Owners, admins and auditors only; the question is audited."""
        check_may_explain(self.authority)
        query = ExplainQuerySerializer(data=request.query_params)
        query.is_valid(raise_exception=True)
        values: dict[str, Any] = query.validated_data
        found = explain(
            self.authority,
            membership=own(self.authority, Membership, values["member"]),
            document=own(self.authority, Document, values["document"]),
            verb=Verb(values["verb"]),
            narrowing=_narrowing(self.authority, values.get("only_source")),
        )
        return Response(ExplanationSerializer(found).data, headers=NOT_KEPT)


class WhatIfView(AuthorityView):
    """Who would gain or lose documents by a change."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(
        operation_id="access_what_if",
        request=ChangeSerializer,
        responses=ImpactSerializer,
        tags=["access"],
    )
    def post(self, request: Request) -> Response:
        """Owners and admins only. Nothing is changed; the question is audited."""
        self.authority.check(Capability.CONFIGURE)
        form = ChangeSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        change = as_change(self.authority, form.validated_data)
        impact = what_if(self.authority, change=change)
        return Response(ImpactSerializer(impact).data, headers=NOT_KEPT)


def as_change(authority: Authority, values: dict[str, Any]) -> Change:
    """The change that validated values describe. Raises Missing and Invalid for ids that name
    nothing here.
    """
    match values["change"]:
        case "grant":
            return GrantChange(
                act=values["act"],
                principal=get_principal(
                    authority, kind=values["principal"], principal_id=values["principal_id"]
                ),
                verb=Verb(values["verb"]),
                obj=own(authority, GRANTED[values["type"]], values["object"]),
                expires_at=values["expires_at"],
            )
        case "team_member":
            return TeamMembershipChange(
                act=values["act"],
                team=own(authority, Team, values["team"], field="uuid"),
                membership=own(authority, Membership, values["member"]),
            )
        case "team_parent":
            parent = values["parent"]
            return TeamParentChange(
                team=own(authority, Team, values["team"], field="uuid"),
                parent=None if parent is None else own(authority, Team, parent, field="uuid"),
            )
        case "source_project":
            project = values["project"]
            return SourceProjectChange(
                source=own(authority, Source, values["source"]),
                project=None if project is None else own(authority, Project, project),
            )
        case "acl_state":
            return AclStateChange(
                document=own(authority, Document, values["document"]),
                state=Document.AclState(values["state"]),
            )
        case _:
            return MembershipStateChange(
                membership=own(authority, Membership, values["member"]),
                state=Membership.State(values["state"]),
            )


def own(
    authority: Authority, model: type[models.Model], object_id: UUID, *, field: str = "pk"
) -> Any:
    """The row of the organisation, for who may configure or audit it. Raises Missing."""
    rows = model._default_manager.filter(organization_id=authority.organization_id)
    found = rows.filter(**{field: object_id}).first()
    if found is None:
        raise Missing
    return found


def _narrowing(authority: Authority, source_ids: Iterable[UUID] | None) -> Narrowing | None:
    if source_ids is None:
        return None
    sources = [own(authority, Source, source_id) for source_id in source_ids]
    return Narrowing(source_keys=frozenset(source.key for source in sources))
