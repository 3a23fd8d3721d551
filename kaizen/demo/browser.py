"""One signed-in session at a running Kaizen, from the standard library: cookies, the sign-in form,
JSON.

Every way it can fail is a `Refused` with a sentence for the person at the terminal.
"""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

SECONDS = 60.0


class Refused(Exception):
    """The system can't be reached, or said no; the message is a sentence for a person."""


class _Form(HTMLParser):
    """The fields of the first form that asks for a password."""

    def __init__(self) -> None:
        super().__init__()
        self.fields: dict[str, str] = {}
        self.person = self.secret = ""
        self._is_done = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take a field, by what it asks for."""
        given = dict(attrs)
        name, kind = given.get("name") or "", given.get("type") or "text"
        if tag != "input" or not name or self._is_done:
            return
        if kind == "password":
            self.secret = name
        elif kind in ("email", "text"):
            self.person = self.person or name
        elif kind == "hidden":
            self.fields[name] = given.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        """End at the form with the password; forget one without."""
        if tag == "form" and self.secret:
            self._is_done = True
        elif tag == "form" and not self._is_done:
            self.fields, self.person = {}, ""


class Browser:
    """One person's session at `address`, such as http://127.0.0.1:8000."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        if urllib.parse.urlsplit(self.address).scheme not in ("http", "https"):
            raise Refused(f"{address} isn't an address: it begins with http:// or https://.")
        self._cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    def sign_in(self, email: str, password: str) -> bool:
        """Sign in by the form, as a person does. Returns whether that worked. Raises Refused."""
        form = _Form()
        form.feed(self._send("/login/").decode())
        if not form.secret:
            raise Refused(f"What answers at {self.address} has no sign-in page: is it Kaizen?")
        values = {**form.fields, form.person: email, form.secret: password}
        self._send("/login/", data=urllib.parse.urlencode(values).encode())
        return any(cookie.name == "sessionid" for cookie in self._cookies)

    def get(self, path: str) -> Any:
        """The JSON at `path`. Raises Refused."""
        return self._parse(path, self._send(path))

    def post(self, path: str, body: Any, *, headers: Mapping[str, str] | None = None) -> Any:
        """The JSON that answers `body`. Raises Refused."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        return self._parse(path, self._send(path, data=json.dumps(body).encode(), headers=sent))

    def _parse(self, path: str, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except ValueError:
            raise Refused(f"{self.address}{path} answered something that isn't JSON.") from None

    def _send(
        self, path: str, *, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        token = next((c.value for c in self._cookies if c.name == "csrftoken"), None)
        request = urllib.request.Request(  # noqa: S310  the scheme was checked
            self.address + path,
            data=data,
            headers={
                "Referer": f"{self.address}/",
                "Accept": "text/html" if path == "/login/" else "application/json",
                **({"X-CSRFToken": token} if token and data is not None else {}),
                **(headers or {}),
            },
        )
        try:
            with self._opener.open(request, timeout=SECONDS) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.HTTPError as error:
            raise Refused(f"{self.address}{path}: {_explain(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            raise Refused(self._unreachable(error)) from None

    def _unreachable(self, error: Exception) -> str:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return f"Kaizen at {self.address} didn't answer within {SECONDS:.0f} s."
        return (
            f"Kaizen isn't running at {self.address}. Start it with make up in another terminal, "
            "wait for its address, and run make demo again."
        )


def _explain(error: urllib.error.HTTPError) -> str:
    """The sentence of a problem document, or the bare status."""
    try:
        detail = json.loads(error.read())["detail"]
    except (ValueError, KeyError, TypeError, OSError):
        return f"answered {error.code} {error.reason}."
    return str(detail)
