"""The accounts API's addresses, under /o/<slug>/api/v1/."""

from __future__ import annotations

from django.urls import path

from accounts import api, openapi  # noqa: F401  openapi describes the ways to sign in

urlpatterns = [
    path("me/", api.Me.as_view(), name="api_me"),
    path("organization/", api.TheOrganization.as_view(), name="api_organization"),
    path("members/", api.Members.as_view(), name="api_members"),
    path("teams/", api.Teams.as_view(), name="api_teams"),
    path("projects/", api.Projects.as_view(), name="api_projects"),
    path("projects/<uuid:project_id>/", api.OneProject.as_view(), name="api_project"),
    path("keys/", api.Keys.as_view(), name="api_keys"),
    path("keys/<uuid:key_id>/", api.OneKey.as_view(), name="api_key"),
    path("grants/", api.Grants.as_view(), name="api_grants"),
    path("schema/", api.Schema.as_view(), name="schema"),
    path("docs/", api.Docs.as_view(), name="docs"),
]
