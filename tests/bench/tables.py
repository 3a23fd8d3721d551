"""Tables and verdicts out of the figures of each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Data = dict[str, Any]
Verdict = tuple[str, str, bool]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def pair(times: Data) -> str:
    """p50 / p95."""
    return f"{times['p50']:.1f} / {times['p95']:.1f}"


def cells(data: Data) -> Iterator[tuple[str, str, Data]]:
    """Each organisation and share with its cell."""
    for name, organization in data["organizations"].items():
        for share, cell in organization["cells"].items():
            yield f"{name} ({organization['passages']:,})", share, cell


def _visible(cell: Data) -> str:
    return f"{cell['visible'][len(cell['visible']) // 2]:,}"


def vector(size: int, data: Data) -> str:
    """Each contestant in each cell, and the load of eight clients."""
    rows = []
    has_global = False
    for name, share, cell in cells(data):
        has_global |= "global" in cell
        row = [name, share, _visible(cell), pair(cell["router"])]
        row += [f"{cell['router']['recall']:.3f}", str(cell["router"]["short"])]
        row += [pair(cell["graph"]), f"{cell['router']['p95'] / cell['graph']['p95']:.1f}"]
        row += [pair(cell["exact"]), f"{cell['fetch']['recall']:.2f}"]
        if "global" in cell:
            row += [pair(cell["global"]), f"{cell['global']['recall']:.2f}"]
        rows.append(row)
    head = ["organisation", "sees", "passages", "Kaizen", "recall", "short", "graph, no rights"]
    head += ["x at p95", "exact", "fetch 200, filter after: recall"]
    head += ["one graph, rights as filter", "its recall"] if has_global else []
    text = table(head, rows) + "\n\n*Short*: answers of fewer than min(10, visible) rows.\n"
    return text + "\n" + clients(data["clients"])


def clients(loads: Data) -> str:
    """Eight clients, mixed load."""
    names = {"router": "Kaizen", "ours": "Kaizen", "global": "one graph, rights as filter"}
    names["bare"] = "the same without rights"
    rows = [
        [names.get(name, name), f"{load['qps']:.0f}", pair(load)] for name, load in loads.items()
    ]
    return "Eight clients, every organisation and share mixed:\n\n" + table(
        ["", "queries a second", "ms"], rows
    )


def forbidden(size: int, data: Data) -> str:
    """Recall where the caller's own are far."""
    rows = []
    for name, share, cell in cells(data):
        if "router" not in cell:
            rows.append([name, share, _visible(cell), "no such question found", "", "", "", "", ""])
            continue
        router, graph = cell["router"], cell["graph"]
        rows.append(
            [
                name,
                share,
                _visible(cell),
                str(cell["questions"]),
                pair(router),
                f"{router['recall']:.3f}",
                str(router["short"]),
                f"{pair(graph)}, {graph['recall']:.3f}",
                f"{cell['fetch']['recall']:.2f}",
            ]
        )
    head = ["organisation", "sees", "passages", "questions", "Kaizen", "recall", "short"]
    return table([*head, "graph forced: ms, recall", "fetch 200, filter after: recall"], rows)


def lexical(size: int, data: Data) -> str:
    """Three kinds of questions, with rights and without."""
    rows = [
        [name, share, _visible(cell)]
        + [
            pair(cell[kind][who])
            for kind in ("three", "frequent", "single")
            for who in ("ours", "bare")
        ]
        for name, share, cell in cells(data)
    ]
    head = ["organisation", "sees", "passages", "three words, any", "without rights"]
    head += ["three of the 40 most frequent", "without rights", "one of those", "without rights"]
    return table(head, rows)


def hybrid(size: int, data: Data) -> str:
    """The statement, the statement without rights, the call."""
    rows = [
        [
            name,
            share,
            _visible(cell),
            pair(cell["ours"]),
            pair(cell["bare"]),
            f"{cell['ours']['p50'] / cell['bare']['p50']:.2f}",
            pair(cell["search"]),
        ]
        for name, share, cell in cells(data)
    ]
    head = ["organisation", "sees", "passages", "the statement", "without rights", "x at p50"]
    text = table([*head, "`search()` with its audit"], rows)
    return (
        f"{text}\n\nWithout rights is the same statement over all that the organisation has. The "
        "embedding of the question is not counted; it takes a few milliseconds on either side.\n\n"
        + clients(data["clients"])
    )


def peers(size: int, data: Data) -> str:
    """Each peer's time as a multiple of ours."""
    programs = [name for name in data["peers"] if name]
    titles = {"lance": "LanceDB 0.40.0", "chroma": "Chroma 1.5.9"}
    rows = []
    for name, share, cell in cells(data):
        row = [name, share, _visible(cell), pair(cell["ours"])]
        for program in programs:
            peer = cell[program]
            row += [pair(peer), f"{peer['times_ours']:.1f} x"]
            row += [f"{peer['recall']:.3f} ({peer['setting']})"]
        rows.append(row)
    head = ["organisation", "sees", "passages", "Kaizen"]
    for program in programs:
        head += [titles.get(program, program), "times ours", "recall (setting)"]
    return (
        table(head, rows)
        + "\n\nThe same vectors; rights as the peer's filter over a copied list of principals "
        "(a revoked grant means rewriting its rows there). Of each peer the fastest setting with "
        "recall of at least 0.99 on other questions. Its time is taken inside its own process."
    )


def growth(size: int, data: Data) -> str:
    """Three ways to grow."""
    parts = []
    for key, what in (("grants", "grants of the caller"), ("teams", "teams of the caller")):
        counts = [name for name in data[key]["vector"] if name.isdigit()]
        rows = [
            [
                kind,
                *(pair(found[name]) for name in counts),
                f"{found['ratio']:.2f}",
                f"{found['exponent']:.2f}",
            ]
            for kind, found in data[key].items()
        ]
        head = ["branch", *(f"{int(name):,} {what}" for name in counts), "ratio", "exponent"]
        parts.append(table(head, rows))
    worlds = data["worlds"]
    rows = [
        [
            kind,
            f"{int(visible):,}",
            pair(found["small"]),
            pair(found["big"]),
            f"{found['ratio']:.2f}",
            f"{found['exponent']:.2f}",
        ]
        for visible, kinds in worlds.items()
        if visible.isdigit()
        for kind, found in kinds.items()
    ]
    if rows:
        head = ["branch", "passages seen", f"of {worlds['smaller']:,}", f"of {size:,}"]
        parts.append(table([*head, "ratio", "exponent"], rows))
    return "The visible set stays the same in each row.\n\n" + "\n\n".join(parts)


def grants(size: int, data: Data) -> str:
    """Alone and under load."""
    rows = [
        [
            load,
            kind,
            pair(found["grant"]),
            pair(found["revoke"]),
            pair(found["row"]),
            str(found["rows"]),
            str(found["stale"]),
            str(found["unseen"]),
        ]
        for load in ("alone", "under load")
        for kind, found in data[load].items()
    ]
    head = ["", "grant on a", "grant", "revoke", "the bare row", "rows", "seen after revoking"]
    others = data["others"]
    return (
        table([*head, "not seen after granting"], rows)
        + "\n\nMilliseconds with the commit; grant and revoke by the product's own service with "
        "its checks and audit. Under load, with pauses that leave the machine busy and not full: "
        f"{others['searches']:,} searches and {others['documents']:,} documents written meanwhile "
        "by other processes."
    )


def ingest(size: int, data: Data) -> str:
    """The whole way, formats, memory."""
    whole, memory = data["whole"], data["memory"]
    rows = [
        [
            name,
            f"{found['bytes'] / 1000000.0:.2f}",
            f"{found['megabytes_a_second']:.2f}",
            f"{found['letters_a_second'] / 1000000.0:.2f}",
        ]
        for name, found in data["parse"].items()
    ]
    head = ["file", "MB", "MB a second", "million letters a second"]
    return (
        f"{whole['passages']} passages: {whole['alone']} a second by the embedding model alone, "
        f"{whole['whole']} the whole way from upload to index: {whole['share']:.2f} of it. One "
        f"worker's memory peaks at {memory['peak_megabytes']} MB, its parser process at "
        f"{memory['parser_megabytes']} MB.\n\nParsing alone:\n\n" + table(head, rows)
    )


def quality(size: int, data: Data) -> str:
    """Cranfield and the handbook."""
    parts = []
    if "cranfield" in data:
        rows = [
            [name, f"{found['ndcg_10']:.4f}", f"{found['recall_100']:.4f}"]
            for name, found in data["cranfield"].items()
        ]
        parts.append(
            "Cranfield, 1,400 abstracts, through upload, reading and search; each judged pair has "
            "gain 1. *Deep*: branches as deep as for facets, for recall.\n\n"
            + table(["", "nDCG@10", "recall@100"], rows)
        )
    if "handbook" in data:
        found = data["handbook"]
        rows = [
            [mode, str(found[mode]["top_3"]), str(found[mode]["top_10"])]
            for mode in ("hybrid", "lexical", "semantic")
        ]
        parts.append(
            f"Handbook, {found['questions']} questions over {found['pages']} pages: the right page "
            "is among\n\n" + table(["", "the first 3", "the first 10"], rows)
        )
    return "\n\n".join(parts)
