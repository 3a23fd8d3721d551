"""Figures over time as what the admin theme's Chart.js draws. Pure.

Each person's line has a colour and a shape of its own, so that colour is never the only sign. A
chart holds eight lines at most; the table beside it holds all figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from retrieval.quality.score_queries import Figures

MOST_LINES = 8
# Told apart by colour-blind eyes too (Okabe and Ito), with a shape each.
_STYLES = (
    ("#0072B2", "circle"),
    ("#D55E00", "rect"),
    ("#009E73", "triangle"),
    ("#CC79A7", "rectRot"),
    ("#E69F00", "star"),
    ("#56B4E9", "cross"),
    ("#8C6D1F", "crossRot"),
    ("#767676", "rectRounded"),
)
_GREY = "#767676"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One figure's chart: JSON for the theme's canvas."""

    name: str
    title: str
    data: str
    options: str


def make_chart(
    name: str,
    title: str,
    *,
    labels: Sequence[str],
    figures: Sequence[Sequence[Figures]],
    is_share: bool,
) -> Chart:
    """The lines of the figure `name` of `Figures`, a point for each of the runs `labels` names.

    A run in which a person has no figure leaves a gap.
    """
    people: dict[UUID, str] = {}
    for run in figures:
        people.update({one.membership_id: one.person for one in run})
    by_run = [{one.membership_id: getattr(one, name) for one in run} for run in figures]
    shown = list(people.items())[:MOST_LINES]
    datasets = [
        {
            "label": person,
            "data": [_rounded(values.get(member)) for values in by_run],
            "borderColor": colour,
            "backgroundColor": "transparent",
            "pointStyle": shape,
            # The first is drawn last: dashed and hollow, it lets those of equal figures be seen.
            "pointRadius": 4 + place,
            "borderWidth": 2,
            "borderDash": [6, 6] if place + 1 < len(shown) else [],
            "borderDashOffset": 6 * (place % 2),
            "clip": 16,
        }
        for place, ((member, person), (colour, shape)) in enumerate(
            zip(shown, _STYLES, strict=False)
        )
    ]
    return Chart(
        name=name,
        title=title,
        data=json.dumps({"labels": list(labels), "datasets": datasets}),
        options=json.dumps(_options(is_share=is_share)),
    )


def _rounded(value: float | int | None) -> float | int | None:
    return round(value, 4) if isinstance(value, float) else value


def _options(*, is_share: bool) -> Mapping[str, Any]:
    ticks = {"color": _GREY}
    upwards: dict[str, Any] = {"min": 0, "ticks": ticks, "grid": {"color": _GREY}}
    upwards |= {"max": 1} if is_share else {"suggestedMax": 1, "ticks": {**ticks, "precision": 0}}
    return {
        "responsive": True,
        "maintainAspectRatio": False,
        "animation": False,
        "spanGaps": False,
        "scales": {"x": {"ticks": ticks, "grid": {"color": _GREY}}, "y": upwards},
        "plugins": {"legend": {"display": True, "labels": {"usePointStyle": True, "color": _GREY}}},
    }
