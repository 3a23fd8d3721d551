"""ASGI wiring: pages and API, the members' websocket behind the origin check, the runtimes' beside
it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kaizen.settings")

from django.core.asgi import get_asgi_application

# Django must be set up before anything below is imported.
django_application = get_asgi_application()

from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from channels.sessions import SessionMiddlewareStack  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from conversations.bridge import BridgeConsumer  # noqa: E402
from conversations.consumers import ConversationConsumer  # noqa: E402
from kaizen.refusal import RefuseUnknown  # noqa: E402

BRIDGE = "/bridge/"

_bridge = BridgeConsumer.as_asgi()
_member = AllowedHostsOriginValidator(
    SessionMiddlewareStack(
        URLRouter(
            [
                path(
                    "o/<slug:slug>/ws/conversations/<uuid:conversation_id>/",
                    ConversationConsumer.as_asgi(),
                ),
                re_path("", RefuseUnknown.as_asgi()),
            ]
        )
    )
)


async def websocket(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[Any], Awaitable[None]],
) -> None:
    """The runtime sends no origin and no cookie, its token is checked; everybody else is a
    browser.
    """
    await (_bridge if scope["path"] == BRIDGE else _member)(scope, receive, send)


application = ProtocolTypeRouter({"http": django_application, "websocket": websocket})
