"""A program that uses the API as one member, by session or by key."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.test import Client

from accounts.models import Membership
from accounts.services import create_key
from kaizen.kernel.clock import now
from tests import factories


class Caller:
    """A program of one member."""

    def __init__(self, membership: Membership, *scopes: str) -> None:
        self.client = Client()
        self.base = f"/o/{membership.organization.slug}/api/v1/"
        self.headers: dict[str, str] = {}
        if scopes:
            authority = factories.authority_of(membership)
            until = now() + timedelta(days=1)
            _, secret = create_key(authority, name="k", scopes=scopes, expires_at=until)
            self.headers["Authorization"] = f"Bearer {secret}"
        else:
            self.client.force_login(membership.user)

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.client.get(self.base + path, headers={**self.headers, **headers})

    def post(self, path: str, body: Any = None, *, key: str = "") -> HttpResponse:
        headers = {**self.headers, **({"Idempotency-Key": key} if key else {})}
        return self.client.post(
            self.base + path,
            data=body if isinstance(body, str) else json.dumps(body or {}),
            content_type="application/json",
            headers=headers,
        )

    def patch(self, path: str, body: Any) -> HttpResponse:
        return self.client.patch(
            self.base + path,
            data=json.dumps(body),
            content_type="application/json",
            headers=self.headers,
        )

    def delete(self, path: str) -> HttpResponse:
        return self.client.delete(self.base + path, headers=self.headers)


def problem(response: HttpResponse) -> tuple[int, str]:
    """Status and code of an error, which has one shape."""
    assert response["Content-Type"] == "application/problem+json"
    body = response.json()  # type: ignore[attr-defined]
    assert body["status"] == response.status_code
    assert body["type"] == f"urn:kaizen:error:{body['code']}"
    assert set(body) >= {"title", "detail"}
    return response.status_code, body["code"]
