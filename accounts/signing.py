"""Signing in and out, and the link that sets a password. Failures are limited, alike for every
address, and audited.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.password_validation import validate_password
from django.contrib.auth.tokens import default_token_generator
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.http import urlsafe_base64_decode
from redis.exceptions import RedisError

from accounts.invitations import accept_invitations
from accounts.models import User
from accounts.relation import parse_id
from audit.record import record_platform
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Invalid, Limited, Missing, Unavailable

FAILURES = 10
WINDOW = timedelta(minutes=15)
DEAD_LINK = (
    "This link has been used or has expired. If you have a password, sign in; "
    "otherwise ask an administrator for a new link."
)


def sign_in(request: HttpRequest, *, email: str, password: str) -> User:
    """Start a session for the person with this e-mail and password, and accept what they are
    invited to.

    Raises Invalid for a wrong pair, Limited after ten failures in fifteen minutes from one address
    (with the time), Unavailable when failures can't be counted.
    """
    address = str(request.META.get("REMOTE_ADDR", ""))
    counter = _counter(email, address)
    _check_failures(counter)
    user = authenticate(request, username=email, password=password)
    if not isinstance(user, User):
        _count_failure(counter)
        record_platform(
            "accounts.sign_in_failed", personal={"email": email[:254], "address": address}
        )
        raise Invalid("That e-mail and password don't match.", code="sign_in")
    with transaction.atomic():
        login(request, user)
        accept_invitations(user)
        record_platform("accounts.signed_in", actor_id=user.public_id)
    cache.delete_many([counter, f"{counter}-until"])
    return user


def sign_out(request: HttpRequest) -> None:
    """End the session; open sockets of it close at their next check."""
    if request.user.is_authenticated:
        record_platform("accounts.signed_out", actor_id=request.user.public_id)
    logout(request)


def set_password(*, identity: str, token: str, password: str) -> User:
    """Set the password that a link is for. Raises Invalid for a dead link or a weak password."""
    user = find_by_link(identity=identity, token=token)
    if user is None:
        raise Invalid(DEAD_LINK, code="dead_link")
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Invalid(" ".join(error.messages), code="weak_password") from None
    with transaction.atomic():
        user.set_password(password)
        user.save(update_fields=["password"])
        record_platform("accounts.password_set", actor_id=user.public_id)
    return user


def find_by_link(*, identity: str, token: str) -> User | None:
    """The active person a set-password link is for, or None."""
    try:
        public_id = parse_id(urlsafe_base64_decode(identity).decode())
    except (ValueError, Missing):
        return None
    user = User.objects.filter(public_id=public_id, is_active=True).first()
    if user is None or not default_token_generator.check_token(user, token):
        return None
    return user


def _counter(email: str, address: str) -> str:
    digest = hashlib.sha256(f"{email.strip().lower()}\n{address}".encode("utf-8", "replace"))
    return f"sign-in-{digest.hexdigest()}"


def _check_failures(counter: str) -> None:
    try:
        failures = int(cache.get(counter, 0))
        until = cache.get(f"{counter}-until")
    except RedisError:
        raise Unavailable from None
    if failures >= FAILURES and until:
        raise Limited(
            "Too many failed attempts. Wait until the time shown and try again.",
            retry_at=datetime.fromisoformat(until),
        )


def _count_failure(counter: str) -> None:
    seconds = int(WINDOW.total_seconds())
    try:
        if cache.add(counter, 1, seconds):
            cache.set(f"{counter}-until", (now() + WINDOW).isoformat(), seconds)
        else:
            cache.incr(counter)
    except ValueError:  # The window ended between the two steps.
        return
    except RedisError:
        raise Unavailable from None
