"""G20: texts in other scripts are found, by words alone nearly always."""

from __future__ import annotations

import pytest

from retrieval.ingest.contract import Block
from retrieval.ingest.language import guess_language
from retrieval.search import Mode, search
from tests.retrieval.conftest import Library
from tests.retrieval.script_pairs import PAIRS
from tests.retrieval.worlds import index_text

pytestmark = pytest.mark.django_db


@pytest.fixture
def shelf(library: Library) -> Library:
    """All texts in one source, each read in the language that its script tells or that it says."""
    for pair in PAIRS:
        declared = pair.name[:2] if pair.name[:2] in {"de", "fr", "es", "pt", "tr"} else ""
        language = guess_language([Block("paragraph", pair.text)], declared=declared)
        index_text(library.source, pair.text, title=pair.name, language=language)
    return library


def missed(shelf: Library, mode: Mode) -> list[str]:
    """Names of the pairs whose text isn't among the first five."""
    return [
        pair.name
        for pair in PAIRS
        if pair.name
        not in [
            hit.title for hit in search(shelf.as_owner, query=pair.query, limit=5, mode=mode).hits
        ]
    ]


def test_G20_every_text_is_found(shelf: Library) -> None:
    assert len(PAIRS) >= 60
    assert missed(shelf, Mode.HYBRID) == []


def test_G20_words_alone_find_nine_of_ten(shelf: Library) -> None:
    assert len(missed(shelf, Mode.LEXICAL)) <= len(PAIRS) // 10
