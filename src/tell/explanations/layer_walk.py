"""One row through the layer: the paper's four parts and its attention, with actual numbers.

Section 3.3 of the paper reads the layer part by part (input, weight, activation, loss), and its
figure 4 a second time as attention: how dissimilar the row is to each centre, weighted by how much
attention it pays there. Both are the same numbers, which stand here line by line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tell.explanations.clusters import ClusterFacts
from tell.explanations.points import PointFacts
from tell.explanations.view import Floats, Ints

#: Centres that are drawn, nearest first.
MOST_LINES = 10
#: Features of a strip of weights: those in which the centres differ most.
MOST_FEATURES = 64


@dataclass(frozen=True, eq=False)
class Line:
    """One centre: score W_jᵀx + b_j, what is left of β, attention, and its part of the loss."""

    cluster: int
    score: float
    dissimilarity: float
    attention: float
    assignment: float


@dataclass(frozen=True, eq=False)
class Walk:
    """A row on its way through the layer.

    Attributes
    ----------
    point : the row
    beta : ‖x‖² of the row as the layer sees it
    lines : the nearest centres, nearest first; `n_others` are not shown
    loss : Σ I_j (β − W_jᵀx − b_j) with the hard assignment, which is what is minimised
    soft_loss : the same sum with the attention of the soft view
    features : (m,) the features that the strips show, in their own order
    x, weights : (m,) and (lines, m) the row and W there, between −1 and 1
    """

    point: PointFacts
    beta: float
    lines: tuple[Line, ...]
    n_others: int
    loss: float
    soft_loss: float
    features: Ints
    x: Floats
    weights: Floats


def walk(point: PointFacts, clusters: Sequence[ClusterFacts], *, on_sphere: bool) -> Walk:
    """Take an explained row through the layer, part by part."""
    z = point.layer_row
    centers = np.array([one.center for one in clusters])
    # Eq. 5: W = 2Ω and b = −‖Ω‖², which is constant on the sphere.
    weight = 2 * centers
    bias = -np.ones(len(centers)) if on_sphere else -np.einsum("ij,ij->i", centers, centers)
    beta = 1.0 if on_sphere else float(z @ z)
    scores = weight @ z + bias
    dissimilarity = np.maximum(beta - scores, 0.0)  # Eq. 6
    order = np.argsort(dissimilarity, kind="stable")[:MOST_LINES]
    features = _telling(weight)
    lines = tuple(
        Line(
            int(j),
            float(scores[j]),
            float(dissimilarity[j]),
            float(point.attention[j]),
            float(point.assignment[j]),
        )
        for j in order
    )
    return Walk(
        point=point,
        beta=beta,
        lines=lines,
        n_others=len(centers) - len(lines),
        loss=float(dissimilarity[point.cluster]),
        soft_loss=float(point.attention @ dissimilarity),
        features=features,
        x=_scaled(z[features]),
        weights=_scaled(weight[np.ix_(order, features)]),
    )


def _telling(weight: Floats) -> Ints:
    """The features in which the centres differ most, in their own order."""
    apart = np.ptp(weight, axis=0)
    return np.sort(np.argsort(-apart, kind="stable")[:MOST_FEATURES])


def _scaled(values: Floats) -> Floats:
    return np.asarray(values / (np.abs(values).max(initial=0.0) or 1.0))
