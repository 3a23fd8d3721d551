"""What every page's frame shows: the organisation, the other ones of this person, and who they
are.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from accounts.authority import Authority, Capability
from accounts.queries import get_organization, list_memberships


def frame(request: HttpRequest) -> dict[str, Any]:
    """Template context of the left rail; empty outside an organisation."""
    authority: Authority | None = getattr(request, "authority", None)
    if authority is None:
        return {"authority": None}
    memberships = list_memberships(request.user)
    return {
        "authority": authority,
        "memberships": memberships,
        "organization": get_organization(authority),
        "may_configure": authority.may(Capability.CONFIGURE),
        "base_path": f"/o/{authority.organization_slug}",
    }
