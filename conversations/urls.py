"""Pages of the conversations app, inside an organisation."""

from __future__ import annotations

from django.urls import path

from conversations import pages

app_name = "conversations"
urlpatterns = [
    path("", pages.home, name="home"),
    path("chat/", pages.new, name="new"),
    path("chat/rail/", pages.rail, name="rail"),
    path("chat/<uuid:conversation_id>/", pages.chat, name="chat"),
    path("chat/<uuid:conversation_id>/rename/", pages.rename, name="rename"),
    path("chat/<uuid:conversation_id>/archive/", pages.archive, name="archive"),
    path("chat/<uuid:conversation_id>/export/", pages.export, name="export"),
    path("chat/<uuid:conversation_id>/runs/<uuid:run_id>/stop/", pages.stop, name="stop"),
    path("chat/<uuid:conversation_id>/runs/<uuid:run_id>/retry/", pages.retry, name="retry"),
]
