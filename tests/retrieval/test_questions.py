"""Question sets: changing them, and as files in and out."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.models import Role
from audit.models import AuditEvent
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Denied, Invalid, Missing
from retrieval.models import Document, Persona, QuestionSet
from retrieval.quality.question_files import Unreadable, read_file, write_csv, write_json
from retrieval.quality.questions import (
    Wanted,
    import_questions,
    remove_question,
    save_question,
    set_personas,
)
from retrieval.quality.score_runs import start_run
from tests import factories
from tests.retrieval.conftest import Library, make_library
from tests.retrieval.question_scene import documents, living, make_set
from tests.retrieval.test_explain import make_document

pytestmark = pytest.mark.django_db


@pytest.fixture
def questions(library: Library) -> QuestionSet:
    return make_set(library)


@pytest.fixture
def page(library: Library) -> Document:
    """A document without content."""
    return make_document(library.source, "Page")


# --- questions and personas


def test_a_question_is_saved_with_its_documents(
    library: Library, questions: QuestionSet, page: Document
) -> None:
    other = make_document(library.source, "Other")
    saved = save_question(
        library.as_owner,
        question_set=questions,
        text="  How much leave? ",
        expected=[page.pk],
        forbidden=[other.pk],
    )
    assert saved.text == "How much leave?"
    assert documents(saved) == {("expected", page.pk), ("forbidden", other.pk)}
    event = AuditEvent.objects.get(action="retrieval.questions_changed")
    assert (event.object_id, event.data) == (str(questions.pk), {"question": str(saved.pk)})


def test_new_words_are_a_new_question_and_other_documents_are_not(
    library: Library, questions: QuestionSet, page: Document
) -> None:
    owner = library.as_owner
    first = save_question(owner, question_set=questions, text="Leave?", expected=[page.pk])
    same = save_question(owner, question_set=questions, text="Leave?", question=first)
    assert (same.pk, documents(same)) == (first.pk, set())
    other = save_question(owner, question_set=questions, text="Days off?", question=first)
    assert other.pk != first.pk
    assert living(questions) == ["Days off?"]
    back = save_question(owner, question_set=questions, text="Leave?")
    assert back.pk == first.pk


def test_a_question_stands_in_a_set_once(library: Library, questions: QuestionSet) -> None:
    owner = library.as_owner
    save_question(owner, question_set=questions, text="Leave?")
    other = save_question(owner, question_set=questions, text="Pay?")
    for more in ({}, {"question": other}):
        with pytest.raises(Conflict):
            save_question(owner, question_set=questions, text="Leave?", **more)
    assert living(questions) == ["Leave?", "Pay?"]


@pytest.mark.parametrize("text", ["", " ", "\u200b", "x" * 2_001])
def test_what_cannot_be_searched_is_no_question(
    library: Library, questions: QuestionSet, text: str
) -> None:
    with pytest.raises(Invalid):
        save_question(library.as_owner, question_set=questions, text=text)


def test_a_document_is_not_expected_and_forbidden_at_once(
    library: Library, questions: QuestionSet, page: Document
) -> None:
    with pytest.raises(Invalid):
        save_question(
            library.as_owner,
            question_set=questions,
            text="Leave?",
            expected=[page.pk],
            forbidden=[page.pk],
        )


def test_nothing_of_another_organisation_gets_into_a_set(
    library: Library, questions: QuestionSet
) -> None:
    other = make_library()
    theirs = make_document(other.source, "Theirs")
    owner = library.as_owner
    with pytest.raises(Missing):
        save_question(owner, question_set=questions, text="Leave?", expected=[theirs.pk])
    with pytest.raises(Missing):
        set_personas(owner, question_set=questions, membership_ids=[other.member.pk])
    with pytest.raises(Missing):
        save_question(owner, question_set=make_set(other), text="Leave?")
    assert living(questions) == []
    # And the database itself refuses it, whatever code would write it.
    with transaction.atomic():
        Persona.objects.create(
            organization=library.organization, question_set=questions, membership=other.member
        )
        with pytest.raises(IntegrityError):
            connection.check_constraints()
        transaction.set_rollback(True)


def test_personas_are_set_whole(library: Library, questions: QuestionSet) -> None:
    owner = library.as_owner
    for wanted in ([library.owner.pk, library.member.pk], [library.member.pk], []):
        set_personas(owner, question_set=questions, membership_ids=wanted)
        rows = Persona.objects.filter(question_set=questions)
        assert set(rows.values_list("membership_id", flat=True)) == set(wanted)
    assert AuditEvent.objects.filter(action="retrieval.questions_changed").count() == 3
    set_personas(owner, question_set=questions, membership_ids=[])
    assert AuditEvent.objects.filter(action="retrieval.questions_changed").count() == 3


@pytest.mark.parametrize("role", [Role.MEMBER, Role.AUDITOR])
def test_only_who_configures_changes_or_scores(
    library: Library, questions: QuestionSet, role: Role
) -> None:
    question = save_question(library.as_owner, question_set=questions, text="Leave?")
    other = factories.authority_of(factories.make_member(library.organization, role=role))
    with pytest.raises(Denied):
        save_question(other, question_set=questions, text="Pay?")
    with pytest.raises(Denied):
        remove_question(other, question=question)
    with pytest.raises(Denied):
        set_personas(other, question_set=questions, membership_ids=[])
    with pytest.raises(Denied):
        import_questions(other, question_set=questions, wanted=[], replace=True)
    with pytest.raises(Denied):
        start_run(other, question_set=questions)
    with pytest.raises(Denied):
        write_json(other, question_set_id=questions.pk)
    assert living(questions) == ["Leave?"]


# --- files


def read(library: Library, text: str | bytes) -> list[Wanted]:
    return read_file(library.as_owner, text if isinstance(text, bytes) else text.encode())


def refusal(library: Library, text: str | bytes) -> tuple[str, ...]:
    with pytest.raises(Unreadable) as caught:
        read(library, text)
    return caught.value.problems


def test_csv_names_documents_by_id_place_or_path(library: Library, page: Document) -> None:
    deep = make_document(library.source, "Deep", path="a/b/deep.md")
    text = (
        f"question,expected\nOne?,Page\nTwo?,a/b/deep.md\nThree?,{page.pk}\nFour?,Library :: Page\n"
    )
    assert [(one.text, one.expected) for one in read(library, text)] == [
        ("One?", (page.pk,)),
        ("Two?", (deep.pk,)),
        ("Three?", (page.pk,)),
        ("Four?", (page.pk,)),
    ]


def test_a_question_may_name_several_documents(library: Library, page: Document) -> None:
    other = make_document(library.source, "Other")
    text = '\ufeffQuestion;Expected;Forbidden\nOne?;"Page\nOther";\nTwo?;Page;\nTwo?;;Other\n'
    assert read(library, text) == [
        Wanted(text="One?", expected=(page.pk, other.pk)),
        Wanted(text="Two?", expected=(page.pk,), forbidden=(other.pk,)),
    ]


def test_json_in_both_shapes(library: Library, page: Document) -> None:
    asked = [{"question": "One?", "expected": ["Page"]}, {"question": "Two?", "forbidden": None}]
    wanted = [Wanted(text="One?", expected=(page.pk,)), Wanted(text="Two?")]
    assert read(library, json.dumps(asked)) == wanted
    assert read(library, json.dumps({"questions": asked})) == wanted


def test_every_mistake_is_told_with_its_line(library: Library, page: Document) -> None:
    twin = factories.make_source(library.organization, name="Twin")
    make_document(twin, "Page")
    text = 'question,expected\n"One\nmore?",Nowhere\n ,Page\nTwo?,Page\n\nThree?,Page,x,y\n'
    assert refusal(library, text) == (
        "Line 7: more cells than the first line has columns.",
        "Line 4: Type something to search for.",
    )
    assert refusal(library, 'question,expected\n"One\nmore?",Nowhere\nTwo?,Page\n') == (
        "Line 2: no document is called “Nowhere”.",
        "Line 4: 2 documents are called “Page”. Put the source before it, as in "
        "“Source :: Page”, or use the document's id.",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"\xff\xfe\x00", "The file isn't UTF-8 text."),
        ("", "The file holds no question."),
        ("question,expected\n", "The file holds no question."),
        ("[]", "The file holds no question."),
        ("[1", "Line 1: this isn't JSON."),
        ("[" * 100_000, "this isn't JSON."),
        ("{}", 'The file must hold a list, or an object with a list under "questions".'),
        ("frage,expected\nA?,", "Line 1: the first line must name the columns"),
        ('question\n"open', "Line 2: this isn't CSV"),
        ('[{"question": 1}]', "Entry 1: this must be an object"),
        ('[{"question": "A?", "expected": "Page"}]', "Entry 1: this must be an object"),
        ('[{"question": "A?", "expcted": []}]', "Entry 1: this must be an object"),
    ],
)
def test_what_is_no_file_of_questions_is_refused(
    library: Library, text: str | bytes, problem: str
) -> None:
    (told,) = refusal(library, text)
    assert told.startswith(problem)


def test_a_file_finds_nothing_of_another_organisation_or_deleted(library: Library) -> None:
    other = make_library()
    theirs = make_document(other.source, "Theirs")
    make_document(library.source, "Gone", deleted_at=now())
    for name in ("Theirs", str(theirs.pk), "Library :: Theirs", "Gone"):
        assert refusal(library, f"question,expected\nA?,{name}\n") == (
            f"Line 2: no document is called “{name}”.",
        )


def test_what_goes_out_comes_in_again(library: Library, questions: QuestionSet) -> None:
    owner = library.as_owner
    twin = factories.make_source(library.organization, name="Twin :: set")
    named = [make_document(library.source, "Page", path="x"), make_document(twin, "Page")]
    odd = make_document(library.source, "Odd", path="odd")
    Document.objects.filter(pk=odd.pk).update(external_id=" two  blanks\nand a line ")
    asked = [
        Wanted(text="=1+1", expected=(named[0].pk, named[1].pk)),
        Wanted(text="'=1", forbidden=(odd.pk,)),
        Wanted(text='Say "hi", please; or\nnot?', expected=(odd.pk,)),
    ]
    import_questions(owner, question_set=questions, wanted=asked, replace=False)
    as_csv = write_csv(owner, question_set_id=questions.pk)
    assert [row[0][:3] for row in csv.reader(io.StringIO(as_csv))] == ["que", "'=1", "''=", "Say"]
    for text in (as_csv, write_json(owner, question_set_id=questions.pk)):
        again = {one.text: (set(one.expected), set(one.forbidden)) for one in read(library, text)}
        assert again == {one.text: (set(one.expected), set(one.forbidden)) for one in asked}


def test_an_import_adds_changes_and_takes_out(
    library: Library, questions: QuestionSet, page: Document
) -> None:
    owner = library.as_owner
    first = [Wanted(text="A?"), Wanted(text="B?", expected=(page.pk,)), Wanted(text="C?")]
    second = [Wanted(text="A?", expected=(page.pk,)), Wanted(text="B?", expected=(page.pk,))]
    done = import_questions(owner, question_set=questions, wanted=first, replace=False)
    assert (done.added, done.changed, done.removed) == (3, 0, 0)
    done = import_questions(owner, question_set=questions, wanted=second, replace=False)
    assert (done.added, done.changed, done.removed) == (0, 1, 0)
    done = import_questions(owner, question_set=questions, wanted=second, replace=True)
    assert (done.added, done.changed, done.removed) == (0, 0, 1)
    assert living(questions) == ["A?", "B?"]
    done = import_questions(owner, question_set=questions, wanted=first, replace=True)
    assert (done.added, done.changed, done.removed) == (1, 1, 0)


def test_an_import_costs_the_same_for_ten_questions_and_for_a_thousand(
    library: Library, questions: QuestionSet, page: Document
) -> None:
    counts = []
    for size in (5, 10, 1_000):
        lines = [f"{size} number {number}?,Page" for number in range(size)]
        text = "question,expected\n" + "\n".join(lines)
        with CaptureQueriesContext(connection) as queries:
            import_questions(
                library.as_owner, question_set=questions, wanted=read(library, text), replace=True
            )
        counts.append(len(queries))
    assert counts[1] == counts[2]  # the first one had nothing to take out
