"""The shared handbook, imported whole once, and its ten questions asked by a reader and by an
outsider.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.core.cache import cache
from django.core.management import call_command
from pytest_django.plugin import DjangoDbBlocker

from accounts.models import Membership, Role
from accounts.permissions import Verb
from agents.models import Agent
from agents.providers.extractive import NOTHING
from agents.services import publish_agent
from retrieval.acl import visible_documents
from retrieval.models import Document, Source
from retrieval.search import search
from tests import factories, servers
from tests.client import Member
from tests.conftest import SHARED, connected_to
from tests.retrieval.handbook_questions import HANDBOOK_QUESTIONS, HandbookQuestion
from tests.stack import RUNTIME_PYTHON, Stack

HANDBOOK = SHARED / "data" / "handbook"
pytestmark = pytest.mark.skipif(not HANDBOOK.is_dir(), reason=f"no handbook at {HANDBOOK}")


@dataclass(frozen=True)
class Handbook:
    """The imported handbook in the running product, one who may see it and one who may not."""

    reader: Membership
    outsider: Membership
    agent: Agent
    written: str
    stack: Stack

    def ask(self, membership: Membership, question: str) -> dict[str, Any]:
        """The agent's answer, as the member reads it through the API."""
        member = Member(self.stack.address, membership.organization.slug)
        member.take_session_of(membership.user)
        member.is_answered()
        turn = member.ask(self.agent.pk, question)
        assert member.wait_until_finished(turn)["state"] == "succeeded"
        answer: dict[str, Any] = member.api(f"conversations/{turn['conversation']}/").json()[
            "messages"
        ][-1]
        return answer


@pytest.fixture(scope="module")
def handbook(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Handbook]:
    """A database of this module's own, with the handbook in it, and the product around it."""
    if not RUNTIME_PYTHON.exists():
        pytest.skip("the runtime's own environment isn't built: make test builds it")
    servers.valkey()
    name = servers.create_database()
    with connected_to(name, django_db_blocker), Stack(name) as stack:
        yield import_handbook(HANDBOOK, stack)
        cache.clear()
    servers.drop_database(name)


def import_handbook(folder: Path, stack: Stack) -> Handbook:
    """Import the folder as an owner; a reader gets the source, an outsider only the agent."""
    organization = factories.make_organization()
    owner = factories.make_member(organization, role=Role.OWNER)
    reader = factories.make_member(organization)
    outsider = factories.make_member(organization)
    out = StringIO()
    call_command(
        "import_folder",
        str(folder),
        f"--organization={organization.slug}",
        "--source=Handbook",
        stdout=out,
    )
    source = Source.objects.get(organization=organization)
    factories.grant(reader, Verb.VIEW, source)
    agent = factories.make_agent(organization)
    publish_agent(factories.authority_of(owner), agent=agent)
    factories.grant(factories.everyone(organization), Verb.USE, agent)
    stack.start("web", "runtime")
    return Handbook(reader, outsider, agent, out.getvalue(), stack)


def test_the_whole_handbook_is_read(handbook: Handbook) -> None:
    reader = factories.authority_of(handbook.reader)
    pages = visible_documents(reader).filter(path__endswith=".md")
    assert pages.count() == 246
    assert set(pages.values_list("state", flat=True)) == {Document.State.INDEXED}
    assert " 0 failed" in handbook.written
    assert sum(pages.values_list("passage_count", flat=True)) > 2_000


@pytest.mark.parametrize("question", HANDBOOK_QUESTIONS, ids=lambda question: question.page)
def test_a_reader_is_answered_from_the_page_among_the_first_three_citations(
    handbook: Handbook, question: HandbookQuestion
) -> None:
    answer = handbook.ask(handbook.reader, question.question)
    cited = Document.objects.in_bulk([source["document"] for source in answer["sources"]])
    pages = [cited[UUID(source["document"])].path for source in answer["sources"]]
    assert question.page in pages[:3]


@pytest.mark.parametrize("question", HANDBOOK_QUESTIONS, ids=lambda question: question.page)
def test_an_outsider_is_told_nothing_of_it(handbook: Handbook, question: HandbookQuestion) -> None:
    result = search(factories.authority_of(handbook.outsider), query=question.question)
    assert (result.hits, result.visible) == ((), False)
    answer = handbook.ask(handbook.outsider, question.question)
    assert answer["sources"] == []
    assert answer["text"] == NOTHING


def test_a_second_import_reads_nothing(handbook: Handbook) -> None:
    out = StringIO()
    call_command(
        "import_folder",
        str(HANDBOOK),
        f"--organization={handbook.reader.organization.slug}",
        "--source=Handbook",
        stdout=out,
    )
    assert " 0 read, " in f" {out.getvalue().splitlines()[-1]}"
