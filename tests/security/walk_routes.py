"""Every route of the product, read from the URL tables, and how to fill its parameters.

A route whose parameter or rightful request isn't known here makes the walk fail: new routes can't
escape it. Django admin is walked elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.tokens import default_token_generator
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode

from kaizen.kernel.clock import now
from tests import factories
from tests.security.walk_world import World, unused_id

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")

# Where the value of each parameter comes from. The only place to name a new one.
PARAMETERS: dict[str, Callable[[World], object]] = {
    "agent_id": lambda world: world.agent.pk,
    "conversation_id": lambda world: world.conversation.pk,
    "document_id": lambda world: world.document.pk,
    "key_id": lambda world: world.key.pk,
    "passage_id": lambda world: world.passage.pk,
    "project_id": lambda world: world.project.pk,
    "run_id": lambda world: world.broken_run.pk,
    "source_id": lambda world: world.source.pk,
    "task_id": lambda world: world.task.pk,
    "uidb64": lambda world: urlsafe_base64_encode(force_bytes(world.owner.user.public_id)),
    "token": lambda world: default_token_generator.make_token(world.owner.user),
}
# Routes whose rightful request needs another object of the world than the usual one.
OTHER: dict[str, dict[str, Callable[[World], object]]] = {
    "live/<uuid:source_id>/connect/": {"source_id": lambda world: world.live.source_id},
    "live/<uuid:source_id>/disconnect/": {"source_id": lambda world: world.live.source_id},
    "documents/<uuid:document_id>/retry/": {"document_id": lambda world: world.failed_document.pk},
    "api/v1/documents/<uuid:document_id>/retry/": {
        "document_id": lambda world: world.failed_document.pk
    },
}


@dataclass(frozen=True, kw_only=True)
class Route:
    """One address of the URL tables."""

    pattern: str
    parameters: tuple[str, ...]
    is_platform: bool

    @property
    def is_api(self) -> bool:
        return self.pattern.startswith("api/")

    def address(self, slug: str, values: dict[str, object]) -> str:
        """The route's address in an organisation."""
        path = _PARAMETER.sub(lambda match: str(values[match[1]]), self.pattern)
        return f"/{path}" if self.is_platform else f"/o/{slug}/{path}"

    def ids_of(self, world: World) -> dict[str, object]:
        """The ids of `world` for each parameter. Raises KeyError for one that isn't known."""
        other = OTHER.get(self.pattern, {})
        return {name: (other.get(name) or PARAMETERS[name])(world) for name in self.parameters}

    def unused_ids(self) -> dict[str, object]:
        """Ids that nothing has."""
        return {name: unused_id() for name in self.parameters}


def routes() -> list[Route]:
    """Every route of both tables, without Django admin."""
    found = list(_walk(get_resolver("kaizen.urls"), "", is_platform=True))
    found += _walk(get_resolver("kaizen.organization_urls"), "", is_platform=False)
    return found


def _walk(resolver: URLResolver, prefix: str, *, is_platform: bool) -> Iterator[Route]:
    for entry in resolver.url_patterns:
        if not isinstance(entry.pattern, RoutePattern):
            raise AssertionError(f"{entry.pattern} is no path(): the walk can't fill it in")
        pattern = prefix + str(entry.pattern)
        if isinstance(entry, URLPattern):
            yield Route(
                pattern=pattern,
                parameters=tuple(_PARAMETER.findall(pattern)),
                is_platform=is_platform,
            )
        elif entry.app_name != "admin":
            yield from _walk(entry, pattern, is_platform=is_platform)


def unknown_parameters() -> list[str]:
    """Parameters that PARAMETERS doesn't know, each with its route."""
    return [
        f"{name} of {route.pattern}"
        for route in routes()
        for name in route.parameters
        if name not in PARAMETERS
    ]


@dataclass(frozen=True, kw_only=True)
class Sent:
    """What a request carries: `json` or a form, and the query of its address."""

    json: dict[str, Any] | None = None
    form: dict[str, Any] | None = None
    query: str = ""


def _task(world: World) -> dict[str, Any]:
    return {
        "name": "A walk",
        "agent": str(world.agent.pk),
        "prompt": "What is new?",
        "cron": "0 9 * * 2",
        "time_zone": "UTC",
        "consent": True,
        "days": 3,
    }


def _task_form(world: World) -> dict[str, Any]:
    return {**_task(world), "consent": "on"}


def _grant(world: World) -> dict[str, Any]:
    return {
        "type": "source",
        "object": str(world.source.pk),
        "principal": "person",
        "principal_id": str(world.loner.user.public_id),
        "verb": "view",
    }


def _query(values: dict[str, Any]) -> str:
    return "&".join(f"{name}={value}" for name, value in values.items())


def _file() -> SimpleUploadedFile:
    return SimpleUploadedFile("walk.md", b"# Walk\n\nA file of the walk.\n", "text/markdown")


# What the rightful member sends where a bare request isn't enough: by method and route.
SENT: dict[tuple[str, str], Callable[[World], Sent]] = {
    ("POST", "login/"): lambda world: Sent(
        form={"email": world.owner.user.email, "password": factories.PASSWORD}
    ),
    ("POST", "set-password/<str:uidb64>/<str:token>/"): lambda world: Sent(
        form={"password": "another long password"}
    ),
    ("POST", "chat/"): lambda world: Sent(
        form={"text": "What is new?", "agent": world.agent.pk, "key": "walk-page"}
    ),
    ("POST", "chat/<uuid:conversation_id>/rename/"): lambda world: Sent(form={"title": "Walked"}),
    ("GET", "search/"): lambda world: Sent(query=f"q={world.canaries('passage')}"),
    ("POST", "sources/"): lambda world: Sent(form={"name": "A source of the walk"}),
    ("POST", "sources/<uuid:source_id>/upload/"): lambda world: Sent(form={"files": _file()}),
    ("POST", "sources/<uuid:source_id>/url/"): lambda world: Sent(form={"url": world.page_url}),
    ("POST", "api/v1/sources/<uuid:source_id>/documents/url/"): lambda world: Sent(
        json={"url": world.page_url}
    ),
    ("POST", "live/<uuid:source_id>/connect/"): lambda world: Sent(form={"token": "of-the-walk"}),
    ("POST", "tasks/new/"): lambda world: Sent(form=_task_form(world)),
    ("POST", "tasks/<uuid:task_id>/edit/"): lambda world: Sent(form=_task_form(world)),
    ("POST", "tasks/<uuid:task_id>/renew/"): lambda world: Sent(form={"consent": "on", "days": 3}),
    ("POST", "api/v1/members/"): lambda world: Sent(json={"email": "walker@example.org"}),
    ("POST", "api/v1/teams/"): lambda world: Sent(json={"name": "A team of the walk"}),
    ("POST", "api/v1/projects/"): lambda world: Sent(json={"name": "A project of the walk"}),
    ("POST", "api/v1/keys/"): lambda world: Sent(
        json={"name": "walk", "scopes": ["search"], "expires_at": _tomorrow()}
    ),
    ("GET", "api/v1/grants/"): lambda world: Sent(query=f"type=source&object={world.source.pk}"),
    ("POST", "api/v1/grants/"): lambda world: Sent(json=_grant(world)),
    ("DELETE", "api/v1/grants/"): lambda world: Sent(query=_query(_grant(world))),
    ("GET", "api/v1/search/"): lambda world: Sent(query=f"q={world.canaries('passage')}"),
    ("GET", "api/v1/access/explain/"): lambda world: Sent(
        query=f"member={world.member.pk}&document={world.document.pk}"
    ),
    ("POST", "api/v1/access/what-if/"): lambda world: Sent(
        json={
            "change": "team_member",
            "act": "add",
            "team": str(world.team.uuid),
            "member": str(world.member.pk),
        }
    ),
    ("POST", "api/v1/sources/"): lambda world: Sent(json={"name": "A source of the walk"}),
    ("PATCH", "api/v1/sources/<uuid:source_id>/"): lambda world: Sent(json={"description": "New"}),
    ("POST", "api/v1/sources/<uuid:source_id>/documents/"): lambda world: Sent(
        form={"file": _file()}
    ),
    ("POST", "api/v1/sources/<uuid:source_id>/documents/push/"): lambda world: Sent(
        json={"items": [{"external_id": "walk", "text": "Pushed by the walk."}]}
    ),
    ("PATCH", "api/v1/documents/<uuid:document_id>/"): lambda world: Sent(
        json={"author": "Walker"}
    ),
    ("POST", "api/v1/turns/"): lambda world: Sent(
        json={"agent": str(world.agent.pk), "text": "What is new?"}
    ),
    ("PATCH", "api/v1/conversations/<uuid:conversation_id>/"): lambda world: Sent(
        json={"title": "Walked"}
    ),
    ("POST", "api/v1/conversations/<uuid:conversation_id>/turns/"): lambda world: Sent(
        json={"text": "And then?"}
    ),
    ("POST", "api/v1/tasks/"): lambda world: Sent(json=_task(world)),
    ("PATCH", "api/v1/tasks/<uuid:task_id>/"): lambda world: Sent(
        json={"name": "Walked", "consent": True}
    ),
}
# GET routes that show nothing of the organisation even to the rightful member.
NOTHING_OF_ITS_OWN = frozenset({"healthz", "login/", "", "set-password/<str:uidb64>/<str:token>/"})


def sent_to(route: Route, method: str, world: World) -> Sent:
    """What the rightful member of `world` sends there."""
    make = SENT.get((method, route.pattern))
    return make(world) if make else Sent()


def _tomorrow() -> str:
    return (now() + timedelta(days=1)).isoformat()
