"""Addresses of the agents API."""

from __future__ import annotations

from django.urls import path

from agents import api

urlpatterns = [
    path("agents/", api.AgentsView.as_view(), name="api-agents"),
    path("agents/<uuid:agent_id>/", api.AgentView.as_view(), name="api-agent"),
]
