"""Addresses inside an organisation: what follows `/o/<slug>`. Each app brings its pages and its
API.
"""

from __future__ import annotations

from django.urls import include, path

from kaizen.kernel.admin import site

api = [
    path("", include("accounts.api_urls")),
    path("", include("retrieval.api_urls")),
    path("", include("agents.api_urls")),
    path("", include("conversations.api_urls")),
    path("", include("tasks.api_urls")),
]

urlpatterns = [
    path("", include("conversations.urls")),
    path("", include("retrieval.urls")),
    path("", include("tasks.urls")),
    path("admin/", site.urls),
    path("api/v1/", include(api)),
]
