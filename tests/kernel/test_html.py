"""The one sanitiser: hostile Markdown, citation markers, streamed blocks, marked plain text."""

from __future__ import annotations

import json
import os
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaizen.kernel.html import (
    Block,
    plain_text_to_html,
    render_markdown,
    split_blocks,
    without_open_marker,
)

SHARED = Path(
    os.environ.get("KAIZEN_SHARED", Path(__file__).resolve().parents[2].parent / "shared")
)
ALLOWED = {
    "p", "br", "hr", "strong", "em", "s", "a", "h3", "h4", "h5", "h6", "ul", "ol", "li",
    "blockquote", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {"href", "class", "target", "rel", "start", "tabindex"}
EXTERNAL = 'class="external" target="_blank" rel="noopener noreferrer nofollow"'


class _Reader(HTMLParser):
    """Collects what a browser would see as elements and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def render(text: str) -> str:
    return render_markdown(text, inline_marker=lambda marker: f"<cite>{marker}</cite>")


def check_closed_list(html: str) -> None:
    reader = _Reader()
    reader.feed(html)
    for tag, attributes in reader.elements:
        assert tag in ALLOWED
        assert set(attributes) <= ALLOWED_ATTRIBUTES
        if tag == "a":
            assert re.match(r"(https?://|mailto:)", attributes["href"] or "", re.IGNORECASE)
            assert attributes["rel"] == "noopener noreferrer nofollow"


K71_EXPECTED = [
    "<p>a</p>\n",
    "<p>click</p>\n",
    "<p>&lt;script&gt;window.RAN=1&lt;/script&gt;</p>\n",
    '<p>&lt;img src=x onerror="window.RAN=1"&gt;</p>\n',
    f'<p><a href="https://ok.example/a?b=1&amp;c=2" {EXTERNAL}>x</a></p>\n',
    '<pre tabindex="0"><code class="language-html">'
    "&lt;b&gt;shown as code&lt;/b&gt;\n</code></pre>\n",
]


@pytest.mark.parametrize("number", range(len(K71_EXPECTED)))
def test_k71_hostile_markdown_is_shown_and_never_runs_or_loads(number: int) -> None:
    path = SHARED / "cases" / "markdown-hostile.json"
    if not path.exists():
        pytest.skip(f"the shared cases are not at {SHARED}")
    items = json.loads(path.read_text(encoding="utf-8"))
    assert len(items) == len(K71_EXPECTED)
    html = render(items[number])
    assert html == K71_EXPECTED[number]
    check_closed_list(html)


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "javascript&colon;alert(1)",
        "&#106;avascript:alert(1)",
        "vbscript:x",
        "data:text/html,x",
        "data:image/png;base64,AAAA",
        "file:///etc/passwd",
        "//evil.test/x",
        "/admin/logout",
        "page.html",
        "#top",
        "https:",
        "ftp://evil.test/x",
    ],
)
def test_links_to_anything_but_http_https_and_mailto_become_their_label(url: str) -> None:
    assert render(f"[label]({url})") == "<p>label</p>\n"


def test_autolinks_and_reference_links_pass_the_same_check() -> None:
    assert render("<javascript:alert(1)>") == "<p>javascript:alert(1)</p>\n"
    assert render("[x][y]\n\n[y]: javascript:alert(1)") == "<p>x</p>\n"
    assert render("<mailto:a@b.example>") == (
        f'<p><a href="mailto:a@b.example" {EXTERNAL}>mailto:a@b.example</a></p>\n'
    )


def test_bare_addresses_are_not_made_into_links() -> None:
    assert render("see https://ok.example") == "<p>see https://ok.example</p>\n"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("![alt *text*](https://evil.test/p.png)", "<p>alt text</p>\n"),
        ("![](https://evil.test/p.png)", "<p></p>\n"),
        ("![a ![b](https://evil.test/1) c](https://evil.test/2)", "<p>a b c</p>\n"),
        (
            "[![badge](https://evil.test/p.png)](https://ok.example)",
            f'<p><a href="https://ok.example" {EXTERNAL}>badge</a></p>\n',
        ),
        ("![x][y]\n\n[y]: https://evil.test/p.png", "<p>x</p>\n"),
    ],
)
def test_images_become_their_alternative_text(text: str, html: str) -> None:
    assert render(text) == html


def test_headings_start_at_the_third_level() -> None:
    text = "# a\n\n## b\n\n### c\n\n#### d\n\n###### e\n"
    assert render(text) == "<h3>a</h3>\n<h4>b</h4>\n<h5>c</h5>\n<h6>d</h6>\n<h6>e</h6>\n"


def test_tables_scroll_and_keep_their_alignment_without_style() -> None:
    assert render("|a|b|\n|:-|-:|\n|1|2|\n") == (
        '<div class="table-scroll" tabindex="0"><table>\n<thead>\n<tr>\n'
        '<th class="align-left">a</th>\n<th class="align-right">b</th>\n</tr>\n</thead>\n<tbody>\n'
        '<tr>\n<td class="align-left">1</td>\n<td class="align-right">2</td>\n</tr>\n</tbody>\n'
        "</table></div>\n"
    )


@pytest.mark.parametrize(
    ("info", "attribute"),
    [
        ("python", ' class="language-python"'),
        ("C++ title=x", ' class="language-c++"'),
        ("c#", ' class="language-c#"'),
        ("", ""),
        ('x" onmouseover="alert(1)', ""),
        ("a" * 21, ""),
        ("naïve", ""),
    ],
)
def test_a_code_block_names_its_language_only_in_the_closed_alphabet(
    info: str, attribute: str
) -> None:
    assert render(f"```{info}\n<b>\n```") == (
        f'<pre tabindex="0"><code{attribute}>&lt;b&gt;\n</code></pre>\n'
    )


def test_an_unclosed_fence_is_code_to_the_end() -> None:
    assert render("```\n<script>\n[[p12345678]]") == (
        '<pre tabindex="0"><code>&lt;script&gt;\n[[p12345678]]</code></pre>\n'
    )


def test_titles_and_attributes_of_links_do_not_survive() -> None:
    html = render('[x](https://ok.example "onclick=alert(1)")')
    assert html == f'<p><a href="https://ok.example" {EXTERNAL}>x</a></p>\n'


def test_nul_and_lone_surrogates_become_replacement_characters() -> None:
    assert render("a\x00b\ud800c") == "<p>a\ufffdb\ufffdc</p>\n"


# Citation markers


def test_markers_are_replaced_in_every_place_but_code() -> None:
    text = (
        "# h [[paaaaaaaa]]\n\n- *i* [[pbbbbbbbb:12-180]]\n\n|t|\n|-|\n|[[pcccccccc]]|\n\n"
        "`[[pdddddddd]]`\n\n    [[peeeeeeee]]\n\n```\n[[pffffffff]]\n```\n"
    )
    html = render(text)
    assert re.findall("<cite>(.*?)</cite>", html) == ["paaaaaaaa", "pbbbbbbbb:12-180", "pcccccccc"]
    assert "<code>[[pdddddddd]]</code>" in html
    assert "[[peeeeeeee]]\n</code>" in html
    assert "[[pffffffff]]\n</code>" in html


@pytest.mark.parametrize(
    "text",
    [
        "[[p1234567]]",
        "[[p123456789]]",
        "[[P12345678]]",
        "[[q12345678]]",
        "[[p1234567A]]",
        "[[p12345678:1]]",
        "[[p12345678:a-b]]",
        "[[p12345678:1-12345678]]",
        "[[p12345678]",
        "[[p12345678: 1-2]]",
    ],
)
def test_what_only_resembles_a_marker_stays_text(text: str) -> None:
    assert render(text) == f"<p>{text}</p>\n"


def test_an_escaped_marker_stays_text() -> None:
    assert render("\\[[p12345678]]") == "<p>[[p12345678]]</p>\n"


def test_without_a_callback_markers_stay_as_written() -> None:
    assert render_markdown("a [[p12345678]]", inline_marker=None) == "<p>a [[p12345678]]</p>\n"


def test_nested_markers_yield_the_inner_one_once() -> None:
    assert render("[[[[p12345678]]]]") == "<p>[[<cite>p12345678</cite>]]</p>\n"


def test_a_marker_wins_over_a_link_and_a_reference_of_the_same_text() -> None:
    text = "[[p12345678]](https://x.example)\n\n[p12345678]: https://evil.test"
    assert render(text) == "<p><cite>p12345678</cite>(https://x.example)</p>\n"


def test_a_marker_never_stands_inside_a_link() -> None:
    html = render("[![b [[p12345678]]](https://e.example/x.png)](https://ok.example)")
    assert html == (
        f'<p><a href="https://ok.example" {EXTERNAL}>b </a><cite>p12345678</cite></p>\n'
    )


def test_a_text_cannot_forge_a_placeholder() -> None:
    seen: list[str] = []

    def note(marker: str) -> str:
        seen.append(marker)
        return "<cite></cite>"

    forged = "k" + "0" * 32 + "n0e"
    first = render_markdown(f"{forged} [[p12345678]]", inline_marker=note)
    assert first == f"<p>{forged} <cite></cite></p>\n"
    assert seen == ["p12345678"]


def test_what_the_callback_returns_is_not_read_again() -> None:
    html = render_markdown("[[p12345678]]", inline_marker=lambda marker: r"\1 [[p12345678]]")
    assert html == "<p>\\1 [[p12345678]]</p>\n"


@pytest.mark.parametrize(
    "tail",
    ["[", "[[", "[[p", "[[p1234", "[[p12345678", "[[p12345678:", "[[p12345678:1-2", "[[p12345678]"],
)
def test_a_marker_still_being_written_is_cut_off(tail: str) -> None:
    assert without_open_marker(f"a [[p00000000]] {tail}") == "a [[p00000000]] "


def test_a_whole_marker_at_the_end_stays() -> None:
    assert without_open_marker("a [[p12345678]]") == "a [[p12345678]]"


# Size and depth

LARGE = {
    "words": "word " * 20_000,
    "one line of a million": "x" * 1_000_000,
    "nested emphasis": "*a " * 16_000 + "a*" * 16_000,
    "open brackets": "[" * 100_000,
    "open images": "![" * 50_000,
    "nested images": "![" * 15_000 + "a" + "](x)" * 15_000,
    "nested links": "[a" * 30_000 + "](https://x)" * 300,
    "quotes": ">" * 100_000,
    "nested lists": "\n".join(" " * i * 2 + "- a" for i in range(300)),
    "backticks": "".join("`" * i + " " for i in range(440)),
    "strike": "~~a" * 30_000,
    "ampersands": "&" * 100_000,
    "table": "|a|b|\n|-|-|\n" + "|1|2|\n" * 15_000,
    "paragraphs": "para **b**\n\n" * 9_000,
    "markers": "[[p12345678]] " * 7_000,
}


@pytest.mark.parametrize("name", LARGE)
def test_large_and_deep_input_is_rendered_in_seconds(name: str) -> None:
    started = time.monotonic()
    html = render(LARGE[name])
    split_blocks(LARGE[name])
    # A hang guard: each takes below 2 s alone on a slow machine.
    assert time.monotonic() - started < 20
    assert html


# Blocks

PIECES = st.lists(
    st.sampled_from(
        [
            "a", "b c", " ", "  ", "    ", "\n", "\n", "\n\n", "- ", "* ", "+ ", "1. ", "2. ",
            "3) ", "> ", "# ", "## ", "```", "```py", "~~~", "***", "---", "===", "|", "|a|b|",
            "|-|-|", "`", "*", "**", "_", "~~", "[[p12345678]]", "<b>", "\\", "\t", "&amp;", "é",
            "😀", "\r\n",
        ]
    ),
    max_size=24,
).map("".join)  # fmt: skip


def test_blocks_have_offsets_in_code_points() -> None:
    text = "😀 a\n\n- x\n- y\n\n```\nc\n\nd\n```\ntail"
    assert split_blocks(text) == [
        Block(0, 5, True),
        Block(5, 14, True),
        Block(14, 27, False),
        Block(27, 31, False),
    ]


def test_the_last_block_and_one_before_a_half_written_line_are_open() -> None:
    assert split_blocks("1. a\n\n2") == [Block(0, 6, False), Block(6, 7, False)]
    assert split_blocks("1. a\n\n2. b") == [Block(0, 10, False)]
    assert split_blocks("a\n\nb\n") == [Block(0, 3, True), Block(3, 5, False)]


def test_an_empty_text_has_no_block_and_blank_text_one() -> None:
    assert split_blocks("") == []
    assert split_blocks("\n \n") == [Block(0, 3, False)]


@settings(max_examples=400, deadline=None)
@given(PIECES)
def test_blocks_cover_the_text_and_render_alone_as_they_do_together(text: str) -> None:
    blocks = split_blocks(text)
    assert "".join(text[block.start : block.end] for block in blocks) == text
    assert "".join(render(text[block.start : block.end]) for block in blocks) == render(text)


@settings(max_examples=400, deadline=None)
@given(PIECES, st.integers(min_value=0, max_value=100))
def test_a_closed_block_stays_as_it_is_when_more_text_arrives(text: str, cut: int) -> None:
    closed = [block for block in split_blocks(text[:cut]) if block.closed]
    assert [(block.start, block.end) for block in split_blocks(text)[: len(closed)]] == [
        (block.start, block.end) for block in closed
    ]


def test_a_reference_defined_in_another_block_is_the_stated_exception() -> None:
    text = "[a][b]\n\ntext\n\n[b]: https://ok.example\n\nend"
    blocks = split_blocks(text)
    alone = "".join(render(text[block.start : block.end]) for block in blocks)
    assert alone == "<p>[a][b]</p>\n<p>text</p>\n<p>end</p>\n"
    assert f'<a href="https://ok.example" {EXTERNAL}>a</a>' in render(text)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "<img src=x onerror=1>", "<a href='javascript:1'>", "](javascript:1)", "[x", "![",
                "](", "https://evil.test/", ")", "`", "\n", '"', "'", "<svg/onload=1>", "<style>",
                "</p>", "&lt;script&gt;", "<!--", "-->", "<![CDATA[", "|", "|-|\n", "[[p12345678]]",
                "\\", "<", "data:text/html,", "x", " ", "```",
            ]
        ),
        max_size=16,
    ).map("".join)
)  # fmt: skip
def test_whatever_is_written_only_the_closed_list_comes_out(text: str) -> None:
    check_closed_list(render_markdown(text, inline_marker=lambda marker: ""))


# Plain text


def test_plain_text_is_escaped_and_its_spans_marked() -> None:
    assert plain_text_to_html("a <b> & 'c'\nd", [(2, 5), (12, 13)], anchor="passage") == (
        'a <mark id="passage">&lt;b&gt;</mark> &amp; &#x27;c&#x27;\n<mark>d</mark>'
    )


def test_overlapping_spans_are_joined_and_those_outside_cut_off() -> None:
    marks = [(3, 5), (4, 99), (-4, 1), (2, 2), (50, 60)]
    assert plain_text_to_html("abcdef", marks) == "<mark>a</mark>bc<mark>def</mark>"


def test_plain_text_without_spans_is_only_escaped() -> None:
    assert plain_text_to_html("<x>\ud800") == "&lt;x&gt;\ufffd"
