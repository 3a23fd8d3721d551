"""Signing in by e-mail, and how API requests prove who they are. Grants nothing:
`accounts.relation` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.backends import BaseBackend
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from rest_framework.authentication import BaseAuthentication
from rest_framework.authentication import SessionAuthentication as DRFSessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from accounts.authority import Authority, Channel
from accounts.models import User
from kaizen.kernel.errors import Unauthenticated

if TYPE_CHECKING:
    from rest_framework.views import APIView


class EmailBackend(BaseBackend):
    """E-mail and password. Holds no model permissions, so Django's own checks always say no."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **kwargs: Any,
    ) -> User | None:
        """The active person with this e-mail and password, or None. Takes as long for an unknown
        address.
        """
        if not username or password is None:
            return None
        user = User.objects.filter(email__iexact=username.strip()).first()
        if user is None:
            User().set_password(password)
            return None
        return user if user.check_password(password) and user.is_active else None

    def get_user(self, user_id: int) -> User | None:
        return User.objects.filter(pk=user_id, is_active=True).first()


def user_of_session(session_key: str) -> User | None:
    """The person signed in under a session at this moment, or None: for sockets, which outlive
    their handshake.
    """
    session = SessionStore(session_key)
    user_id = session.get(SESSION_KEY)
    if user_id is None:
        return None
    user = User.objects.filter(pk=user_id, is_active=True).first()
    if user is None:
        return None
    given = session.get(HASH_SESSION_KEY, "")
    return user if constant_time_compare(given, user.get_session_auth_hash()) else None


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer kz_...`, resolved by the middleware."""

    def authenticate(self, request: Request) -> tuple[None, Authority] | None:
        authority = getattr(request, "authority", None)
        if authority is None or authority.channel != Channel.KEY:
            return None
        return None, authority

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="kaizen"'


class SessionAuthentication(DRFSessionAuthentication):
    """The browser's session, with CSRF enforced."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        authority = getattr(request, "authority", None)
        if authority is None or authority.channel != Channel.SESSION:
            return None
        self.enforce_csrf(request)
        return request._request.user, authority


class HasAuthority(BasePermission):
    """Every API route needs a caller."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not isinstance(request.auth, Authority):
            raise Unauthenticated
        return True
