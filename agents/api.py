"""The API of the agents app: which agents there are to talk to."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from agents.models import Agent
from agents.queries import get_usable_agent, list_usable_agents
from agents.serializers import AgentSerializer
from kaizen.kernel.api import AuthorityView, KeysetPagination


class AgentPagination(KeysetPagination):
    """By name."""

    ordering = ("name", "id")


class AgentsView(AuthorityView, ListAPIView):  # type: ignore[type-arg]
    """GET: the agents the caller may talk to."""

    required_scope = "chat"
    serializer_class = AgentSerializer
    pagination_class = AgentPagination
    queryset = Agent.objects.none()

    def get_queryset(self) -> QuerySet[Agent]:
        return list_usable_agents(self.authority)


class AgentView(AuthorityView):
    """One agent."""

    required_scope = "chat"

    @extend_schema(responses=AgentSerializer)
    def get(self, request: Request, agent_id: UUID) -> Response:
        return Response(AgentSerializer(get_usable_agent(self.authority, agent_id)).data)
