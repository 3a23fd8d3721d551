"""The clauses about which passages are brought: by meaning, by words, and words like others.

In the lexical functions a passage lies in the tail or in folded postings; each has the clauses
once. What counts words, orders rows and limits them stands aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.retrieval import test_relation_passages as passages
from tests.retrieval.clauses.kinds import Aside, Clause
from tests.retrieval.clauses.words import SIMILAR_CLAUSES, TWICE, WORD_CLAUSES
from tests.retrieval.probes import EXACT, MEANING, NEAREST, PROBED, SIMILAR, WORDS

_FITS = "(p_must IS NULL OR retrieval_fits(p_organization_key, v.chunk_key, p_must))"


_INDEX = passages.test_rows_of_another_organisation_or_space_are_not_read
_OTHER = passages.test_one_grant_opens_no_other_passage
_RESTRICTED = passages.test_a_restricted_passage_does_not_follow_its_source
_ONCE = passages.test_a_passage_that_is_open_in_two_ways_comes_once
_WITHOUT = passages.test_excluded_words_hold_in_every_way
_ORGANIZATION = "v.organization_key = p_organization_key"
_SPACE = "v.space_key = p_space"


def _meaning_clause(
    plan: str, name: str, text: str, test: Callable[..., Any], nth: int = 0, **given: str
) -> Clause:
    return Clause(
        name=f"{plan}: {name}",
        where=MEANING,
        text=text,
        test=test,
        given={"way": plan, **given},
        nth=(nth,),
    )


# All plans take their documents from here, those in an open source left out.
SCOPE_CLAUSES = [
    _meaning_clause(EXACT, "not twice", TWICE, _ONCE),
    _meaning_clause(EXACT, "not twice, where it follows its source", "d.inherits", _ONCE),
    _meaning_clause(
        EXACT,
        "not twice, where its source is open",
        "d.source_key IN (SELECT unnest(v_sources))",
        _OTHER,
        branch="document",
    ),
]

# The rights stand in the look at the first that the graph brings, and where it walks on.
NEAREST_CLAUSES = [
    clause
    for nth, way in enumerate((PROBED, NEAREST))
    for clause in (
        _meaning_clause(
            way,
            "organisation",
            _ORGANIZATION,
            _INDEX,
            nth,
            branch="source",
            column="organization_key",
        ),
        _meaning_clause(way, "space", _SPACE, _INDEX, nth, branch="source", column="space_key"),
        _meaning_clause(
            way, "words that must or must not stand there", _FITS, _WITHOUT, nth, branch="source"
        ),
        _meaning_clause(way, "that follow their source", "v.inherits", _RESTRICTED, nth),
        _meaning_clause(
            way,
            "of sources that are open",
            "v.source_key IN (SELECT unnest(v_sources))",
            _OTHER,
            nth,
            branch="source",
        ),
        _meaning_clause(
            way,
            "of documents that are open",
            "v.document_key IN (SELECT unnest(v_documents))",
            _OTHER,
            nth,
            branch="document",
        ),
    )
] + [_meaning_clause(PROBED, "of these only", "f.may", _OTHER, branch="source")]

# The plan stands once for whole sources and once for single documents, after the other plan.
EXACT_CLAUSES = [
    *(
        _meaning_clause(EXACT, f"{name}, by {branch}", text, test, nth, branch=branch, **given)
        for name, text, test, given in (
            ("organisation", _ORGANIZATION, _INDEX, {"column": "organization_key"}),
            ("space", _SPACE, _INDEX, {"column": "space_key"}),
            ("words that must or must not stand there", _FITS, _WITHOUT, {}),
        )
        for nth, branch in enumerate(("source", "document"), start=2)
    ),
    _meaning_clause(
        EXACT, "of sources that are open", "v.source_key = s.key", _OTHER, branch="source"
    ),
    _meaning_clause(EXACT, "that follow their source", "v.inherits", _RESTRICTED, 2),
    _meaning_clause(
        EXACT, "of documents that are open", "v.document_key = d.key", _OTHER, branch="document"
    ),
]

CLAUSES = [*SCOPE_CLAUSES, *NEAREST_CLAUSES, *EXACT_CLAUSES, *WORD_CLAUSES, *SIMILAR_CLAUSES]
_RARITY = "how rare a word is in the organisation; its number alone, of no text"
_TERMS = "which words are looked for"
_TRACE = "how much would be read; decides about a cap, and is told in the trace"
_ORDER = "order and limits"
_BLOCKS = "which blocks to look into: each document in them is asked for"
_GRAVES = "keys of passages are never given twice: another organisation's graves hide nothing here"
_PLACE = "where a passage lies; both places are looked at, and it is in one of them"
_NOTHING = "nothing was asked for"
_PLAN = "which plan; all hold the relation"
ASIDE = [
    Aside(where=MEANING, text="p_space IS NULL", why=_NOTHING),
    Aside(where=MEANING, text="p_limit <= 0", why=_NOTHING),
    Aside(
        where=MEANING,
        text="to_regclass('retrieval_vector_' || p_organization_key || '_graph') IS NOT NULL",
        why=_PLAN,
    ),
    Aside(where=MEANING, text="v_rarity IS NOT NULL", why=_PLAN),
    Aside(where=MEANING, text="v_rarity < 5", why=_PLAN),
    Aside(where=MEANING, text="p_must IS NULL", why=_PLAN, nth=(4,)),
    Aside(
        where=MEANING,
        text="coalesce(cardinality(v_keys), 0) < least(p_limit, v_visible)",
        why=_PLAN,
    ),
    Aside(where=MEANING, text="v_near >= 40", why=_PLAN),
    Aside(where=MEANING, text="cardinality(v_keys) >= p_limit", why=_PLAN),
    Aside(where=MEANING, text="f.place <= v_beam / 2", why=_PLAN),
    Aside(where=MEANING, text="v_visible > 5 * p_exact", why=_PLAN),
    Aside(
        where=MEANING,
        text="c.oid = to_regclass('retrieval_vector_' || p_organization_key)",
        why=_PLAN,
    ),
    Aside(where=MEANING, text="v_plan = 'nearest'", why=_PLAN),
    *(
        Aside(where=WORDS, text=text, why=why, nth=nth)
        for text, why, nth in (
            ("coalesce(cardinality(p_terms), 0) = 0", _TERMS, None),
            (
                "l.lexemes @@ (SELECT string_agg(quote_literal(t), ' | ')::tsquery "
                "FROM unnest(p_terms) t)",
                _TERMS,
                None,
            ),
            ("u.lexeme = ANY (p_terms)", _TERMS, None),
            ("p.term = ANY (v_terms)", _TERMS, None),
            ("p.term = w.term", _TERMS, None),
            ("w.term = t.term", _TERMS, None),
            ("w.term = u.lexeme", _TERMS, None),
            ("t.organization_key = p_organization_key", _GRAVES, (0,)),
            ("t.organization_key = p_organization_key", _RARITY, (1,)),
            ("l.organization_key = p_organization_key", _RARITY, (0, 2)),
            ("l.organization_key = p_organization_key", _ORDER, (3,)),
            ("l.segment IS NULL", _PLACE, None),
            ("r.organization_key = p_organization_key", _RARITY, None),
            ("r.term = t.term", _RARITY, None),
            ("x.u = t.term", _RARITY, None),
            ("counted.passages > 0", _RARITY, None),
            ("1 PRECEDING", _RARITY, None),
            ("ranked.total < 20000", _RARITY, None),
            ("ranked.passages <= 0.02 * ranked.total", _RARITY, None),
            ("ranked.rarer < 2 AS keep", _RARITY, None),
            ("kept.keep", _RARITY, None),
            ("p.organization_key = p_organization_key", _TRACE, (0, 1, 2)),
            ("p.source_key = ANY (v_sources)", _TRACE, (0, 1)),
            ("p.inherits", _TRACE, (0, 1)),
            ("coalesce(cardinality(p_required), 0) = 0", _TRACE, None),
            ("b.running <= c_cap", _TRACE, None),
            ("p.source_key = ANY (v_partial)", _BLOCKS, None),
            ("p.top * w.weight >= v_floor", _ORDER, None),
            ("l.chunk_key = first.chunk_key", _ORDER, None),
            ("f.score IS NOT NULL", _ORDER, None),
        )
    ),
    *(
        Aside(where=SIMILAR, text=text, why=why)
        for text, why in (
            (TWICE, "saves looking for a document that its source shows already"),
            ("l.segment IS NULL", _PLACE),
            ("abs(length(u.lexeme) - length(p_word)) <= 3", _TERMS),
            ("t.organization_key = p_organization_key", _TERMS),
            ("t.passages > 0", _TERMS),
            ("t.term % p_word", _TERMS),
            ("p.source_key = ANY (v_partial)", _BLOCKS),
            ("d.organization_key = p_organization_key", _GRAVES),
            ("f.similarity >= 0.4", _ORDER),
            ("f.term <> p_word", _ORDER),
        )
    ),
]
