"""The clauses about words: passages that hold them, words that count as found, words like others.

A passage lies in the tail or in folded postings; each has the clauses once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.retrieval import test_relation_found as found
from tests.retrieval import test_relation_passages as passages
from tests.retrieval.clauses.kinds import Clause
from tests.retrieval.probes import SIMILAR, WORDS
from tests.retrieval.test_relation_passages import POSTINGS, TAIL

_INDEX = passages.test_rows_of_another_organisation_or_space_are_not_read
_OTHER = passages.test_one_grant_opens_no_other_passage
_RESTRICTED = passages.test_a_restricted_passage_does_not_follow_its_source
_ONCE = passages.test_a_passage_that_is_open_in_two_ways_comes_once
_WITHOUT = passages.test_excluded_words_hold_in_every_way
_COUNTED = passages.test_a_passage_that_is_open_in_two_ways_counts_once
_BURIED = passages.test_what_was_restricted_after_it_was_folded_is_gone
_OFFERED = passages.test_words_of_passages_that_are_not_open_are_not_offered
_OFFERED_RESTRICTED = (
    passages.test_words_of_a_restricted_document_are_not_offered_through_its_source
)
_OFFERED_FOREIGN = passages.test_words_of_another_organisations_rows_are_not_offered
_OFFERED_BURIED = passages.test_words_of_what_was_restricted_after_it_was_folded_are_not_offered
_FOUND = found.test_a_word_is_found_where_it_is_open_and_nowhere_else
TWICE = "NOT (d.inherits AND d.source_key IN (SELECT unnest(v_sources)))"
_DEAD = "v_dead = '{}' OR posted.chunk_key NOT IN (SELECT unnest(v_dead))"
_GRAVE = (
    "NOT EXISTS (SELECT 1 FROM retrieval_tombstone d "
    "WHERE d.organization_key = p_organization_key AND d.chunk_key = x.posting >> 11)"
)

_HELD = (
    "EXISTS ( SELECT 1 FROM retrieval_posting p, "
    "LATERAL unnest(p.postings, p.documents) AS x (posting, document_key) "
    "WHERE p.organization_key = p_organization_key AND p.term = t.term "
    "AND ((p.inherits AND p.source_key = ANY (v_sources)) OR (p.source_key = ANY (v_partial) "
    f"AND x.document_key IN (SELECT unnest(v_documents)))) AND {_GRAVE})"
)


_FOUND_WHERE = (
    "EXISTS ( SELECT 1 FROM retrieval_posting p, "
    "LATERAL unnest(p.postings, p.documents) AS x (posting, document_key) "
    "WHERE p.organization_key = p_organization_key AND p.term = t "
    "AND ((p.inherits AND p.source_key = ANY (v_sources)) "
    "OR (p.source_key = ANY (v_partial) AND x.document_key = ANY (v_documents))) "
    "AND (x.posting >> 11) <> ALL (v_dead))"
)


def _word_clause(
    where: str,
    name: str,
    text: str,
    test: Callable[..., Any],
    nth: int = 0,
    **given: str,
) -> Clause:
    return Clause(
        name=f"{where}: {name}", where=where, text=text, test=test, given=given, nth=(nth,)
    )


WORD_CLAUSES = [
    _word_clause(WORDS, name, text, test, nth, **given)
    for name, text, test, nth, given in (
        ("not twice", TWICE, _COUNTED, 0, {"way": POSTINGS}),
        ("not twice, where it follows its source", "d.inherits", _ONCE, 0, {"way": POSTINGS}),
        (
            "not twice, where its source is open",
            "d.source_key IN (SELECT unnest(v_sources))",
            _OTHER,
            0,
            {"way": POSTINGS, "branch": "document"},
        ),
        (
            "tail: organisation",
            "l.organization_key = p_organization_key",
            _INDEX,
            1,
            {"way": TAIL, "branch": "source", "column": "organization_key"},
        ),
        ("tail: that follow their source", "l.inherits", _RESTRICTED, 0, {"way": TAIL}),
        (
            "tail: of sources that are open",
            "l.source_key = ANY (v_sources)",
            _OTHER,
            0,
            {"way": TAIL, "branch": "source"},
        ),
        (
            "tail: of documents that are open",
            "l.document_key = ANY (v_documents)",
            _OTHER,
            0,
            {"way": TAIL, "branch": "source"},
        ),
        (
            "postings of whole sources: organisation",
            "p.organization_key = p_organization_key",
            _INDEX,
            4,
            {"way": POSTINGS, "branch": "source", "column": "organization_key"},
        ),
        (
            "postings of whole sources: that are open",
            "p.source_key = ANY (v_sources)",
            _OTHER,
            3,
            {"way": POSTINGS, "branch": "source"},
        ),
        (
            "postings of whole sources: that follow their source",
            "p.inherits",
            _RESTRICTED,
            3,
            {"way": POSTINGS},
        ),
        (
            "postings of single documents: organisation",
            "p.organization_key = p_organization_key",
            _INDEX,
            5,
            {"way": POSTINGS, "branch": "document", "column": "organization_key"},
        ),
        (
            "postings of single documents: that are open",
            "x.document_key IN (SELECT unnest(v_documents))",
            _OTHER,
            0,
            {"way": POSTINGS, "branch": "document"},
        ),
        ("postings: that are alive", _DEAD, _BURIED, 0, {}),
        (
            "found: organisation",
            "p.organization_key = p_organization_key",
            found.test_a_word_of_another_organisations_rows_is_not_found,
            3,
            {},
        ),
        ("found: where it stands", _FOUND_WHERE, _FOUND, 0, {"branch": "source"}),
        ("found: that very word", "p.term = t", _FOUND, 0, {"branch": "source"}),
        (
            "found: of sources that are open",
            "p.source_key = ANY (v_sources)",
            _FOUND,
            2,
            {"branch": "source"},
        ),
        (
            "found: that follow their source",
            "p.inherits",
            found.test_a_word_of_a_restricted_document_is_not_found_through_its_source,
            2,
            {},
        ),
        (
            "found: of documents that are open",
            "x.document_key = ANY (v_documents)",
            _FOUND,
            0,
            {"branch": "document"},
        ),
        (
            "found: that is alive",
            "(x.posting >> 11) <> ALL (v_dead)",
            found.test_a_word_of_what_was_restricted_after_it_was_folded_is_not_found,
            0,
            {},
        ),
        (
            "words that must or must not stand there",
            "p_must IS NULL OR retrieval_fits(p_organization_key, o.chunk_key, p_must)",
            _WITHOUT,
            0,
            {"way": POSTINGS, "branch": "source"},
        ),
    )
]

SIMILAR_CLAUSES = [
    _word_clause(SIMILAR, name, text, test, nth, **given)
    for name, text, test, nth, given in (
        (
            "single documents, those that follow an open source left out",
            "d.inherits",
            _OFFERED_RESTRICTED,
            0,
            {"way": TAIL},
        ),
        (
            "single documents, those in an open source left out",
            "d.source_key IN (SELECT unnest(v_sources))",
            _OFFERED,
            0,
            {"way": TAIL, "branch": "document"},
        ),
        (
            "tail: organisation",
            "l.organization_key = p_organization_key",
            _OFFERED_FOREIGN,
            0,
            {"way": TAIL},
        ),
        ("tail: that follow their source", "l.inherits", _OFFERED_RESTRICTED, 0, {"way": TAIL}),
        (
            "tail: of sources that are open",
            "l.source_key = ANY (v_sources)",
            _OFFERED,
            0,
            {"way": TAIL, "branch": "source"},
        ),
        (
            "tail: of documents that are open",
            "l.document_key = ANY (v_documents)",
            _OFFERED,
            0,
            {"way": TAIL, "branch": "document"},
        ),
        (
            "postings: that hold the term",
            _HELD,
            _OFFERED,
            0,
            {"way": POSTINGS, "branch": "source"},
        ),
        (
            "postings: organisation",
            "p.organization_key = p_organization_key",
            _OFFERED_FOREIGN,
            0,
            {"way": POSTINGS},
        ),
        (
            "postings: of that very term",
            "p.term = t.term",
            _OFFERED,
            0,
            {"way": POSTINGS, "branch": "source"},
        ),
        (
            "postings: that follow their source",
            "p.inherits",
            _OFFERED_RESTRICTED,
            0,
            {"way": POSTINGS},
        ),
        (
            "postings: of sources that are open",
            "p.source_key = ANY (v_sources)",
            _OFFERED,
            0,
            {"way": POSTINGS, "branch": "source"},
        ),
        (
            "postings: of documents that are open",
            "x.document_key IN (SELECT unnest(v_documents))",
            _OFFERED,
            0,
            {"way": POSTINGS, "branch": "document"},
        ),
        ("postings: that are alive", _GRAVE, _OFFERED_BURIED, 0, {}),
        (
            "postings: dead only where this very passage is",
            "d.chunk_key = x.posting >> 11",
            _OFFERED_BURIED,
            0,
            {},
        ),
    )
]
