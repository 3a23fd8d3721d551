"""A member's programs, for tests against running processes: signed-in HTTP and the conversation's
websocket.
"""

from __future__ import annotations

import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from websockets.asyncio.client import ClientConnection, connect

from accounts.models import User
from tests.factories import PASSWORD


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


class Member:
    """One browser session at a running address."""

    def __init__(self, address: str, slug: str) -> None:
        self.address, self.slug = address, slug
        self._jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))

    def sign_in(self, email: str, password: str = PASSWORD) -> Member:
        """Through the sign-in page, as a person does."""
        self.open("/login/")
        answer = self.open(
            "/login/",
            form={
                "email": email,
                "password": password,
                "csrfmiddlewaretoken": self.cookie("csrftoken"),
            },
        )
        assert "sessionid" in self.cookies(), answer.text[:500]
        return self

    def take_session_of(self, user: User) -> None:
        """A session as signing in leaves it, without the sign-in page."""
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "accounts.auth.EmailBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.save()
        host = urllib.parse.urlsplit(self.address).hostname or ""
        self._jar.set_cookie(
            http.cookiejar.Cookie(
                0,
                "sessionid",
                session.session_key,
                None,
                False,
                host,
                True,
                False,
                "/",
                True,
                False,
                None,
                True,
                None,
                None,
                {},
            )
        )

    def is_answered(self) -> bool:
        """Whether the server gives its sign-in page, which also sets the CSRF cookie."""
        try:
            return self.open("/login/").status == 200
        except OSError:
            return False

    def cookies(self) -> dict[str, str]:
        return {cookie.name: cookie.value or "" for cookie in self._jar}

    def cookie(self, name: str) -> str:
        return self.cookies()[name]

    def open(
        self,
        path: str,
        *,
        form: dict[str, str] | None = None,
        body: Any = None,
        method: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Ask for a path of the server; errors are answers too."""
        data, sent = None, {"Referer": self.address, **(headers or {})}
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            data = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        if "csrftoken" in self.cookies():
            sent["X-CSRFToken"] = self.cookie("csrftoken")
        request = urllib.request.Request(
            self.address + path, data=data, headers=sent, method=method
        )
        try:
            with self._opener.open(request, timeout=40) as response:
                return Answer(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def api(self, path: str, **options: Any) -> Answer:
        """Ask for a path of the organisation's API."""
        return self.open(f"/o/{self.slug}/api/v1/{path}", **options)

    def page(self, path: str, **options: Any) -> Answer:
        """Ask for a page of the organisation."""
        return self.open(f"/o/{self.slug}/{path}", **options)

    def ask(
        self, agent_id: object, text: str, key: str = "", *, conversation: str = ""
    ) -> dict[str, Any]:
        """Start a conversation, or go on in one; returns the turn."""
        headers = {"Idempotency-Key": key} if key else {}
        path = f"conversations/{conversation}/turns/" if conversation else "turns/"
        body = {"text": text} if conversation else {"agent": str(agent_id), "text": text}
        answer = self.api(path, body=body, headers=headers)
        assert answer.status == 201, answer.text
        turn: dict[str, Any] = answer.json()
        return turn

    def wait_until_finished(self, turn: dict[str, Any], seconds: float = 60.0) -> dict[str, Any]:
        """Follow the events by long-poll until the run ended; returns the data of
        `run_finished`.
        """
        after = 0
        for _ in range(int(seconds)):
            path = f"conversations/{turn['conversation']}/events/?after={after}&wait=5"
            for event in self.api(path).json()["events"]:
                after = event["seq"]
                if event["kind"] == "run_finished" and event["run"] == turn["run"]:
                    data: dict[str, Any] = event["data"]
                    return data
        raise AssertionError("the run did not end")

    @asynccontextmanager
    async def socket(
        self, conversation_id: str, *, after: int = 0, render: str = "text", origin: str = ""
    ) -> AsyncIterator[ClientConnection]:
        """The conversation's websocket, as a page opens it."""
        address = self.address.replace("http", "ws", 1)
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies().items())
        path = f"/o/{self.slug}/ws/conversations/{conversation_id}/"
        url = f"{address}{path}?after={after}&render={render}"
        async with connect(
            url,
            additional_headers={"Cookie": cookies},
            origin=origin or self.address,
            max_size=None,
        ) as socket:
            yield socket


async def frames(socket: ClientConnection) -> AsyncIterator[dict[str, Any]]:
    """The frames of a socket as they come."""
    async for message in socket:
        yield json.loads(message)


async def collect_until(
    socket: ClientConnection, done: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The frames up to the first for which `done` holds."""
    found = []
    async for frame in frames(socket):
        found.append(frame)
        if done(frame):
            return found
    raise AssertionError(f"the socket closed: {socket.close_code}")


def text_of(found: list[dict[str, Any]], message: str) -> str:
    """The text a client has after these frames: each piece stands at its offset."""
    text = ""
    for frame in found:
        data = frame.get("data", frame)
        kind = frame.get("kind", frame["type"])
        if data.get("message") != message:
            continue
        if kind == "text":
            text = text[: data["offset"]] + data["text"]
        elif kind == "rewind":
            text = text[: data["offset"]]
    return text
