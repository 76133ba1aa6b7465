"""Rows that stand for something: typical, borderline and odd members of a cluster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tell.contract import Reals
from tell.explanations.assigned import Assigned
from tell.explanations.known_labels import label_texts
from tell.explanations.matrices import dense
from tell.explanations.scan import Scan
from tell.explanations.terms import Terms


@dataclass(frozen=True, eq=False)
class Member:
    """One row of the data that stands for something: its number, values and place.

    `values` (d,) are its features, and `filled` names the columns in which it has a gap.
    """

    row: int
    values: Reals
    distance: float
    margin: float
    clearness: float
    runner_up: int
    label: str | None
    filled: tuple[str, ...] = ()


def members(part: Assigned, j: int, terms: Terms) -> tuple[Member, ...]:
    """The rows of `part` that belong to cluster j, in their order."""
    places = np.flatnonzero(part.labels == j).tolist()
    return tuple(_member(part, place, terms) for place in places)


def _member(part: Assigned, place: int, terms: Terms) -> Member:
    """One row of `part` as a fact."""
    return Member(
        row=int(part.rows[place]),
        values=dense(part.X[[place]])[0],
        distance=float(part.distance[place]),
        margin=float(part.margin[place]),
        clearness=float(part.clearness[place]),
        runner_up=int(part.runner_up[place]),
        label=None if part.y is None else label_texts(part.y[place : place + 1])[0],
        filled=terms.filled(None if part.filled is None else part.filled[place]),
    )


def outliers(found: Scan, j: int) -> tuple[Member, ...]:
    """Farthest members beyond Tukey's inner fence of the sampled distances."""
    distances = found.sample.distance[found.sample.labels == j]
    if len(distances) < 8:
        return ()
    low, high = np.percentile(distances, [25, 75])
    fence = high + 1.5 * (high - low)
    return tuple(one for one in members(found.farthest, j, found.terms) if one.distance > fence)
