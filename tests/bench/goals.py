"""The goals of each part, held against its figures."""

from __future__ import annotations

from typing import Any

from tests.bench.tables import Data, Verdict, cells

_BIG = 500_000


def goals(part: str, size: int, data: Data) -> list[Verdict]:
    """(goal, figure, met) for each goal of a part at this size."""
    return {
        "vector": _vector,
        "forbidden": _forbidden,
        "lexical": _lexical,
        "hybrid": _hybrid,
        "peers": _peers,
        "growth": _growth,
        "grants": _grants,
        "ingest": _ingest,
        "quality": _quality,
    }[part](size, data)


def _least(goal: str, figure: float, bound: float, form: str = "{:.3f}") -> Verdict:
    return goal, form.format(figure), figure >= bound


def _most(goal: str, figure: float, bound: float, form: str = "{:.2f}") -> Verdict:
    return goal, form.format(figure), figure <= bound


def _vector(size: int, data: Data) -> list[Verdict]:
    found = list(cells(data))
    few = [cell for _, _, cell in found if max(cell["visible"]) <= 2_000]
    verdicts = [
        _least(
            "recall@10 in every cell >= 0.99",
            min(cell["router"]["recall"] for *_, cell in found),
            0.99,
        ),
        _least(
            "recall@10 = 1.00 up to 2,000 visible",
            min((cell["router"]["recall"] for cell in few), default=1.0),
            1.0,
        ),
        _most(
            "answers short of min(10, visible)",
            sum(cell["router"]["short"] for *_, cell in found),
            0,
            "{:.0f}",
        ),
    ]
    largest = [(share, cell) for name, share, cell in found if name.startswith("largest")]
    for share, cell in largest:
        times = cell["router"]["p95"] / cell["graph"]["p95"]
        bound = 12 if share == "10 %" else 5
        goal = f"largest, {share}: p95 <= {bound} x the graph without rights"
        verdicts.append(_most(goal, times, bound, "{:.1f} x"))
    if size >= _BIG:
        worst = max(cell["router"]["p95"] for _, cell in largest)
        verdicts.append(_most("largest: p95 <= 8 ms", worst, 8, "{:.1f} ms"))
    loads = data["clients"]
    if "global" in loads:
        times = loads["router"]["qps"] / max(loads["global"]["qps"], 0.1)
        verdicts.append(
            _least(">= 5 x the QPS of one graph with rights as filter", times, 5, "{:.1f} x")
        )
    return verdicts


def _forbidden(size: int, data: Data) -> list[Verdict]:
    rows = [cell["router"] for *_, cell in cells(data) if "router" in cell]
    if not rows:
        return []
    return [
        _least("recall@10 >= 0.99 in every cell", min(row["recall"] for row in rows), 0.99),
        _most("answers short of min(10, visible)", sum(row["short"] for row in rows), 0, "{:.0f}"),
    ]


def _lexical(size: int, data: Data) -> list[Verdict]:
    found = [cell for _, _, cell in cells(data)]
    foreign = sum(cell[kind]["foreign"] for cell in found for kind in ("three", "frequent"))
    verdicts = [_most("rows that the caller may not see", foreign, 0, "{:.0f}")]
    if size >= _BIG:
        three = max(cell["three"]["ours"]["p95"] for cell in found)
        frequent = max(
            cell[kind]["ours"]["p95"] for cell in found for kind in ("frequent", "single")
        )
        verdicts.append(_most("three words: p95 <= 8 ms", three, 8, "{:.1f} ms"))
        verdicts.append(_most("only frequent words: p95 <= 20 ms", frequent, 20, "{:.1f} ms"))
    return verdicts


def _hybrid(size: int, data: Data) -> list[Verdict]:
    found = list(cells(data))
    worst = max(cell["ours"]["p50"] / cell["bare"]["p50"] for *_, cell in found)
    verdicts = [_most("with rights / without <= 1.3 in every cell", worst, 1.3, "{:.2f} x")]
    if size >= _BIG:
        slowest = max(cell["ours"]["p95"] for *_, cell in found)
        verdicts.append(_most("p95 <= 15 ms", slowest, 15, "{:.1f} ms"))
        qps = data["clients"]["ours"]["qps"]
        verdicts.append(_least("8 clients: >= 200 queries a second", qps, 200, "{:.0f}"))
    return verdicts


def _peers(size: int, data: Data) -> list[Verdict]:
    verdicts = []
    wanted = {"lance": 4 if size >= _BIG else 3, "chroma": 15}
    for program in data["peers"]:
        if program in wanted:
            least = min(cell[program]["times_ours"] for *_, cell in cells(data))
            goal = f">= {wanted[program]} x faster than {program} in every cell"
            verdicts.append(_least(goal, least, wanted[program], "{:.1f} x"))
    return verdicts


def _growth(size: int, data: Data) -> list[Verdict]:
    verdicts = []
    for kind in ("vector", "lexical", "hybrid"):
        ratio = data["grants"][kind]["ratio"]
        verdicts.append(_most(f"10 to 10,000 grants, {kind}: <= 3 x", ratio, 3, "{:.2f} x"))
        for visible, found in data["worlds"].items():
            if visible.isdigit():
                goal = f"ten times the world, {int(visible):,} seen, {kind}: <= 1.3 x"
                verdicts.append(_most(goal, found[kind]["ratio"], 1.3, "{:.2f} x"))
    return verdicts


def _grants(size: int, data: Data) -> list[Verdict]:
    loaded = data["under load"].values()
    every = [*data["alone"].values(), *loaded]
    worst = max(found[kind]["p95"] for found in loaded for kind in ("grant", "revoke"))
    bare = max(found["row"]["p95"] for found in loaded)
    return [
        _most("rows touched by a change", max(found["rows"] for found in every), 1, "{:.0f}"),
        _most("seen after a revocation", sum(found["stale"] for found in every), 0, "{:.0f}"),
        _most("the row, with commit, under load: p95 <= 5 ms", bare, 5, "{:.1f} ms"),
        _most("the service, with audit, under load: p95 <= 5 ms", worst, 5, "{:.1f} ms"),
    ]


def _ingest(size: int, data: Data) -> list[Verdict]:
    return [_least("whole way / embedding alone >= 0.8", data["whole"]["share"], 0.8, "{:.2f}")]


def _quality(size: int, data: Data) -> list[Verdict]:
    found: dict[str, Any] = data.get("cranfield", {})
    if not found:
        return []
    hybrid, lexical = found["hybrid"]["ndcg_10"], found["lexical"]["ndcg_10"]
    semantic = found["semantic"]["ndcg_10"]
    return [
        _least("Cranfield, hybrid: nDCG@10 >= 0.567", hybrid, 0.567, "{:.4f}"),
        _least("Cranfield, words alone: nDCG@10 >= 0.52", lexical, 0.52, "{:.4f}"),
        _least(f"hybrid never below vectors alone ({semantic:.4f})", hybrid, semantic, "{:.4f}"),
    ]
