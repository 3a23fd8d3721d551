"""Addresses of the conversations API."""

from __future__ import annotations

from django.urls import path

from conversations import api, events

urlpatterns = [
    path("turns/", api.NewTurnView.as_view(), name="api-turns-new"),
    path("conversations/", api.ConversationsView.as_view(), name="api-conversations"),
    path(
        "conversations/<uuid:conversation_id>/",
        api.ConversationView.as_view(),
        name="api-conversation",
    ),
    path(
        "conversations/<uuid:conversation_id>/export/",
        api.ExportView.as_view(),
        name="api-conversation-export",
    ),
    path("conversations/<uuid:conversation_id>/turns/", api.TurnsView.as_view(), name="api-turns"),
    path("conversations/<uuid:conversation_id>/events/", events.events, name="api-events"),
    path("runs/<uuid:run_id>/", api.RunView.as_view(), name="api-run"),
    path("runs/<uuid:run_id>/stop/", api.StopView.as_view(), name="api-run-stop"),
    path("runs/<uuid:run_id>/retry/", api.RetryView.as_view(), name="api-run-retry"),
]
