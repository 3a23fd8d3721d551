"""Addresses of the retrieval pages, under /o/<slug>/."""

from __future__ import annotations

from django.urls import path

from retrieval import pages, search_pages
from retrieval.live import pages as live_pages
from retrieval.web import pages as web_pages

app_name = "retrieval"
urlpatterns = [
    path("search/", search_pages.search_page, name="search"),
    path("sources/", pages.sources_page, name="sources"),
    path("sources/<uuid:source_id>/", pages.source_page, name="source"),
    path("sources/<uuid:source_id>/upload/", pages.upload_files, name="upload"),
    path("sources/<uuid:source_id>/url/", web_pages.add_url_page, name="add-url"),
    path("sources/<uuid:source_id>/retry/", pages.retry_all, name="retry-failed"),
    path("sources/<uuid:source_id>/documents/", pages.documents_fragment, name="documents"),
    path("live/", live_pages.accounts_page, name="live"),
    path("live/<uuid:source_id>/connect/", live_pages.connect, name="live-connect"),
    path("live/<uuid:source_id>/disconnect/", live_pages.disconnect, name="live-disconnect"),
    path("documents/<uuid:document_id>/", pages.document_page, name="document"),
    path("documents/<uuid:document_id>/download/", pages.download, name="download"),
    path("documents/<uuid:document_id>/retry/", pages.retry, name="retry"),
    path("documents/<uuid:document_id>/delete/", pages.delete, name="delete"),
]
