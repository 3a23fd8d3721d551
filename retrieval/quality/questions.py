"""Question sets: their questions, the documents each should find, and the members to ask as.

Promises: every change is an admin's, audited, and made with the set's row locked. A question's text
never changes: rewording takes the old question out and puts a new one in, so that what was scored
keeps its words. Not for: files (`retrieval.quality.question_files`), scoring
(`retrieval.quality.score_runs`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from django.db import models, transaction

from accounts.authority import Authority, Capability
from accounts.models import Membership
from audit.record import record
from kaizen.kernel.clock import now
from kaizen.kernel.errors import Conflict, Invalid, Missing
from retrieval.models import Document, Persona, Question, QuestionDocument, QuestionSet
from retrieval.query import parse_query

MOST_SEARCHES = 2_000
"""Questions times personas of one scoring; so no set needs more questions."""
MOST_DOCUMENTS = 50
"""Of one question, expected and forbidden ones each."""
MOST_PERSONAS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A question as it should stand in a set."""

    text: str
    expected: tuple[UUID, ...] = ()
    forbidden: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What an import did: questions that are new, have other documents, or were taken out."""

    added: int
    changed: int
    removed: int


@transaction.atomic
def save_question(
    authority: Authority,
    *,
    question_set: QuestionSet,
    text: str,
    expected: Collection[UUID] = (),
    forbidden: Collection[UUID] = (),
    question: Question | None = None,
) -> Question:
    """Put a question into a set, or change `question`, which is replaced if its words differ.

    Raises Denied, Missing for anything of another organisation, Invalid for a text that can't be
    searched or documents that contradict each other, Conflict when the set has it already.
    """
    held = hold_set(authority, question_set)
    wanted = Wanted(text=_clean(text), expected=tuple(expected), forbidden=tuple(forbidden))
    _check_documents(authority, [wanted])
    standing = Question.objects.filter(question_set=held, digest=text_digest(wanted.text)).first()
    if standing is not None and standing.removed_at is None:
        if question is None or standing.pk != question.pk:
            raise Conflict("The set has this question already.", code="question_exists")
    elif question is not None:
        _take_out(Question.objects.filter(question_set=held, pk=question.pk))
    if standing is None:
        _check_room(held, more=1)
    saved = _put(held, [(standing, wanted)])[0]
    _record(authority, held, {"question": str(saved.pk)})
    return saved


@transaction.atomic
def remove_question(authority: Authority, *, question: Question) -> None:
    """Take a question out of its set; what was scored with it stays. Raises Denied and Missing."""
    held = hold_set(authority, question.question_set)
    _take_out(Question.objects.filter(question_set=held, pk=question.pk))
    _record(authority, held, {"removed": str(question.pk)})


@transaction.atomic
def set_personas(
    authority: Authority, *, question_set: QuestionSet, membership_ids: Collection[UUID]
) -> None:
    """Ask the set's questions as exactly these members from now on.

    Raises Denied, Missing for anything of another organisation, Invalid for too many.
    """
    held = hold_set(authority, question_set)
    wanted = set(membership_ids)
    if len(wanted) > MOST_PERSONAS:
        raise Invalid(f"A set may be asked as {MOST_PERSONAS} people at most.")
    members = Membership.objects.filter(organization_id=authority.organization_id, pk__in=wanted)
    if members.count() != len(wanted):
        raise Missing
    standing = set(
        Persona.objects.filter(question_set=held).values_list("membership_id", flat=True)
    )
    if wanted == standing:
        return
    Persona.objects.filter(question_set=held, membership_id__in=standing - wanted).delete()
    Persona.objects.bulk_create(
        Persona(organization_id=authority.organization_id, question_set=held, membership_id=member)
        for member in sorted(wanted - standing)
    )
    _record(authority, held, {"personas": sorted(str(member) for member in wanted)})


@transaction.atomic
def import_questions(
    authority: Authority, *, question_set: QuestionSet, wanted: Sequence[Wanted], replace: bool
) -> Imported:
    """Add these questions, and give those that stand there already these documents.

    With `replace`, questions that aren't among them are taken out. All or nothing. Raises as
    `save_question` does, but a question that stands there is no Conflict.
    """
    held = hold_set(authority, question_set)
    clean = [
        Wanted(text=_clean(one.text), expected=one.expected, forbidden=one.forbidden)
        for one in wanted
    ]
    _check_documents(authority, clean)
    standing = {
        question.digest: question for question in Question.objects.filter(question_set=held)
    }
    by_digest = {text_digest(one.text): one for one in clean}
    removed = 0
    if replace:
        living = Question.objects.filter(question_set=held, removed_at=None)
        removed = _take_out(living.exclude(digest__in=by_digest))
    new = [digest for digest in by_digest if _is_out(standing.get(digest))]
    _check_room(held, more=len(new))
    documents = _documents_of(standing.values())
    differing = [
        (question, one)
        for digest, one in by_digest.items()
        if (question := standing.get(digest)) is not None
        and question.removed_at is None
        and documents.get(question.pk, set()) != _pairs(one)
    ]
    _put(held, [*differing, *((standing.get(digest), by_digest[digest]) for digest in new)])
    imported = Imported(added=len(new), changed=len(differing), removed=removed)
    _record(authority, held, {"imported": asdict(imported)})
    return imported


def text_digest(text: str) -> str:
    """How a question is told apart from others in its set."""
    return hashlib.sha256(text.encode()).hexdigest()


def get_set(authority: Authority, question_set_id: UUID) -> QuestionSet:
    """A question set of the caller's organisation. Raises Denied and Missing."""
    authority.check(Capability.CONFIGURE)
    found: QuestionSet | None = (
        QuestionSet.objects.for_authority(authority).filter(pk=question_set_id).first()
    )
    if found is None:
        raise Missing
    return found


def hold_set(authority: Authority, question_set: QuestionSet) -> QuestionSet:
    """The set's row, locked until the transaction ends. Raises Denied and Missing."""
    authority.check(Capability.CONFIGURE)
    held: QuestionSet | None = (
        QuestionSet.objects.for_authority(authority)
        .select_for_update(no_key=True)
        .filter(pk=question_set.pk)
        .first()
    )
    if held is None:
        raise Missing
    return held


def _clean(text: str) -> str:
    return parse_query(text).text


def _check_documents(authority: Authority, wanted: Sequence[Wanted]) -> None:
    """Raises unless all documents are the organisation's own and none is both kinds at once."""
    named: set[UUID] = set()
    for one in wanted:
        if set(one.expected) & set(one.forbidden):
            raise Invalid("A document can't be both expected and forbidden.")
        if max(len(one.expected), len(one.forbidden)) > MOST_DOCUMENTS:
            raise Invalid(f"A question may name {MOST_DOCUMENTS} documents of a kind at most.")
        named.update(one.expected, one.forbidden)
    known = Document.objects.filter(organization_id=authority.organization_id, pk__in=named)
    if known.count() != len(named):
        raise Missing


def _check_room(held: QuestionSet, *, more: int) -> None:
    living = Question.objects.filter(question_set=held, removed_at=None).count()
    if living + more > MOST_SEARCHES:
        raise Invalid(f"A set may have {MOST_SEARCHES:,} questions at most.")


def _put(held: QuestionSet, wanted: Sequence[tuple[Question | None, Wanted]]) -> list[Question]:
    """The questions with exactly these documents, new or back in the set. Five statements."""
    at = {"organization_id": held.organization_id}
    questions = [
        question or Question(**at, question_set=held, text=one.text, digest=text_digest(one.text))
        for question, one in wanted
    ]
    Question.objects.bulk_create([one for one in questions if one._state.adding])
    ids = [question.pk for question in questions]
    Question.objects.filter(pk__in=ids).update(removed_at=None)
    QuestionDocument.objects.filter(question__in=ids).delete()
    QuestionDocument.objects.bulk_create(
        QuestionDocument(**at, question=question, document_id=document_id, kind=kind)
        for question, (_, one) in zip(questions, wanted, strict=True)
        for kind, document_id in sorted(_pairs(one))
    )
    return questions


def _pairs(wanted: Wanted) -> set[tuple[str, UUID]]:
    kinds = QuestionDocument.Kind
    return {(kinds.EXPECTED.value, one) for one in wanted.expected} | {
        (kinds.FORBIDDEN.value, one) for one in wanted.forbidden
    }


def _documents_of(questions: Collection[Question]) -> dict[UUID, set[tuple[str, UUID]]]:
    found: dict[UUID, set[tuple[str, UUID]]] = {}
    rows = QuestionDocument.objects.filter(question__in=questions)
    for question_id, kind, document_id in rows.values_list("question_id", "kind", "document_id"):
        found.setdefault(question_id, set()).add((kind, document_id))
    return found


def _is_out(question: Question | None) -> bool:
    return question is None or question.removed_at is not None


def _take_out(questions: models.QuerySet[Question]) -> int:
    return questions.filter(removed_at=None).update(removed_at=now())


def _record(authority: Authority, held: QuestionSet, data: dict[str, object]) -> None:
    record(authority, "retrieval.questions_changed", subject=held, data=data)
