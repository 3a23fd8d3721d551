"""The figures: nDCG, recall and leaks of a ranking, worked out by hand."""

from __future__ import annotations

import json
import math
from uuid import UUID

import pytest

from retrieval.quality.score_charts import make_chart
from retrieval.quality.score_queries import Figures
from retrieval.quality.scoring import first_rank, leaks, ndcg, rank_documents, recall, score

A, B, C, D = (UUID(int=number) for number in range(1, 5))


def test_a_document_stands_at_the_place_of_its_best_passage() -> None:
    assert rank_documents([B, A, B, C, A]) == (B, A, C)


@pytest.mark.parametrize(
    ("ranking", "expected", "value"),
    [
        ((A, B, C), {A}, 1.0),
        ((B, A, C), {A}, 1 / math.log2(3)),
        ((B, C, A), {A}, 0.5),
        ((A, C, B), {A, B}, (1 + 0.5) / (1 + 1 / math.log2(3))),
        ((C, D), {A}, 0.0),
        ((), {A}, 0.0),
    ],
)
def test_ndcg(ranking: tuple[UUID, ...], expected: set[UUID], value: float) -> None:
    assert ndcg(ranking, expected, depth=10) == pytest.approx(value, abs=1e-12)


def test_what_comes_after_the_depth_gains_nothing() -> None:
    ranking = [UUID(int=number) for number in range(10, 20)] + [A]
    assert ndcg(ranking, {A}, depth=10) == 0
    assert recall(ranking, {A}, depth=10) == 0
    assert recall(ranking, {A}, depth=50) == 1
    assert first_rank(ranking, {A}) == 11


def test_the_best_order_of_more_than_ten_documents_is_ten_of_them() -> None:
    many = [UUID(int=number) for number in range(100, 120)]
    assert ndcg(many, set(many), depth=10) == pytest.approx(1)
    assert recall(many, set(many), depth=10) == 0.5


def test_without_expected_documents_there_is_no_figure() -> None:
    found = score((A, B), expected=(), forbidden=(), viewable={A, B})
    assert (found.ndcg_10, found.recall_10, found.recall_50, found.first_rank) == (None,) * 4
    assert (found.expected, found.hidden, found.found, found.leaked) == (0, 0, 2, ())


def test_what_the_reader_may_not_view_counts_neither_way() -> None:
    found = score((A, C), expected=(A, B), forbidden=(), viewable={A, C})
    assert (found.ndcg_10, found.recall_10, found.first_rank) == (1.0, 1.0, 1)
    assert (found.expected, found.hidden) == (1, 1)
    nothing = score((C,), expected=(A, B), forbidden=(), viewable={C})
    assert (nothing.ndcg_10, nothing.expected, nothing.hidden) == (None, 0, 2)


def test_a_leak_is_what_may_not_be_viewed_or_was_forbidden() -> None:
    assert leaks((A, B, C), viewable={A, C}, forbidden=()) == (B,)
    assert leaks((A, B, C), viewable={A, B, C}, forbidden={C}) == (C,)
    assert leaks((A, B, C), viewable={A}, forbidden={B, D}) == (B, C)


def test_a_leaked_document_gains_nothing() -> None:
    found = score((B, A), expected=(A, B), forbidden=(), viewable={A})
    assert found.ndcg_10 == pytest.approx(1 / math.log2(3))
    assert found.leaked == (B,)


# --- charts


def _figures(number: int, person: str, ndcg_10: float | None) -> Figures:
    return Figures(
        membership_id=UUID(int=number),
        person=person,
        scored=1,
        counted=1,
        ndcg_10=ndcg_10,
        recall_10=None,
        recall_50=None,
        leaks=0,
        degraded=0,
        inactive=False,
    )


def test_a_chart_leaves_a_gap_where_there_is_no_figure() -> None:
    runs = [
        [_figures(1, "Ann", 0.123456), _figures(2, "Ben", 1.0)],
        [_figures(1, "Ann", None)],
        [_figures(2, "Ben", 0.0)],
    ]
    chart = make_chart("ndcg_10", "nDCG", labels=["a", "b", "c"], figures=runs, is_share=True)
    data = json.loads(chart.data)
    assert data["labels"] == ["a", "b", "c"]
    assert [(line["label"], line["data"]) for line in data["datasets"]] == [
        ("Ann", [0.1235, None, None]),
        ("Ben", [1.0, None, 0.0]),
    ]
    assert len({line["pointStyle"] for line in data["datasets"]}) == 2
    assert json.loads(chart.options)["scales"]["y"]["max"] == 1


def test_a_chart_draws_eight_lines_at_most() -> None:
    runs = [[_figures(number, f"P{number}", 0.5) for number in range(12)]]
    chart = make_chart("leaks", "Leaks", labels=["a"], figures=runs, is_share=False)
    assert len(json.loads(chart.data)["datasets"]) == 8
    assert "max" not in json.loads(chart.options)["scales"]["y"]
