"""The API of the conversations app: parse, one call, reply."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from agents.queries import get_usable_agent
from audit.record import record
from conversations import services, turns
from conversations.models import Conversation
from conversations.queries import get_conversation, list_conversations, view_conversation
from conversations.serializers import (
    ConversationDetailSerializer,
    ConversationSerializer,
    NewTurnRequestSerializer,
    RunSerializer,
    TurnRequestSerializer,
    TurnSerializer,
)
from kaizen.kernel.api import AuthorityView, KeysetPagination
from kaizen.kernel.errors import Invalid

KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    required=False,
    description="Up to 255 characters. The same key and body is the same turn.",
)


def idempotency_key(request: Request) -> str:
    """The caller's key, or a new one. Raises Invalid for one that is too long."""
    key = request.headers.get("Idempotency-Key", "").strip()
    if len(key) > 255:
        raise Invalid("An Idempotency-Key has at most 255 characters.")
    return key or turns.new_key()


class ConversationPagination(KeysetPagination):
    """Newest first."""

    ordering = ("-updated_at", "-id")


class ConversationsView(AuthorityView, ListAPIView):  # type: ignore[type-arg]
    """GET: the conversations the caller may see."""

    required_scope = "chat"
    serializer_class = ConversationSerializer
    pagination_class = ConversationPagination
    queryset = Conversation.objects.none()

    def get_queryset(self) -> QuerySet[Conversation]:
        return list_conversations(self.authority)


class ConversationView(AuthorityView):
    """One conversation: read it, rename it, put it away."""

    required_scope = "chat"

    @extend_schema(responses=ConversationDetailSerializer)
    def get(self, request: Request, conversation_id: UUID) -> Response:
        view = view_conversation(self.authority, conversation_id)
        record(self.authority, "conversations.read", subject=view.conversation)
        return Response(ConversationDetailSerializer(view).data)

    @extend_schema(request=ConversationSerializer, responses=ConversationSerializer)
    def patch(self, request: Request, conversation_id: UUID) -> Response:
        given = ConversationSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        conversation = services.rename(
            self.authority,
            conversation_id=str(conversation_id),
            title=given.validated_data["title"],
        )
        return Response(ConversationSerializer(conversation).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, conversation_id: UUID) -> Response:
        services.archive(self.authority, conversation_id=str(conversation_id))
        return Response(status=204)


class ExportView(AuthorityView):
    """A conversation whole, as the caller may see it now."""

    required_scope = "chat"

    @extend_schema(responses=ConversationDetailSerializer)
    def get(self, request: Request, conversation_id: UUID) -> Response:
        view = view_conversation(self.authority, conversation_id)
        record(
            self.authority,
            "conversations.exported",
            subject=view.conversation,
            data={"format": "json"},
        )
        return Response(
            ConversationDetailSerializer(view).data,
            headers={"Content-Disposition": 'attachment; filename="conversation.json"'},
        )


class NewTurnView(AuthorityView):
    """The first turn of a new conversation."""

    required_scope = "chat"

    @extend_schema(
        request=NewTurnRequestSerializer, responses={201: TurnSerializer}, parameters=[KEY]
    )
    def post(self, request: Request) -> Response:
        given = _valid(NewTurnRequestSerializer, request)
        turn = turns.start(
            self.authority,
            text=given["text"],
            key=idempotency_key(request),
            agent=get_usable_agent(self.authority, given["agent"]),
        )
        return Response(TurnSerializer(turn).data, status=201)


class TurnsView(AuthorityView):
    """A further turn of a conversation."""

    required_scope = "chat"

    @extend_schema(request=TurnRequestSerializer, responses={201: TurnSerializer}, parameters=[KEY])
    def post(self, request: Request, conversation_id: UUID) -> Response:
        given = _valid(TurnRequestSerializer, request)
        conversation = get_conversation(self.authority, conversation_id)
        turn = turns.start(
            self.authority,
            text=given["text"],
            key=idempotency_key(request),
            conversation=conversation,
        )
        return Response(TurnSerializer(turn).data, status=201)


class RunView(AuthorityView):
    """How a run goes."""

    required_scope = "chat"

    @extend_schema(responses=RunSerializer)
    def get(self, request: Request, run_id: UUID) -> Response:
        return Response(RunSerializer(turns.get_run(self.authority, run_id)).data)


class StopView(AuthorityView):
    """Stop a run; what came so far is kept."""

    required_scope = "chat"

    @extend_schema(request=None, responses=RunSerializer)
    def post(self, request: Request, run_id: UUID) -> Response:
        turns.stop(self.authority, run_id=run_id)
        return Response(RunSerializer(turns.get_run(self.authority, run_id)).data)


class RetryView(AuthorityView):
    """Run the same question again."""

    required_scope = "chat"

    @extend_schema(request=None, responses={201: TurnSerializer}, parameters=[KEY])
    def post(self, request: Request, run_id: UUID) -> Response:
        turn = turns.retry(self.authority, run_id=run_id, key=idempotency_key(request))
        return Response(TurnSerializer(turn).data, status=201)


def _valid(serializer: type[TurnRequestSerializer], request: Request) -> dict[str, Any]:
    given = serializer(data=request.data)
    given.is_valid(raise_exception=True)
    return dict(given.validated_data)
