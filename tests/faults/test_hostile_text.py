"""Bad text survives (G19): through message, search, titles, tools and what is pushed or imported,
nothing answers 500, and what is stored is what was sent, after the documented clean-up.
"""

from __future__ import annotations

import csv
import io
import json
import os
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from django.test import Client
from pydantic import ValidationError

from accounts.permissions import Verb
from agents.models import Agent
from agents.services import publish_agent
from conversations.models import Conversation, Message
from kaizen.kernel.errors import KaizenError
from kaizen.kernel.text import is_blank, make_storable
from retrieval.blobs import open_content
from retrieval.ingest.contract import ParseFailure
from retrieval.ingest.parse import parse
from retrieval.ingest.store import ingest_document
from retrieval.models import Document
from retrieval.tools import TOOLS, SearchArguments
from tests import factories
from tests.faults.hostile_text import hostile_texts, one_line_of
from tests.retrieval.conftest import Library, make_library

SEED = int(os.environ.get("KAIZEN_SEED", "20261"))
SOAK = os.environ.get("KAIZEN_ROUNDS") == "soak"
TEXTS = hostile_texts(SEED, 3_000 if SOAK else 40)
BATCH = 100
SEARCH = TOOLS[0]

pytestmark = [pytest.mark.soak, pytest.mark.django_db]


@dataclass(frozen=True)
class Desk:
    """An owner at a browser that shows errors instead of raising them, and what they work with."""

    library: Library
    agent: Agent
    client: Client

    def send(self, method: str, path: str, data: object) -> Any:
        """A request with a JSON body, everything beyond ASCII escaped; its answer is no 500."""
        answer = self.client.generic(
            method.upper(), self.address(path), json.dumps(data), "application/json"
        )
        assert answer.status_code < 500, (path, json.dumps(data)[:500], answer.content[:500])
        return answer

    def address(self, path: str) -> str:
        return f"/o/{self.library.organization.slug}/{path}"


@pytest.fixture
def desk(db: None) -> Desk:
    """An organisation with a document to find and an agent to write to."""
    library = make_library()
    library.add("# Leave\n\nThirty days of holiday, and the fox is quick.", "leave.md")
    agent = factories.make_agent(library.organization)
    for obj in (agent, agent.prompt, agent.language_model):
        factories.grant(library.owner, Verb.MANAGE, obj)
    publish_agent(library.as_owner, agent=agent)
    client = Client(raise_request_exception=False)
    client.force_login(library.owner.user)
    return Desk(library, agent, client)


def batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(texts), BATCH):
        yield texts[at : at + BATCH]


def test_search_answers_any_query(desk: Desk) -> None:
    for text in TEXTS:
        query = urllib.parse.quote(text.encode("utf-8", "surrogatepass"))[:60_000]
        for path in ("api/v1/search/?q=", "search/?q="):
            answer = desk.client.get(desk.address(path) + query)
            assert answer.status_code in (200, 400), (text, answer.status_code)


def test_the_search_tool_answers_or_refuses_any_argument(desk: Desk) -> None:
    for text in TEXTS:
        try:
            arguments = SearchArguments(query=text)
        except ValidationError:
            continue
        try:
            outcome = SEARCH.handler(desk.library.as_owner, arguments)
        except KaizenError as error:
            assert error.status < 500, text  # noqa: PT017
            continue
        json.dumps(outcome.record).encode()


def test_messages_come_back_as_they_were_sent(desk: Desk) -> None:
    sent: dict[str, str] = {}
    for number, text in enumerate(TEXTS):
        answer = desk.send("post", "api/v1/turns/", {"agent": str(desk.agent.pk), "text": text})
        if answer.status_code == 201:
            sent[answer.json()["message"]] = make_storable(text).text.strip()
        else:
            assert answer.status_code in (400, 413, 429), (text, answer.content[:300])
        if number % BATCH == 0:
            _check_messages(desk, sent)
    _check_messages(desk, sent)
    assert len(sent) > len(TEXTS) // 3


def _check_messages(desk: Desk, sent: dict[str, str]) -> None:
    stored = {str(row.pk): row.text for row in Message.objects.filter(pk__in=sent)}
    assert {key: stored[key] for key in sent} == sent
    last = Conversation.objects.filter(organization=desk.library.organization).last()
    if last is not None:
        for path in (f"chat/{last.pk}/", f"api/v1/conversations/{last.pk}/"):
            assert desk.client.get(desk.address(path)).status_code == 200


def test_titles_come_back_as_they_were_sent(desk: Desk) -> None:
    document = desk.library.add("Words.", "words.md")
    conversation = desk.send(
        "post", "api/v1/turns/", {"agent": str(desk.agent.pk), "text": "Hello"}
    ).json()["conversation"]
    for text in TEXTS:
        answer = desk.send(
            "patch", f"api/v1/documents/{document.pk}/", {"title": text, "author": text[:100]}
        )
        assert answer.status_code in (200, 400), (text, answer.content[:300])
        if answer.status_code == 200:
            document.refresh_from_db()
            assert answer.json()["title"] == document.title
            assert document.title in (make_storable(text).text.strip(), "words")
        answer = desk.send("patch", f"api/v1/conversations/{conversation}/", {"title": text})
        assert answer.status_code in (200, 400), (text, answer.content[:300])
    for path in (f"documents/{document.pk}/", f"sources/{desk.library.source.pk}/"):
        assert desk.client.get(desk.address(path)).status_code == 200


def test_pushed_texts_come_back_as_they_were_sent(desk: Desk) -> None:
    path = f"api/v1/sources/{desk.library.source.pk}/documents/push/"
    for call, batch in enumerate(batches([*TEXTS, one_line_of(1)])):
        items = [
            {"external_id": f"{call} {number} {text[:50]}", "title": text[:300], "text": text,
             "author": text[:200], "tags": [text[:60]], "path": text[:1000],
             "acl": {"readers": [{"kind": "team", "name": text[:80]}, {"kind": "everyone"}]}}
            for number, text in enumerate(batch)
        ]  # fmt: skip
        results = desk.send("post", path, items).json()["results"]
        assert len(results) == len(items)
        for item, result in zip(items, results, strict=True):
            if result["status"] == "refused":
                assert result["error"]["code"] in ("invalid", "acl", "blank_name"), result
                continue
            document = Document.objects.get(pk=result["document"])
            assert document.external_id == make_storable(str(item["external_id"])).text.strip()
            assert document.author == make_storable(str(item["author"])).text.strip()
            version = document.versions.get()
            with open_content(version.blob) as file:
                assert file.read().decode() == make_storable(str(item["text"])).text
        statuses = {result["status"] for result in desk.send("post", path, items).json()["results"]}
        assert statuses <= {"unchanged", "refused"}
        _read_some(desk)


def _read_some(desk: Desk) -> None:
    """What was pushed can be read, or says why not."""
    waiting = Document.objects.filter(
        source=desk.library.source, state="waiting", versions__blob__size__lt=5_000
    )
    for document in waiting[: 10 if SOAK else 4]:
        ingest_document(document.pk)
        document.refresh_from_db()
        assert document.state in ("indexed", "failed")
        assert bool(document.state_message) == (document.state == "failed")
        page = desk.client.get(desk.address(f"documents/{document.pk}/"))
        assert page.status_code == 200


def test_cells_of_a_table_come_back_as_they_were_sent() -> None:
    texts = [text[:500] for text in TEXTS if not is_blank(text)]
    for batch in batches(texts):
        stream = io.StringIO(newline="")
        writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
        writer.writerow(["n", "text"])
        writer.writerows([number, text] for number, text in enumerate(batch))
        data = stream.getvalue().encode("utf-8", "surrogatepass")
        try:
            table = parse(data, name="a.csv").blocks[0].text
        except ParseFailure as failure:
            pytest.fail(f"{failure} for {batch!r}")
        rows = table.split("\n")[2:]
        assert len(rows) == len(batch)
        for row, text in zip(rows, batch, strict=True):
            kept = make_storable(text).text.strip()
            words = [word for word in kept.replace("|", "\\|").split() if len(word) > 1]
            assert all(word in row for word in words if word.isalnum()), (row, text)
