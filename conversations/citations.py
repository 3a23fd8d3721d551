"""Citations: from opaque marks in an answer to passages its reader may open at this moment.

A mark names what a tool showed in this conversation. It is resolved through the relation at every
reading; what can't be seen any more is dropped, and words taken from it are covered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from accounts.authority import Authority
from agents.models import ToolCall
from conversations.models import Conversation, Run
from retrieval.passages import Passage, read_passages
from retrieval.withholding import read_texts_for_withholding

MARK = re.compile(r"\[\[(p[a-z0-9]{8})(?::([0-9]{1,7})-([0-9]{1,7}))?\]\]")
COVER = "▒"
_WORD = re.compile(r"\w+")
_PARAGRAPH = re.compile(r"\S.*?(?=\n[ \t]*\n|\Z)", re.DOTALL)
WINDOW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Citations:
    """What a conversation's marks stand for, for one reader, now.

    Attributes:
        passages: cite -> passage, for those the reader may see.
        hidden: cites that tools showed in this conversation and the reader may not see now.
        hidden_texts: run id -> texts of hidden passages that its agent had read; only ever used to
        cover.
        purged: those of `hidden` whose text is gone for good, so that nothing can be compared.
    """

    passages: Mapping[str, Passage]
    hidden: frozenset[str]
    hidden_texts: Mapping[UUID, tuple[str, ...]] = field(default_factory=dict)
    purged: frozenset[str] = frozenset()

    def cites_hidden(self, text: str) -> bool:
        """Whether `text` cites something its reader may not see (any more)."""
        return any(match[1] in self.hidden for match in MARK.finditer(text))

    def cover(self, text: str, *, run_id: UUID | None, is_open: bool = False) -> str:
        """`text` with what it took word for word from hidden passages covered; its length is
        unchanged.

        A paragraph that cites a purged passage is covered whole. With `is_open` more text follows,
        so words at the end that may be the beginning of something taken are covered too.
        """
        covered = text
        for source in self.hidden_texts.get(run_id, ()) if run_id else ():
            covered = cover_taken(covered, source, is_open=is_open)
        return self._cover_purged(covered) if self.purged else covered

    def _cover_purged(self, text: str) -> str:
        spans: list[tuple[int, int]] = []
        for paragraph in _PARAGRAPH.finditer(text):
            marks = list(MARK.finditer(text, paragraph.start(), paragraph.end()))
            if not any(mark[1] in self.purged for mark in marks):
                continue
            edges = [paragraph.start()]
            for mark in marks:  # The marks themselves stay: they say what is no longer there.
                edges += [mark.start(), mark.end()]
            edges.append(paragraph.end())
            spans.extend(zip(edges[::2], edges[1::2], strict=True))
        return cover_spans(text, spans)


def resolve(authority: Authority, conversation: Conversation) -> Citations:
    """The citations of a conversation as the caller may see them in this statement."""
    chunk_of: dict[str, UUID] = {}
    shown: dict[UUID, set[UUID]] = {}
    earlier: set[UUID] = set()
    for run_id, records in _records_by_run(conversation).items():
        for record in records:
            for passage in record.get("passages", ()):
                chunk = UUID(passage["chunk"])
                chunk_of[passage["cite"]] = chunk
                earlier.add(chunk)
        # A later run reads earlier answers too, even if it calls no tool itself, so it may have
        # taken words from what those had read.
        shown[run_id] = set(earlier)
    found = read_passages(authority, set(chunk_of.values()))
    hidden_chunks = set(chunk_of.values()) - set(found)
    texts = (
        read_texts_for_withholding(authority.organization_id, hidden_chunks)
        if hidden_chunks
        else {}
    )
    return Citations(
        passages={cite: found[chunk] for cite, chunk in chunk_of.items() if chunk in found},
        hidden=frozenset(cite for cite, chunk in chunk_of.items() if chunk not in found),
        hidden_texts={
            run_id: tuple(texts[chunk] for chunk in chunks if chunk in texts)
            for run_id, chunks in shown.items()
        },
        purged=frozenset(
            cite for cite, chunk in chunk_of.items() if chunk in hidden_chunks - set(texts)
        ),
    )


def _records_by_run(conversation: Conversation) -> dict[UUID, list[dict[str, Any]]]:
    """What the tools of each run of a conversation showed, oldest run first."""
    runs = Run.objects.filter(conversation=conversation).order_by("created_at", "id")
    records: dict[UUID, list[dict[str, Any]]] = {
        run_id: [] for run_id in runs.values_list("id", flat=True)
    }
    calls = ToolCall.objects.filter(
        organization_id=conversation.organization_id, run_id__in=records, record__isnull=False
    )
    for run_id, record in calls.order_by("started_at", "id").values_list("run_id", "record"):
        records[run_id].append(record)
    return records


def cover_taken(text: str, source: str, *, is_open: bool = False) -> str:
    """Cover what `text` took from `source`: WINDOW words running, and single figures and
    identifiers; with `is_open` also fewer words at the end, since more may follow.

    Letter case, spacing, punctuation and citation marks in between don't matter. Each covered
    character becomes COVER, so offsets stay; marks stay as they are.
    """
    kept = {i for mark in MARK.finditer(text) for i in range(*mark.span())}
    words = [
        (match[0].casefold(), match.start(), match.end())
        for match in _WORD.finditer(text)
        if match.start() not in kept
    ]
    taken_from = [match[0].casefold() for match in _WORD.finditer(source)]
    size = min(WINDOW, len(taken_from))
    if size == 0:
        return text
    figures = {word for word in taken_from if len(word) >= 3 and any(c.isdigit() for c in word)}
    spans = [(start, end) for word, start, end in words if word in figures]
    known = {tuple(taken_from[i : i + size]) for i in range(len(taken_from) - size + 1)}
    for i in range(len(words) - size + 1):
        if tuple(word for word, _, _ in words[i : i + size]) in known:
            spans.append((words[i][1], words[i + size - 1][2]))
    if is_open:
        spans.extend(_begun(words, taken_from, size=size))
    return cover_spans(text, spans, kept=kept)


def _begun(
    words: list[tuple[str, int, int]], taken_from: list[str], *, size: int
) -> Iterator[tuple[int, int]]:
    """The end of `words` as far as it stands in `taken_from`, its last word perhaps cut off."""
    for length in range(min(size - 1, len(words)), 0, -1):
        *whole, last = [word for word, _, _ in words[-length:]]
        for i in range(len(taken_from) - length + 1):
            if taken_from[i : i + length - 1] == whole and taken_from[i + length - 1].startswith(
                last
            ):
                yield words[-length][1], words[-1][2]
                return


def cover_spans(
    text: str, spans: Iterable[tuple[int, int]], *, kept: Collection[int] = frozenset()
) -> str:
    """`text` with the non-blank characters of each span covered, but for those at `kept`."""
    characters = list(text)
    for start, end in spans:
        for i in range(start, end):
            if not characters[i].isspace() and i not in kept:
                characters[i] = COVER
    return "".join(characters)
