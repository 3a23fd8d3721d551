"""What a reader sees of a conversation: answers with their citations resolved under the reader's
rights of now.

The page, the API, the export and the stream all read through here, so a revoked grant is gone from
all of them in the next reading, in old conversations too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils.translation import gettext as _

from accounts.middleware import ORGANIZATION_URLCONF
from conversations.citations import MARK, Citations
from conversations.models import JournalEvent
from kaizen.kernel.html import render_markdown
from retrieval.passages import Passage


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceView:
    """One numbered source of an answer."""

    number: int
    title: str
    source_name: str
    document_id: UUID
    chunk_id: UUID
    file_name: str
    heading: str
    page: int | None
    url: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """An answer as its reader may see it.

    Attributes:
        html: rendered and sanitised. text: Markdown with marks as [n], quotations written out.
        withheld: something it cites can't be seen (any more); what it took from there is covered.
    """

    html: str
    text: str
    sources: tuple[SourceView, ...]
    withheld: bool


def passage_url(passage: Passage, span: str = "") -> str:
    """The address of a passage in its document, inside the reader's organisation; a quotation's
    `span` is marked there.
    """
    # Named, since a websocket has no request whose address table would be used.
    address = reverse(
        "retrieval:document", urlconf=ORGANIZATION_URLCONF, args=[passage.document_id]
    )
    marked = f"&span={span}" if span else ""
    return f"{address}?passage={passage.chunk_id}{marked}"


class Numbering:
    """Gives each cited passage its number, in order of first mention; shared by all blocks of one
    answer.
    """

    def __init__(self, citations: Citations) -> None:
        self.citations = citations
        self._numbers: dict[UUID, int] = {}
        self._sources: list[SourceView] = []

    @property
    def sources(self) -> tuple[SourceView, ...]:
        """The sources numbered so far."""
        return tuple(self._sources)

    def number(self, passage: Passage) -> int:
        """The number of `passage`, a new one at its first mention."""
        if passage.chunk_id not in self._numbers:
            self._numbers[passage.chunk_id] = len(self._numbers) + 1
            self._sources.append(
                SourceView(
                    number=self._numbers[passage.chunk_id],
                    title=passage.title,
                    source_name=passage.source_name,
                    document_id=passage.document_id,
                    chunk_id=passage.chunk_id,
                    file_name=passage.file_name,
                    heading=" › ".join(passage.heading_path),
                    page=passage.page,
                    url=passage_url(passage),
                    text=passage.text,
                )
            )
        return self._numbers[passage.chunk_id]

    def html(self, mark: str) -> str:
        """A mark as HTML: a chip, a quotation with its chip, or what stands where nothing may be
        seen.
        """
        cite, _sep, span = mark.partition(":")
        passage = self.citations.passages.get(cite)
        if passage is None:
            if cite not in self.citations.hidden:
                return ""  # Made up by the model: it points at nothing that a tool ever showed.
            return f'<span class="cite-gone">{escape(_("source no longer available"))}</span>'
        number = self.number(passage)
        label = escape(
            _("Source %(number)s: %(title)s") % {"number": number, "title": passage.title}
        )
        chip = (
            f'<a class="cite" href="{escape(passage_url(passage, span))}" '
            f'data-cite="{passage.chunk_id}" data-number="{number}" '
            f'aria-label="{label}">{number}</a>'
        )
        if not span:
            return chip
        return f'<q class="quote">{escape(_quoted(passage, span))}</q>{chip}'

    def text(self, mark: str) -> str:
        """A mark as plain text: [n], with the quotation before it if it has one."""
        cite, _sep, span = mark.partition(":")
        passage = self.citations.passages.get(cite)
        if passage is None:
            return f"[{_('source no longer available')}]" if cite in self.citations.hidden else ""
        number = self.number(passage)
        return f"“{_quoted(passage, span)}” [{number}]" if span else f"[{number}]"


def _quoted(passage: Passage, span: str) -> str:
    start, _sep, end = span.partition("-")
    return passage.text[int(start) : int(end)]


def answer_view(citations: Citations, *, text: str, run_id: UUID | None) -> AnswerView:
    """An answer's text as its reader may see it now."""
    withheld = citations.cites_hidden(text)
    covered = citations.cover(text, run_id=run_id)
    numbering = Numbering(citations)
    html = render_markdown(covered, inline_marker=numbering.html)
    plain = MARK.sub(lambda match: numbering.text(match[0][2:-2]), covered)
    return AnswerView(
        html=html, text=plain, sources=numbering.sources, withheld=withheld or covered != text
    )


def message_html(text: str) -> str:
    """A member's own message as HTML."""
    return render_markdown(text, inline_marker=None)


def project_event(
    event: JournalEvent,
    *,
    covered: Callable[[UUID], str | None],
    cover: Callable[[UUID, str], str],
) -> dict[str, Any] | None:
    """A journal event as a member may see it, or None for what is the machinery's own.

    `covered(run)` gives the whole text of a run's answer with what must be covered, or None if
    nothing must; `cover(run, text)` covers other words of the run's model.
    """
    match event.kind:
        case "model_reply":
            return None
        case "text":
            data = dict(event.data)
            whole = covered(event.run_id) if event.run_id else None
            if whole is not None:
                data["text"] = whole[data["offset"] : data["offset"] + len(data["text"])]
        case "tool_intent":
            data = dict(event.data)
            if event.run_id:
                data["activity"] = cover(event.run_id, data["activity"])
        case "tool_result":
            data = {key: event.data[key] for key in ("call", "state", "label")}
        case _:
            data = dict(event.data)
    return {
        "seq": event.seq,
        "kind": event.kind,
        "at": event.at.isoformat(),
        "run": None if event.run_id is None else str(event.run_id),
        "data": data,
    }
