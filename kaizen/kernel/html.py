"""The one sanitiser: all HTML made from text that a person or a model wrote passes here.

Promises: a closed list of tags, attributes and schemes; nothing is loaded from anywhere (no image,
style or script); ids, classes and styles written in the text never survive; citation markers become
HTML only through the caller's function. Returns `SafeString`, so no template needs `|safe`.
Not for: deciding whether a citation may be seen (conversations.citations), rendering whole pages.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.image import image as parse_image
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

MAX_NESTING = 20
MAX_IMAGE_NESTING = 4

# [[p1a2b3c4d]] or [[p1a2b3c4d:12-180]]
_MARKER = re.compile(r"\[\[(p[a-z0-9]{8}(?::[0-9]{1,7}-[0-9]{1,7})?)\]\]")
_OPEN_MARKER = re.compile(r"\[(?:\[(?:p[a-z0-9]{0,8}(?::[0-9]{0,7}(?:-[0-9]{0,7})?)?\]?)?)?\Z")
_NEWLINE = re.compile(r"\r\n?|\n")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_LANGUAGE = re.compile(r"[a-z0-9+#-]{1,20}")
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)[^\s]", re.IGNORECASE)
_DEMOTED = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}
_ALIGNED = {
    "text-align:left": "align-left",
    "text-align:center": "align-center",
    "text-align:right": "align-right",
}

_TAGS = {
    "p", "br", "hr", "strong", "em", "s", "a", "h3", "h4", "h5", "h6", "ul", "ol", "li",
    "blockquote", "pre", "code", "div", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
_ATTRIBUTES = {
    "a": {"href", "class", "target"},
    "ol": {"start"},
    "code": {"class"},
    "div": {"class", "tabindex"},
    "pre": {"tabindex"},
    "th": {"class"},
    "td": {"class"},
}
_OWN_VALUES = {
    ("a", "class"): re.compile("external"),
    ("a", "target"): re.compile("_blank"),
    ("code", "class"): re.compile(f"language-{_LANGUAGE.pattern}"),
    ("div", "class"): re.compile("table-scroll"),
    ("div", "tabindex"): re.compile("0"),
    ("pre", "tabindex"): re.compile("0"),
    ("ol", "start"): re.compile("[0-9]{1,9}"),
    ("th", "class"): re.compile("align-(left|center|right)"),
    ("td", "class"): re.compile("align-(left|center|right)"),
}


@dataclass(frozen=True, slots=True)
class Block:
    """A top-level piece of Markdown, in code points; more text can't change a closed one."""

    start: int
    end: int
    closed: bool


def render_markdown(text: str, *, inline_marker: Callable[[str], str] | None) -> SafeString:
    """Markdown (CommonMark, tables, strikethrough) as safe HTML.

    `inline_marker` gets what stands between `[[` and `]]` and returns trusted HTML; it isn't called
    for markers in code. With None, markers stay as written. Images become their alternative text,
    links to anything but http, https and mailto become their label, headings start at h3.
    """
    nonce = secrets.token_hex(16)
    markers: list[str] = []
    env = {"nonce": nonce, "markers": markers, "cite": inline_marker is not None}
    html = _clean(_MARKDOWN.render(_storable(text), env))
    if inline_marker is not None and markers:
        put = inline_marker
        # The nonce is made after the text was written, so the text can't contain a placeholder.
        html = re.sub(rf"k{nonce}n([0-9]+)e", lambda found: put(markers[int(found.group(1))]), html)
    return _trusted(html)


def split_blocks(text: str) -> list[Block]:
    """The top-level blocks of a Markdown text; they cover it without gap or overlap.

    While text is still arriving, a block is closed once the first line of the next one is complete.
    Rendering the blocks one by one gives the same HTML as rendering the whole, with one exception:
    a reference link (`[a][b]`) whose definition stands in another block stays as it is written.
    """
    lines = [0, *(newline.end() for newline in _NEWLINE.finditer(text))]
    tokens = _BLOCKS_ONLY.parse(_storable(text))
    starts = [lines[token.map[0]] for token in tokens if token.level == 0 and token.map is not None]
    if not starts:
        return [Block(0, len(text), False)] if text else []
    starts[0] = 0
    ends = [*starts[1:], len(text)]
    last_complete_line = lines[-1]
    return [
        # A half-written first line ("***", "2") may yet turn out to continue the block before it.
        Block(start, end, closed=end < last_complete_line)
        for start, end in zip(starts, ends, strict=True)
    ]


def without_open_marker(text: str) -> str:
    """The text without a citation marker still being written at its end (for open blocks)."""
    return _OPEN_MARKER.sub("", text)


def plain_text_to_html(
    text: str, marks: Iterable[tuple[int, int]] = (), *, anchor: str = ""
) -> SafeString:
    """Plain text escaped, with each (start, end) span in code points wrapped in <mark>.

    Overlapping and touching spans are joined, spans outside the text are cut off. The first mark
    carries `anchor` as its id. Line breaks stay: show it with `white-space: pre-wrap`.
    """
    storable = _storable(text)
    pieces: list[str] = []
    done = 0
    identity = f' id="{escape(anchor)}"' if anchor else ""
    for start, end in _joined(marks, len(storable)):
        pieces += [escape(storable[done:start]), f"<mark{identity}>"]
        pieces += [escape(storable[start:end]), "</mark>"]
        done, identity = end, ""
    return _trusted("".join([*pieces, escape(storable[done:])]))


def _joined(marks: Iterable[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in sorted((max(0, start), min(length, end)) for start, end in marks):
        if start >= end:
            continue
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _storable(text: str) -> str:
    # One character for one character: offsets stay true.
    return _UNSTORABLE.sub("\ufffd", text)


def _trusted(html: str) -> SafeString:
    return mark_safe(html)  # noqa: S308 - the one place; everything above escapes or cleans


def _clean(html: str) -> str:
    """The second wall: whatever the renderer gives, only the closed list comes out."""
    return nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        attribute_filter=_filter_attribute,
        clean_content_tags={"script", "style"},
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
    )


def _filter_attribute(tag: str, attribute: str, value: str) -> str | None:
    """Allowed attributes keep only the values that this module itself writes."""
    own_values = _OWN_VALUES.get((tag, attribute))
    return value if own_values is None or own_values.fullmatch(value) else None


# Rules of the Markdown parser


def _parse_citation(state: StateInline, silent: bool) -> bool:
    """`[[p........]]` becomes a citation token; code and escaped brackets never get here."""
    if not state.env.get("cite") or not state.src.startswith("[[p", state.pos):
        return False
    found = _MARKER.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        state.push("citation", "", 0).content = found.group(1)
    state.pos = found.end()
    return True


def _parse_image_bounded(state: StateInline, silent: bool) -> bool:
    """The stock rule parses a label afresh at each level: unbounded nesting would end the stack."""
    depth = state.env.get("image_depth", 0)
    if depth >= MAX_IMAGE_NESTING:
        return False
    state.env["image_depth"] = depth + 1
    try:
        return parse_image(state, silent)
    finally:
        state.env["image_depth"] = depth


def _make_harmless(state: StateCore) -> None:
    """Images, links, headings and alignment are settled on the tokens, before any HTML exists."""
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = _DEMOTED[token.tag]
        elif token.type in ("th_open", "td_open"):
            aligned = _ALIGNED.get(str(token.attrs.get("style", "")))
            token.attrs = {"class": aligned} if aligned else {}
        elif token.type == "inline":
            token.children = _harmless_inline(token.children or [])


def _harmless_inline(children: Sequence[Token]) -> list[Token]:
    """Images become text, unsafe links lose their link, markers inside a link move behind it."""
    result: list[Token] = []
    waiting: list[Token] = []
    link_is_safe: list[bool] = []
    for token in _without_images(children):
        if token.type == "link_open":
            link_is_safe.append(_SAFE_LINK.match(str(token.attrs.get("href", ""))) is not None)
            if not link_is_safe[-1]:
                continue
            token.attrs = {"href": token.attrs["href"], "class": "external", "target": "_blank"}
        elif token.type == "link_close":
            if link_is_safe.pop():
                result.append(token)
            result += waiting
            waiting = []
            continue
        elif token.type == "citation" and link_is_safe:
            waiting.append(token)
            continue
        result.append(token)
    return result


def _without_images(children: Sequence[Token]) -> Iterable[Token]:
    for token in children:
        if token.type != "image":
            yield token
            continue
        for part in _without_images(token.children or []):
            if part.type in ("text", "code_inline", "softbreak", "hardbreak", "citation"):
                yield part


def _render_citation(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    markers: list[str] = env["markers"]
    markers.append(tokens[index].content)
    return f"k{env['nonce']}n{len(markers) - 1}e"


def _render_code_block(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    token = tokens[index]
    word = next(iter(token.info.split()), "").lower()
    language = f' class="language-{word}"' if _LANGUAGE.fullmatch(word) else ""
    return f'<pre tabindex="0"><code{language}>{escape(token.content)}</code></pre>\n'


def _render_table_open(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    return '<div class="table-scroll" tabindex="0"><table>\n'


def _render_table_close(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType
) -> str:
    return "</table></div>\n"


def _parser() -> MarkdownIt:
    options: MutableMapping[str, Any] = {
        "html": False, "linkify": False, "typographer": False, "maxNesting": MAX_NESTING,
    }  # fmt: skip
    return MarkdownIt("commonmark", options).enable(["table", "strikethrough"])


def _rendering_parser() -> MarkdownIt:
    parser = _parser()
    # Every link is parsed, so that an unsafe one can be shown as its label instead of as source.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.inline.ruler.before("link", "citation", _parse_citation)
    parser.inline.ruler.at("image", _parse_image_bounded)
    parser.core.ruler.push("make_harmless", _make_harmless)
    parser.add_render_rule("citation", _render_citation)
    parser.add_render_rule("fence", _render_code_block)
    parser.add_render_rule("code_block", _render_code_block)
    parser.add_render_rule("table_open", _render_table_open)
    parser.add_render_rule("table_close", _render_table_close)
    return parser


# Both are only read after this point and so may be shared between threads.
_MARKDOWN = _rendering_parser()
_BLOCKS_ONLY = _parser().disable("inline")
