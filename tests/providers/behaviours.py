"""Ready-made models, chosen by the name in the request: `name` or `name:argument`.

For tests whose backend runs in other processes, and for walking through the product by hand. Each
is a pure function of the request, so it needs no state and any number of runs may share it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from tests.providers.received import Received
from tests.providers.script import Call, Counted, Script, Thinking, call_script, text_script

Behaviour = Callable[[Received, str], Script]

REPOSITORY = Path(__file__).resolve().parents[2]
OVERLOAD_SENTENCE = "The total is 41"


def shared_folder() -> Path:
    """Where the shared cases and data are; tests skip if it is absent."""
    return Path(os.environ.get("KAIZEN_SHARED") or REPOSITORY.parent / "shared")


def pieces_400() -> tuple[str, ...]:
    """Four bytes each, so that a piece is about a token."""
    return tuple(f"{number:03d} " for number in range(1, 401))


def pieces_2000() -> tuple[str, ...]:
    """Four bytes each, in hexadecimal."""
    return tuple(f"{number:03x} " for number in range(1, 2001))


def find_behaviour(model: str) -> tuple[Behaviour, str] | None:
    """The behaviour called by `model`, with its argument."""
    name, _, argument = model.partition(":")
    behaviour = BEHAVIOURS.get(name)
    return (behaviour, argument) if behaviour else None


def _call_id(request: Received) -> str:
    return f"call_{request.number}"


def _search(request: Received, query: str) -> Script:
    arguments = json.dumps({"query": query}, ensure_ascii=False)
    return call_script("search", arguments, id=_call_id(request))


def count_400(request: Received, argument: str) -> Script:
    """400 numbered pieces over 8 s, or over as many seconds as the argument says."""
    return Script(text=pieces_400(), delay=float(argument or 8) / 400)


def long_2000(request: Received, argument: str) -> Script:
    """2,000 pieces, 20 ms apart; the argument is another distance in ms."""
    return Script(text=pieces_2000(), delay=float(argument or 20) / 1000)


def echo_search(request: Received, argument: str) -> Script:
    """Search for the member's question, then quote the first passage's opening words, cited."""
    if not request.results:
        return _search(request, request.question)
    if not request.passages:
        return text_script("I found nothing about that.")
    passage = request.passages[0]
    words = " ".join(str(passage["text"]).split()[:12])
    return text_script(f"It says: {words} [[{passage['cite']}]]")


def cite_all(request: Received, argument: str) -> Script:
    """Search, then name every passage found by its marker alone."""
    if not request.results:
        return _search(request, request.question)
    markers = " ".join(f"[[{passage['cite']}]]" for passage in request.passages)
    return text_script(f"Sources: {markers}" if markers else "I found nothing about that.")


def forge_citation(request: Received, argument: str) -> Script:
    """Cite the identifier in the argument, whether or not it was found."""
    return text_script(f"As is well known [[{argument or 'p0000000'}]].")


def loop_search(request: Received, argument: str) -> Script:
    """Call search for ever."""
    return _search(request, argument or "x")


def rogue(request: Received, argument: str) -> Script:
    """Call an unknown tool, then the one named by the argument, then search for ever."""
    steps = len(request.results)
    if steps == 0:
        return call_script("delete_everything", "{}", id=_call_id(request))
    if steps == 1:
        return call_script(argument or "read_document", "{}", id=_call_id(request))
    return _search(request, "x")


def alternate(request: Received, argument: str) -> Script:
    """Call A, B, A, B for ever; the argument is `A,B`."""
    names = (argument or "search,read_document").split(",")
    name = names[len(request.results) % len(names)]
    return call_script(name, '{"query": "x"}', id=_call_id(request))


def parallel_search(request: Received, argument: str) -> Script:
    """Think, call search twice at once, then answer with how many results came."""
    if request.results:
        return text_script(f"Both came back: {len(request.results)} results.")
    calls = tuple(
        Call(id=f"{_call_id(request)}_{word}", name="search", arguments=f'{{"query": "{word}"}}')
        for word in ("alpha", "beta")
    )
    return Script(thinking=(Thinking(text="need both"),), calls=calls)


def bad_tools(request: Received, argument: str) -> Script:
    """Three calls: glued arguments, empty ones, cut ones; ended by length. Then an answer."""
    if request.results:
        return text_script("Done.")
    number = request.number
    calls = (
        Call(id=f"a1_{number}", name="create_note", arguments='{"title": "Q1"}{"title": "Q2"}'),
        Call(id=f"a2_{number}", name="list_notes", arguments=""),
        Call(id=f"a3_{number}", name="create_note", arguments='{"title": "cut o'),
    )
    return Script(calls=calls, stop="length")


def call_tool(request: Received, argument: str) -> Script:
    """Call the tool named before the first comma with the JSON after it, then show the result."""
    if request.results:
        return text_script(f"Result: {request.results[-1][:500]}")
    name, _, arguments = argument.partition(",")
    return call_script(name, arguments or "{}", id=_call_id(request))


def hostile_markdown(request: Received, argument: str) -> Script:
    """Every item of the hostile Markdown case, or the one whose index is given."""
    path = shared_folder() / "cases" / "markdown-hostile.json"
    items = json.loads(path.read_text("utf-8"))
    return text_script(items[int(argument)] if argument else "\n\n".join(items))


def echo(request: Received, argument: str) -> Script:
    """Repeat the member's message."""
    return text_script(f"You said: {request.question}")


def silent(request: Received, argument: str) -> Script:
    """Say nothing for the seconds given (90), then answer."""
    return Script(text=("At ", "last."), wait=float(argument or 90))


def hang(request: Received, argument: str) -> Script:
    """A few pieces, then nothing more, for ever."""
    return Script(text=("One ", "moment "), ending="hang")


def cut(request: Received, argument: str) -> Script:
    """A few pieces, then the connection is torn."""
    return Script(text=("This breaks ", "off"), ending="cut")


def refuse(request: Received, argument: str) -> Script:
    """The key is wrong; the body quotes it, as some servers do."""
    message = f"Incorrect API key provided: {request.key}"
    return Script(status=401, error="refused_key", error_message=message)


def limit(request: Received, argument: str) -> Script:
    """429 with the Retry-After given (2)."""
    return Script(status=429, error="limited", headers={"Retry-After": argument or "2"})


def overload(request: Received, argument: str) -> Script:
    """Some text, then an overload inside the stream."""
    return Script(text=(OVERLOAD_SENTENCE,), error="overloaded")


def garbage(request: Received, argument: str) -> Script:
    """A stream that is no stream."""
    return Script(raw=(b"event: x\ndata: {not json\n\n", b"<html>hello</html>\n\n"))


def unicode_text(request: Received, argument: str) -> Script:
    """Many scripts, one character a piece."""
    return Script(text=tuple("你好世界 🌍 مرحبا 👩‍👩‍👧 fin"), usage=Counted(output=5))


BEHAVIOURS: dict[str, Behaviour] = {
    "count-400": count_400,
    "long-2000": long_2000,
    "echo-search": echo_search,
    "cite-all": cite_all,
    "forge-citation": forge_citation,
    "loop-search": loop_search,
    "rogue": rogue,
    "alternate": alternate,
    "parallel-search": parallel_search,
    "bad-tools": bad_tools,
    "call-tool": call_tool,
    "hostile-markdown": hostile_markdown,
    "echo": echo,
    "silent": silent,
    "hang": hang,
    "cut": cut,
    "refuse": refuse,
    "limit": limit,
    "overload": overload,
    "garbage": garbage,
    "unicode": unicode_text,
}
