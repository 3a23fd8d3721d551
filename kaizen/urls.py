"""Addresses outside any organisation. Everything else stands under `/o/<slug>/`:
`kaizen.organization_urls`.
"""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("accounts.platform_urls")),
]
