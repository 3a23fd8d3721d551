"""Text arrives twice, live and from the journal, with losses: what is shown is the journal's."""

from __future__ import annotations

import itertools
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from conversations.stream import BlockProgress, TextProgress
from kaizen.kernel.html import render_markdown

CHARACTERS = st.text(alphabet="ab é🌍\n*-#`|1.[]p", max_size=60)
Piece = tuple[int, str]


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[str, list[tuple[str, Piece]]]:
    """A text; and live frames and journal pieces of it in some interleaving.

    Journal pieces come whole and in order, live frames may be lost or come twice; neither kind
    overtakes itself.
    """
    text = draw(CHARACTERS)

    def cut() -> list[Piece]:
        at = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=6))})
        return [(start, text[start:end]) for start, end in itertools.pairwise(at)]

    journal = [("journal", piece) for piece in cut()]
    live = [("live", piece) for piece in cut() for _ in range(draw(st.integers(0, 2)))]
    order = draw(st.permutations([0] * len(journal) + [1] * len(live)))
    queues = [iter(journal), iter(live)]
    return text, [next(queues[which]) for which in order]


@given(deliveries())
@settings(max_examples=400, deadline=None)
def test_text_has_neither_gap_nor_double_and_ends_as_the_journal(
    delivered: tuple[str, list[tuple[str, Piece]]],
) -> None:
    text, frames = delivered
    progress, shown = TextProgress("m"), ""
    for kind, (offset, piece) in frames:
        new = progress.take(offset=offset, text=piece)
        # Only a live frame may come too early; the watcher then reads the journal instead.
        assert new is not None or (kind == "live" and offset > len(shown))
        shown += new or ""
        assert text.startswith(shown)
        assert progress.sent == len(shown)
    assert shown == text


@given(deliveries(), st.data())
@settings(max_examples=200, deadline=None)
def test_blocks_end_as_the_whole_text_rendered_at_once(
    delivered: tuple[str, list[tuple[str, Piece]]], data: st.DataObject
) -> None:
    text, frames = delivered
    progress = BlockProgress("m")
    shown: dict[int, str] = {}

    def render() -> None:
        for frame in progress.frames(str):
            shown[frame["block"]] = frame["html"]

    for kind, (offset, piece) in frames:
        assert progress.take(offset=offset, text=piece) or kind == "live"
        if data.draw(st.booleans()):
            render()
    render()
    assert progress.text == text
    assert progress.dirty is False
    blocks = max(shown, default=-1) + 1
    whole = re.sub(r"\s+", "", render_markdown(text, inline_marker=str))
    if not text.endswith(("[", "]", "p")) and blocks == len(shown):
        assert re.sub(r"\s+", "", "".join(shown[n] for n in range(blocks))) == whole


def frames(progress: BlockProgress) -> list[tuple[int, str, int, bool]]:
    def as_row(frame: dict[str, Any]) -> tuple[int, str, int, bool]:
        assert (frame["type"], frame["message"]) == ("block", "m")
        return frame["block"], frame["html"], frame["offset"], frame["open"]

    return [as_row(frame) for frame in progress.frames(str)]


def test_a_closed_block_is_rendered_once() -> None:
    progress = BlockProgress("m")
    progress.take(offset=0, text="One\n\nTwo")
    assert frames(progress) == [
        (0, "<p>One</p>\n", 5, True),
        (1, "<p>Two</p>\n", 8, True),
    ]
    progress.take(offset=8, text=" more\n\nThree\n")
    assert frames(progress)[0] == (0, "<p>One</p>\n", 5, False)
    assert [row[0] for row in frames(progress)] == [1, 2] or frames(progress)[0][0] >= 1


def test_a_mark_that_is_still_being_written_is_not_shown() -> None:
    progress = BlockProgress("m")
    progress.take(offset=0, text="So [[pabc")
    assert frames(progress) == [(0, "<p>So</p>\n", 9, True)]
    progress.take(offset=9, text="defgh]] it is")
    assert frames(progress) == [(0, "<p>So pabcdefgh it is</p>\n", 22, True)]


def test_nothing_new_leaves_nothing_to_render() -> None:
    progress = BlockProgress("m")
    assert progress.take(offset=0, text="One") is True
    assert progress.dirty is True
    frames(progress)
    assert progress.take(offset=0, text="One") is True
    assert progress.dirty is False
    assert progress.take(offset=4, text="x") is False
    assert (progress.dirty, progress.text) == (False, "One")
