"""What an agent's tools record and show, and reading passages again."""

from __future__ import annotations

import json
import uuid
from uuid import UUID

import pytest
from pydantic import ValidationError

from accounts.authority import Narrowing
from accounts.permissions import Verb, delete_grant
from audit.models import AuditEvent
from kaizen.kernel.errors import Missing
from kaizen.kernel.tools import Effect
from retrieval.cites import cite_of, find_chunk_key
from retrieval.models import Chunk
from retrieval.passages import document_view, get_passage, read_passages, text_digest
from retrieval.tools import (
    DATA,
    MAX_PROJECTION,
    NOTHING_FOUND,
    NOTHING_VISIBLE,
    TOOLS,
    ReadDocumentArguments,
    SearchArguments,
)
from tests import factories
from tests.retrieval.conftest import Library
from tests.retrieval.worlds import index_document

SEARCH, READ, *_ = TOOLS
LEAVE = "# Leave\n\nThirty days of holiday.\n\n## Illness\n\nCall extension 4471 before nine."


def test_the_tools_only_read() -> None:
    assert [(tool.name, tool.effect) for tool in TOOLS] == [
        ("search", Effect.READ),
        ("read_document", Effect.READ),
        ("live_sources", Effect.READ),
        ("read_live_source", Effect.READ),
    ]
    for arguments in (
        {"query": "x", "source": "y"},
        {"query": "", "limit": 3},
        {"query": "x", "limit": 11},
    ):
        with pytest.raises(ValidationError):
            SearchArguments(**arguments)


def test_a_search_record_holds_ids_and_digests_but_no_text(library: Library) -> None:
    document = library.add(LEAVE, "leave.md")
    outcome = SEARCH.handler(library.as_owner, SearchArguments(query="holiday", limit=1))
    chunk = Chunk.objects.get(document=document, ordinal=0)
    (entry,) = outcome.record["passages"]
    score = entry.pop("score")
    assert score == 1.0
    assert entry == {
        "cite": cite_of(library.organization.pk, chunk.key),
        "chunk": str(chunk.pk),
        "version": str(document.current_version_id),
        "document": str(document.pk),
        "digest": text_digest(chunk.text),
    }
    assert "Thirty" not in json.dumps(outcome.record)
    assert (outcome.label, outcome.empty) == ("1 passage", False)


def test_a_projection_is_read_again_for_its_reader(library: Library) -> None:
    library.add(LEAVE, "leave.md")
    factories.grant(library.member, Verb.VIEW, library.source)
    authority = library.as_member
    record = SEARCH.handler(authority, SearchArguments(query="holiday")).record
    shown = json.loads(SEARCH.project(authority, record))
    assert [(p["title"], p["heading"], p["text"]) for p in shown["passages"]] == [
        ("Leave", "Leave", "Thirty days of holiday."),
        ("Leave", "Leave > Illness", "Call extension 4471 before nine."),
    ]
    assert shown["note"] == DATA
    delete_grant(library.member.user, Verb.VIEW, library.source)
    after = SEARCH.project(authority, record)
    assert json.loads(after)["passages"] == []
    assert "2 of these passages can no longer be seen" in after
    assert "holiday." not in after


def test_an_empty_search_says_whether_anything_is_open_at_all(library: Library) -> None:
    record = SEARCH.handler(library.as_owner, SearchArguments(query="holiday")).record
    assert NOTHING_FOUND in SEARCH.project(library.as_owner, record)
    closed = SEARCH.handler(library.as_member, SearchArguments(query="holiday"))
    assert closed.empty
    assert NOTHING_VISIBLE in SEARCH.project(library.as_member, closed.record)


def test_a_document_is_read_on_from_a_cite_or_an_id(library: Library) -> None:
    document = library.add(LEAVE, "leave.md")
    second = Chunk.objects.get(document=document, ordinal=1)
    cite = cite_of(library.organization.pk, second.key)
    for name in (cite, f"[[{cite}]]", str(document.pk)):
        record = READ.handler(library.as_owner, ReadDocumentArguments(document=name)).record
        assert (record["offset"], record["next_offset"], record["total"]) == (0, None, 2)
        shown = json.loads(READ.project(library.as_owner, record))
        assert [p["text"] for p in shown["passages"]][1] == "Call extension 4471 before nine."
    later = ReadDocumentArguments(document=cite, offset=1)
    assert len(READ.handler(library.as_owner, later).record["passages"]) == 1
    beyond = READ.handler(library.as_owner, ReadDocumentArguments(document=cite, offset=9))
    assert (beyond.empty, beyond.record["next_offset"]) == (True, None)
    assert AuditEvent.objects.filter(action="retrieval.document_read").count() == 5


def test_a_long_document_is_read_in_bounded_stretches(library: Library) -> None:
    text = "\n\n".join(f"# Part {n}\n\n" + f"word{n} " * 150 for n in range(45))
    document = library.add(text, "long.md")
    offset: int | None = 0
    stretches, numbers = 0, 0
    while offset is not None:
        arguments = ReadDocumentArguments(document=str(document.pk), offset=offset)
        record = READ.handler(library.as_owner, arguments).record
        assert len(READ.project(library.as_owner, record)) <= MAX_PROJECTION
        numbers += len(record["passages"])
        stretches, offset = stretches + 1, record["next_offset"]
    assert numbers == document.passage_count
    assert stretches >= 3


def test_what_is_not_visible_is_missing_to_a_tool(library: Library) -> None:
    document = library.add(LEAVE, "leave.md")
    cite = cite_of(library.organization.pk, Chunk.objects.get(document=document, ordinal=0).key)
    other = factories.make_source(library.organization)
    narrowed = library.as_owner.narrowed(Narrowing(source_keys=frozenset({other.key})))
    for authority in (library.as_member, narrowed):
        for name in (cite, str(document.pk), str(uuid.uuid4()), "nonsense"):
            with pytest.raises(Missing):
                READ.handler(authority, ReadDocumentArguments(document=name))


@pytest.mark.parametrize("key", [0, 1, 4_711, (1 << 40) - 1])
def test_a_cite_leads_back_to_its_passage_in_its_organisation_only(key: int) -> None:
    here, there = UUID(int=1), UUID(int=2)
    cite = cite_of(here, key)
    assert len(cite) == 9
    assert find_chunk_key(here, cite) == key
    assert find_chunk_key(there, cite) != key
    assert find_chunk_key(here, cite.upper()) is None


def test_cites_of_neighbours_have_nothing_in_common() -> None:
    organization = uuid.uuid4()
    assert len({cite_of(organization, key)[:5] for key in range(200)}) > 190


def test_passages_are_read_in_one_query_and_only_visible_ones(
    library: Library, django_assert_num_queries: object
) -> None:
    mine = index_document(library.source, title="Mine", passages=2)
    closed = index_document(factories.make_source(library.organization), title="Closed")
    ids = list(Chunk.objects.filter(document__in=[mine, closed]).values_list("pk", flat=True))
    authority = library.as_owner
    read_passages(authority, ids)
    with django_assert_num_queries(1):  # type: ignore[operator]
        found = read_passages(authority, [*ids, uuid.uuid4()])
    assert {passage.title for passage in found.values()} == {"Mine"}
    assert len(found) == 2


def test_a_passage_of_an_earlier_version_opens_while_the_document_is_visible(
    library: Library,
) -> None:
    old = Chunk.objects.get(document=library.add("The old text.", "a.md"))
    document = library.add("The new text.", "a.md")
    assert get_passage(library.as_owner, old.pk).is_current is False
    view = document_view(library.as_owner, document_id=document.pk, chunk_id=old.pk)
    assert [passage.text for passage in view.passages] == ["The old text."]
    assert (view.is_current, view.marked, view.version.number) == (False, old.pk, 1)
    newest = document_view(library.as_owner, document_id=document.pk)
    assert [passage.text for passage in newest.passages] == ["The new text."]
    assert document_view(library.as_owner, document_id=document.pk, number=1).is_current is False
    with pytest.raises(Missing):
        document_view(library.as_owner, document_id=document.pk, number=3)
    with pytest.raises(Missing):
        get_passage(library.as_member, old.pk)


def test_a_passage_of_another_document_is_missing(library: Library) -> None:
    one, two = library.add("One.", "a.md"), library.add("Two.", "b.md")
    other = Chunk.objects.get(document=two)
    with pytest.raises(Missing):
        document_view(library.as_owner, document_id=one.pk, chunk_id=other.pk)


def test_a_long_document_opens_around_the_passage(library: Library) -> None:
    document = index_document(library.source, title="Long", passages=230)
    chunk = Chunk.objects.get(document=document, ordinal=200)
    view = document_view(library.as_owner, document_id=document.pk, chunk_id=chunk.pk)
    assert (view.start, len(view.passages), view.total) == (150, 80, 230)
    assert (view.previous_start, view.next_start) == (50, None)
