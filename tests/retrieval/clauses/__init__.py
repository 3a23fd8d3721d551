"""Every clause of the relation by name: where it stands, what it reads when taken out, and the test
that then fails.

`ASIDE` lists the other conditions of these functions, each with why it decides nothing.
"""

from __future__ import annotations

from tests.retrieval.clauses import passages
from tests.retrieval.clauses.kinds import DOCUMENTS, OWN, PRINCIPALS, SOURCES, TEAM, Aside, Clause
from tests.retrieval.clauses.people import OBJECT_CLAUSES, PRINCIPAL_CLAUSES, QUERYSET_CLAUSES
from tests.retrieval.clauses.rights import DOCUMENT_CLAUSES, MATCHING_CLAUSES, SOURCE_CLAUSES
from tests.retrieval.probes import MATCHING, MEANING, SIMILAR, WORDS

__all__ = ["ASIDE", "CLAUSES", "FUNCTIONS", "TEXTS", "Aside", "Clause"]

FUNCTIONS = (PRINCIPALS, SOURCES, DOCUMENTS, MATCHING, MEANING, WORDS, SIMILAR)
TEXTS = (OWN, TEAM)
CLAUSES = [
    *PRINCIPAL_CLAUSES,
    *SOURCE_CLAUSES,
    *DOCUMENT_CLAUSES,
    *OBJECT_CLAUSES,
    *MATCHING_CLAUSES,
    *passages.CLAUSES,
    *QUERYSET_CLAUSES,
]
ASIDE = passages.ASIDE
