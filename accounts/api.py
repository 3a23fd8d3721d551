"""The accounts API: who am I, members, teams, projects, keys, grants; and the schema with
its page.
"""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse, extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer

from accounts import services
from accounts.authority import CAPABILITIES, Capability
from accounts.models import ApiKey, Membership, Project, Team, User
from accounts.permissions import Verb
from accounts.queries import get_organization
from accounts.relation import get, visible
from accounts.serializers import (
    GrantIn,
    GrantOut,
    GrantQuery,
    InvitedOut,
    KeyIn,
    KeyMadeOut,
    KeyOut,
    MemberIn,
    MemberOut,
    MeOut,
    OrganizationOut,
    ProjectIn,
    ProjectOut,
    TeamIn,
    TeamOut,
)
from accounts.sharing import get_principal, get_shareable
from kaizen.kernel.api import AuthorityView, KeysetPagination
from kaizen.kernel.errors import Missing

ORGANIZATION_URLCONF = "kaizen.organization_urls"


class AccountsView(AuthorityView):
    """What these views share: validated input, keyset pages."""

    def read(self, serializer: type[BaseSerializer[Any]], data: Any) -> dict[str, Any]:
        """`data` as validated values. Raises DRF's ValidationError."""
        form = serializer(data=data)
        form.is_valid(raise_exception=True)
        values: dict[str, Any] = form.validated_data
        return values

    def page(
        self,
        rows: QuerySet[Any],
        serializer: type[BaseSerializer[Any]],
        *,
        ordering: str = "-id",
    ) -> Response:
        """One page of `rows`."""
        paginator = KeysetPagination()
        paginator.ordering = ordering
        found = paginator.paginate_queryset(rows, self.request, view=self)
        return paginator.get_paginated_response(serializer(found, many=True).data)


class Me(AccountsView):
    """The caller."""

    @extend_schema(responses=MeOut, tags=["accounts"])
    def get(self, request: Request) -> Response:
        """Who this session or key acts as, and what it may do."""
        authority = self.authority
        user = User.objects.get(pk=authority.user_id)
        return Response(
            MeOut(
                {
                    "id": user.public_id,
                    "membership": authority.membership_id,
                    "email": user.email,
                    "name": user.name,
                    "role": authority.role,
                    "channel": authority.channel,
                    "scopes": None if authority.scopes is None else sorted(authority.scopes),
                    "capabilities": sorted(CAPABILITIES[authority.role]),
                    "organization": get_organization(authority),
                }
            ).data
        )


class TheOrganization(AccountsView):
    """The organisation in the address."""

    @extend_schema(responses=OrganizationOut, tags=["accounts"])
    def get(self, request: Request) -> Response:
        """Name, time zone and language."""
        return Response(OrganizationOut(get_organization(self.authority)).data)


class Members(AccountsView):
    """The people of the organisation."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(responses=MemberOut(many=True), tags=["accounts"])
    def get(self, request: Request) -> Response:
        """All members, newest first. Owners and admins only."""
        self.authority.check(Capability.PEOPLE)
        rows = Membership.objects.for_authority(self.authority).select_related("user")
        return self.page(rows, MemberOut)

    @extend_schema(request=MemberIn, responses={201: InvitedOut}, tags=["accounts"])
    def post(self, request: Request) -> Response:
        """Invite a person by e-mail. Hand them the link; whether they had an account is
        not told.
        """
        invitation = services.invite_member(self.authority, **self.read(MemberIn, request.data))
        member = Membership.objects.select_related("user").get(pk=invitation.membership.pk)
        link = f"{request.scheme}://{request.get_host()}{invitation.path}"
        return Response(InvitedOut({"member": member, "link": link}).data, status=201)


class Teams(AccountsView):
    """The teams of the organisation."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(responses=TeamOut(many=True), tags=["accounts"])
    def get(self, request: Request) -> Response:
        """All teams, newest first: every member may know them, to share with them."""
        rows = Team.objects.for_authority(self.authority).select_related("parent")
        return self.page(rows, TeamOut, ordering="-uuid")

    @extend_schema(request=TeamIn, responses={201: TeamOut}, tags=["accounts"])
    def post(self, request: Request) -> Response:
        """Make a team. Owners and admins only."""
        self.authority.check(Capability.PEOPLE)
        values = self.read(TeamIn, request.data)
        parent = None
        if values["parent"] is not None:
            parent = (
                Team.objects.for_authority(self.authority).filter(uuid=values["parent"]).first()
            )
            if parent is None:
                raise Missing
        team = services.create_team(self.authority, label=values["name"], parent=parent)
        return Response(TeamOut(team).data, status=201)


class Projects(AccountsView):
    """Projects the caller may see."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(responses=ProjectOut(many=True), tags=["accounts"])
    def get(self, request: Request) -> Response:
        """The projects the caller may see, newest first."""
        return self.page(visible(self.authority, Project), ProjectOut)

    @extend_schema(request=ProjectIn, responses={201: ProjectOut}, tags=["accounts"])
    def post(self, request: Request) -> Response:
        """Make a project and manage it. Owners and admins only."""
        project = services.create_project(self.authority, **self.read(ProjectIn, request.data))
        return Response(ProjectOut(project).data, status=201)


class OneProject(AccountsView):
    """A project."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(responses=ProjectOut, tags=["accounts"])
    def get(self, request: Request, project_id: UUID) -> Response:
        """One project the caller may see."""
        return Response(ProjectOut(get(self.authority, Project, project_id)).data)


class Keys(AccountsView):
    """The caller's own API keys."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(responses=KeyOut(many=True), tags=["accounts"])
    def get(self, request: Request) -> Response:
        """Own keys, newest first, without secrets."""
        return self.page(_own_keys(self), KeyOut)

    @extend_schema(request=KeyIn, responses={201: KeyMadeOut}, tags=["accounts"])
    def post(self, request: Request) -> Response:
        """Make a key that acts as the caller. The secret is in this answer and nowhere else."""
        key, secret = services.create_key(self.authority, **self.read(KeyIn, request.data))
        key.secret = secret  # type: ignore[attr-defined]
        return Response(KeyMadeOut(key).data, status=201, headers={"Cache-Control": "no-store"})


class OneKey(AccountsView):
    """One of the caller's own API keys."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(responses={204: OpenApiResponse(description="Revoked.")}, tags=["accounts"])
    def delete(self, request: Request, key_id: UUID) -> Response:
        """Revoke a key at once."""
        key = _own_keys(self).filter(pk=key_id).first()
        if key is None:
            raise Missing
        services.revoke_key(self.authority, key=key)
        return Response(status=204)


class Grants(AccountsView):
    """Who was given what on one object."""

    required_scope: ClassVar[str] = "admin"

    @extend_schema(parameters=[GrantQuery], responses=GrantOut(many=True), tags=["accounts"])
    def get(self, request: Request) -> Response:
        """The direct grants on an object that the caller shares or configures."""
        query = self.read(GrantQuery, request.query_params)
        obj = get_shareable(self.authority, type_name=query["type"], object_id=query["object"])
        grants = services.list_grants(self.authority, obj=obj)
        return Response({"results": GrantOut(grants, many=True).data})

    @extend_schema(request=GrantIn, responses={201: GrantOut(many=True)}, tags=["accounts"])
    def post(self, request: Request) -> Response:
        """Give a person, a team or everyone one verb; answers with all grants on the object."""
        values = self.read(GrantIn, request.data)
        obj = get_shareable(self.authority, type_name=values["type"], object_id=values["object"])
        principal = get_principal(
            self.authority, kind=values["principal"], principal_id=values["principal_id"]
        )
        created = services.grant(
            self.authority,
            principal=principal,
            verb=Verb(values["verb"]),
            obj=obj,
            expires_at=values["expires_at"],
        )
        grants = services.list_grants(self.authority, obj=obj)
        return Response(
            {"results": GrantOut(grants, many=True).data}, status=201 if created else 200
        )

    @extend_schema(
        parameters=[GrantIn],
        responses={204: OpenApiResponse(description="Gone.")},
        tags=["accounts"],
    )
    def delete(self, request: Request) -> Response:
        """Take a verb back. The same members as in the body of POST, as query parameters."""
        values = self.read(GrantIn, request.query_params)
        obj = get_shareable(self.authority, type_name=values["type"], object_id=values["object"])
        principal = get_principal(
            self.authority, kind=values["principal"], principal_id=values["principal_id"]
        )
        services.revoke(self.authority, principal=principal, verb=Verb(values["verb"]), obj=obj)
        return Response(status=204)


class Schema(SpectacularAPIView):
    """The OpenAPI 3 description of this API, with the organisation's own address as its server."""

    urlconf = ORGANIZATION_URLCONF

    def _get_schema_response(self, request: Request) -> Response:
        response: Response = super()._get_schema_response(request)  # type: ignore[no-untyped-call]
        slug = request._request.organization_slug  # type: ignore[attr-defined]
        response.data["servers"] = [{"url": f"/o/{slug}"}]
        return response


class Docs(SpectacularSwaggerSplitView):
    """The API's page: its script is a request of its own, so that no inline script is needed."""

    url_name = "schema"
    template_name = "accounts/api_docs.html"


def _own_keys(view: AccountsView) -> QuerySet[ApiKey]:
    return ApiKey.objects.for_authority(view.authority).filter(
        membership_id=view.authority.membership_id
    )
