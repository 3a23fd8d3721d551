"""Members: invited by e-mail, changed by owners and admins, joined by signing in.

Promises: an admin never learns whether an e-mail already has an account. Each invitation yields one
link of the same shape; it sets a first password only for a person nobody else has invited, and is
inert for all others. No e-mail is sent: the admin hands the link over.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from accounts.authority import Authority, Capability
from accounts.models import Membership, Role, User
from audit.record import record, record_system
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from kaizen.kernel.models import uuid7


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """A membership in state invited, and the path of the link to hand over."""

    membership: Membership
    path: str


@transaction.atomic
def invite_member(authority: Authority, *, email: str, role: str) -> Invitation:
    """Add a person by e-mail as invited; inviting again gives a new link and role.

    Raises Denied (only an owner adds an owner), Invalid for an e-mail or role that isn't one,
    Conflict when the person is a member here already.
    """
    authority.check(Capability.PEOPLE)
    email = _email(email)
    _check_role(authority, role)
    user = _get_or_create_user(email)
    membership, created = Membership.objects.get_or_create(
        organization_id=authority.organization_id, user=user, defaults={"role": role}
    )
    if not created:
        if membership.state != Membership.State.INVITED:
            raise Conflict("This person is a member here already.")
        _check_role(authority, membership.role)
        Membership.objects.filter(pk=membership.pk).update(role=role)
        membership.role = role
    record(
        authority,
        "accounts.member_invited",
        subject=membership,
        data={"role": role},
        personal={"email": email},
    )
    return Invitation(membership=membership, path=_link(user, membership))


@transaction.atomic
def set_member_role(authority: Authority, *, membership: Membership, role: str) -> None:
    """Give a member another role. Owners are made and unmade by owners; the last one stays."""
    _check_member(authority, membership)
    _check_role(authority, role)
    if role == membership.role:
        return
    if role != Role.OWNER:
        _check_not_last_owner(membership)
    Membership.objects.filter(pk=membership.pk).update(role=role)
    membership.role = role
    record(authority, "accounts.member_changed", subject=membership, data={"role": role})


@transaction.atomic
def set_member_state(authority: Authority, *, membership: Membership, state: str) -> None:
    """Suspend a member or let them back in; effective with their very next request.

    Raises Invalid for any other step: an invitation is accepted by the person alone.
    """
    _check_member(authority, membership)
    if state == membership.state:
        return
    allowed = {
        (Membership.State.ACTIVE, Membership.State.SUSPENDED),
        (Membership.State.INVITED, Membership.State.SUSPENDED),
        (Membership.State.SUSPENDED, Membership.State.ACTIVE),
    }
    if (membership.state, state) not in allowed:
        raise Invalid(
            "A member can be suspended or let back in; an invited person joins by signing in."
        )
    if state == Membership.State.SUSPENDED:
        _check_not_last_owner(membership)
    elif not _has_joined(membership.user):
        state = Membership.State.INVITED
    Membership.objects.filter(pk=membership.pk).update(state=state)
    membership.state = state
    record(authority, "accounts.member_changed", subject=membership, data={"state": state})


@transaction.atomic
def accept_invitations(user: User) -> list[Membership]:
    """Make every open invitation of a person who just proved who they are a membership."""
    joined = list(
        Membership.objects.select_for_update().filter(user=user, state=Membership.State.INVITED)
    )
    for membership in joined:
        membership.state = Membership.State.ACTIVE
        membership.save(update_fields=["state"])
        record_system(
            membership.organization_id,
            "accounts.member_joined",
            subject=membership,
            actor_id=user.public_id,
        )
    return joined


def password_path(user: User) -> str:
    """The path of a link that sets the password of `user` once. For the platform's operator and
    first invitations.
    """
    return _path(str(user.public_id), default_token_generator.make_token(user))


def _link(user: User, membership: Membership) -> str:
    elsewhere = Membership.objects.filter(user=user).exclude(pk=membership.pk).exists()
    if not _has_joined(user) and not elsewhere:
        return password_path(user)
    # The same shape, for nobody: whoever opens it sees the same page and is then asked to sign in.
    nobody = User(pk=0, email="", password="!")  # noqa: S106  no password is ever this
    return _path(str(uuid7()), default_token_generator.make_token(nobody))


def _path(identity: str, token: str) -> str:
    return f"/set-password/{urlsafe_base64_encode(force_bytes(identity))}/{token}/"


def _has_joined(user: User) -> bool:
    return user.has_usable_password() or user.last_login is not None


def _get_or_create_user(email: str) -> User:
    user = User.objects.filter(email__iexact=email).first()
    if user is not None:
        return user
    try:
        with transaction.atomic():
            return User.objects.create_user(email)
    except IntegrityError:
        return User.objects.get(email__iexact=email)


def _email(text: str) -> str:
    email = text.strip().lower()
    try:
        validate_email(email)
    except ValidationError:
        raise Invalid("That isn't an e-mail address.") from None
    return email


def _check_role(authority: Authority, role: str) -> None:
    if role not in Role.values:
        raise Invalid(f"A role is one of: {', '.join(Role.values)}.")
    if role == Role.OWNER and authority.role != Role.OWNER:
        raise Denied("Only an owner may do this to an owner.")


def _check_member(authority: Authority, membership: Membership) -> None:
    authority.check(Capability.PEOPLE)
    if membership.organization_id != authority.organization_id:
        raise Missing
    _check_role(authority, membership.role)


def _check_not_last_owner(membership: Membership) -> None:
    """Locks the organisation's owners, so that two can't leave at once."""
    if membership.role != Role.OWNER:
        return
    owners = Membership.objects.select_for_update().filter(
        organization_id=membership.organization_id,
        role=Role.OWNER,
        state=Membership.State.ACTIVE,
    )
    if [owner.pk for owner in owners] == [membership.pk]:
        raise Conflict("An organisation keeps at least one owner.")
