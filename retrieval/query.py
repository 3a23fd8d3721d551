"""What a person typed, taken apart: words, phrases in quotes, and words left out with a minus.

Nothing is an error here: an operator that makes no sense is a word like any other. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from kaizen.kernel.errors import Invalid
from kaizen.kernel.text import is_blank, make_storable
from retrieval.ingest.lexical import lexical_query_text
from retrieval.media import media_types_of

LONGEST_QUERY = 2_000
MOST_WORDS = 64
_MOST_PHRASES = 8
# “like this” and "like this", with or without a minus before it; then a word with a minus.
_PART = re.compile(
    r"(?<!\S)(?P<minus>-?)[\"“„](?P<phrase>[^\"“”„]+)[\"”“](?!\w)|(?<!\S)-(?P<word>\w[^\s\"]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query's parts.

    Attributes:
        text: as typed, fit to store.
        words: everything that should stand in a passage, in the form that is looked up.
        phrases: what must stand in it word for word.
        excluded: what must not.
        meaning: what is embedded: the text without marks and without what is excluded.
    """

    text: str
    words: tuple[str, ...]
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]
    meaning: str

    @property
    def phrase_words(self) -> list[str]:
        """The words of the phrases alone."""
        return [word for phrase in self.phrases for word in phrase.split()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """What a search is narrowed to; empty means everything.

    Attributes:
        source_ids: public ids; those that don't exist or aren't visible narrow to nothing.
        types: kinds of file by the names of `retrieval.media.KINDS`.
        tags: a document with any of them fits.
        after, before: of the document's own date, else of its last change; `before` is exclusive.
    """

    source_ids: tuple[UUID, ...] | None = None
    types: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    after: datetime | None = None
    before: datetime | None = None

    def of_documents(self) -> dict[str, Any] | None:
        """What `retrieval_matching_documents` takes, None when no document is left out."""
        wanted: dict[str, Any] = {}
        if self.types:
            wanted["types"] = media_types_of(self.types)
        if self.authors:
            wanted["authors"] = [make_storable(name).text for name in self.authors]
        if self.tags:
            wanted["tags"] = [make_storable(name).text for name in self.tags]
        if self.after is not None:
            wanted["after"] = self.after.isoformat()
        if self.before is not None:
            wanted["before"] = self.before.isoformat()
        return wanted or None


def parse_query(query: str) -> Query:
    """The parts of `query`. Raises Invalid when it is blank or longer than LONGEST_QUERY."""
    text = make_storable(query).text.strip()
    if is_blank(text):
        raise Invalid("Type something to search for.", code="blank_query")
    if len(text) > LONGEST_QUERY:
        raise Invalid(
            f"A query may have at most {LONGEST_QUERY:,} characters.", code="query_too_long"
        )
    phrases: list[str] = []
    excluded: list[str] = []
    kept: list[str] = []
    end = 0
    for match in _PART.finditer(text):
        kept.append(text[end : match.start()])
        end = match.end()
        part = (match["phrase"] or match["word"]).strip()
        if match["word"] or match["minus"]:
            excluded.append(part)
        else:
            phrases.append(part)
            kept.append(f" {part} ")
    kept.append(text[end:])
    meaning = " ".join("".join(kept).split())
    words = dict.fromkeys(lexical_query_text(meaning).split())
    return Query(
        text=text,
        words=tuple(words)[:MOST_WORDS],
        phrases=tuple(_looked_up(phrases)),
        excluded=tuple(_looked_up(excluded)),
        meaning=meaning or text,
    )


def _looked_up(parts: list[str]) -> list[str]:
    """In the form that passages are indexed in; without what that leaves nothing of."""
    forms = [lexical_query_text(part, joined=False).strip() for part in parts[:_MOST_PHRASES]]
    return [form for form in forms if form]
