"""The shared handbook, imported whole once, and its ten questions asked by a reader and by an
outsider.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connections
from pytest_django.plugin import DjangoDbBlocker

from accounts.authority import Authority
from accounts.models import Role
from accounts.permissions import Verb
from retrieval.acl import visible_documents
from retrieval.models import Document, Source
from retrieval.search import search
from tests import factories, servers
from tests.conftest import SHARED
from tests.retrieval.handbook_questions import HANDBOOK_QUESTIONS, HandbookQuestion

HANDBOOK = SHARED / "data" / "handbook"
pytestmark = pytest.mark.skipif(not HANDBOOK.is_dir(), reason=f"no handbook at {HANDBOOK}")


@dataclass(frozen=True)
class Handbook:
    """The imported handbook, one who may see it and one who may not."""

    reader: Authority
    outsider: Authority
    written: str


@pytest.fixture(scope="module")
def handbook(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Handbook]:
    """A database of this module's own, with the handbook in it."""
    name = servers.create_database()
    connection = connections["default"]
    connection.close()
    shared = connection.settings_dict["NAME"]
    connections.settings["default"]["NAME"] = connection.settings_dict["NAME"] = name
    with django_db_blocker.unblock():
        try:
            yield import_handbook(HANDBOOK)
        finally:
            connections.close_all()
            connections.settings["default"]["NAME"] = connection.settings_dict["NAME"] = shared
            cache.clear()
            servers.drop_database(name)


def import_handbook(folder: Path) -> Handbook:
    """Import the folder as an owner; a reader gets the source, an outsider nothing."""
    organization = factories.make_organization()
    factories.make_member(organization, role=Role.OWNER)
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
    return Handbook(
        factories.authority_of(reader), factories.authority_of(outsider), out.getvalue()
    )


def test_the_whole_handbook_is_read(handbook: Handbook) -> None:
    pages = visible_documents(handbook.reader).filter(path__endswith=".md")
    assert pages.count() == 246
    assert set(pages.values_list("state", flat=True)) == {Document.State.INDEXED}
    assert " 0 failed" in handbook.written
    assert sum(pages.values_list("passage_count", flat=True)) > 2_000


@pytest.mark.parametrize("question", HANDBOOK_QUESTIONS, ids=lambda question: question.page)
def test_a_reader_finds_the_page_among_the_first_three(
    handbook: Handbook, question: HandbookQuestion
) -> None:
    hits = search(handbook.reader, query=question.question, limit=10).hits
    pages = list(dict.fromkeys(hit.path for hit in hits))
    assert question.page in pages[:3]


def test_an_outsider_finds_nothing(handbook: Handbook) -> None:
    for question in HANDBOOK_QUESTIONS:
        result = search(handbook.outsider, query=question.question)
        assert (result.hits, result.visible) == ((), False)


def test_a_second_import_reads_nothing(handbook: Handbook) -> None:
    out = StringIO()
    call_command(
        "import_folder",
        str(HANDBOOK),
        f"--organization={handbook.reader.organization_slug}",
        "--source=Handbook",
        stdout=out,
    )
    assert " 0 read, " in f" {out.getvalue().splitlines()[-1]}"
