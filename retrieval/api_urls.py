"""Addresses of the retrieval API, under /o/<slug>/api/v1/."""

from __future__ import annotations

from django.urls import path

from retrieval import api, document_api, push_api
from retrieval.access import api as access_api
from retrieval.web import api as web_api

urlpatterns = [
    path("search/", api.SearchView.as_view(), name="api-search"),
    path("sources/", api.SourcesView.as_view(), name="api-sources"),
    path("sources/<uuid:source_id>/", api.SourceView.as_view(), name="api-source"),
    path(
        "sources/<uuid:source_id>/documents/",
        api.SourceDocumentsView.as_view(),
        name="api-source-documents",
    ),
    path(
        "sources/<uuid:source_id>/documents/url/",
        web_api.add_document_by_url,
        name="api-document-by-url",
    ),
    path(
        "sources/<uuid:source_id>/documents/push/",
        push_api.PushView.as_view(),
        name="api-push",
    ),
    path(
        "sources/<uuid:source_id>/documents/retry/",
        document_api.SourceRetryView.as_view(),
        name="api-source-retry",
    ),
    path(
        "documents/<uuid:document_id>/",
        document_api.DocumentView.as_view(),
        name="api-document",
    ),
    path(
        "documents/<uuid:document_id>/retry/",
        api.DocumentRetryView.as_view(),
        name="api-document-retry",
    ),
    path(
        "documents/<uuid:document_id>/content/",
        api.DocumentContentView.as_view(),
        name="api-document-content",
    ),
    path(
        "documents/<uuid:document_id>/passages/",
        api.DocumentPassagesView.as_view(),
        name="api-document-passages",
    ),
    path("passages/<uuid:passage_id>/", api.PassageView.as_view(), name="api-passage"),
    path("access/explain/", access_api.ExplainView.as_view(), name="api-access-explain"),
    path("access/what-if/", access_api.WhatIfView.as_view(), name="api-access-what-if"),
]
