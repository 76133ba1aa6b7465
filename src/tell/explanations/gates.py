"""Feature sets of a stated size: the few columns that speak most for a cluster, or for a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tell.exceptions import ParameterError
from tell.explanations.matrices import dense
from tell.explanations.points import split_margin
from tell.explanations.view import Floats

if TYPE_CHECKING:
    from tell.explanations.facts import Explanation

Mask = NDArray[np.bool_]
#: Rows whose amounts are held at once: they may have many columns.
BLOCK_ROWS = 512


@dataclass(frozen=True, eq=False)
class Gates:
    """Which features are open.

    Attributes
    ----------
    size : features per cluster and per row; fewer where fewer speak for it at all
    clusters : (k, d) by the mean contribution over the sampled members; none where there are none
    rows : (n, d) of the sampled rows, by their own contributions
    names : of each cluster its features, strongest first
    exact : whether contributions are those of the margin; behind an encoder features are ranked by
        how far the members' mean, or the row, lies from all other rows on the cluster's side
    """

    size: int
    clusters: Mask
    rows: Mask
    names: tuple[tuple[str, ...], ...]
    exact: bool


def choose_gates(facts: Explanation, size: int) -> Gates:
    """Open `size` features per cluster and per row; `Explanation.gates` is the way to it."""
    d = facts.data.n_features
    if not 1 <= size <= d:
        raise ParameterError(f"size must be a number of features from 1 to {d}, got {size}")
    exact = facts.model.centers_from == "model"
    labels, k = facts.sample.labels, len(facts.clusters)
    sums, rows = np.zeros((k, d)), np.zeros((len(labels), d), bool)
    for low in range(0, len(labels), BLOCK_ROWS):
        part = slice(low, low + BLOCK_ROWS)
        amounts = _contributions(facts, part) if exact else _standing_out(facts, part)
        np.add.at(sums, labels[part], amounts)
        rows[part] = open_gates(amounts, size)
    means = sums / np.maximum(np.bincount(labels, minlength=k), 1)[:, None]
    clusters = open_gates(means, size)
    order = np.argsort(-means, axis=1, kind="stable")
    names = tuple(
        tuple(facts.data.feature_names[f] for f in order[j] if clusters[j, f]) for j in range(k)
    )
    return Gates(size, clusters, rows, names, exact)


def open_gates(amounts: Floats, size: int) -> Mask:
    """The `size` largest amounts of each line (n, d), of those above 0.

    >>> open_gates(np.array([[3.0, -1.0, 5.0], [1.0, 0.0, -2.0]]), 2).tolist()
    [[True, False, True], [True, False, False]]
    """
    best = np.argsort(-amounts, axis=1, kind="stable")[:, :size]
    gates = np.zeros(amounts.shape, bool)
    np.put_along_axis(gates, best, True, axis=1)
    return gates & (amounts > 0)


def _contributions(facts: Explanation, part: slice) -> Floats:
    """What every feature adds to the margin over the runner-up: (n, d) for some sampled rows."""
    centers = np.array([one.center for one in facts.clusters])
    own, other = centers[facts.sample.labels[part]], centers[facts.sample.runner_up[part]]
    Z = facts.sample.embedding[part]
    # As in `margin_contributions`: of sparse rows on the sphere only what is there speaks.
    from_zero = facts.model.geometry == "sphere" and sparse.issparse(Z)
    return split_margin(np.asarray(dense(Z), np.float64), own, other, from_zero=from_zero)


def _standing_out(facts: Explanation, part: slice) -> Floats:
    """How far a value lies from the mean of all rows, towards the side of its cluster: (n, d)."""
    all_rows = np.asarray(dense(facts.terms.shown(facts.sample.values)), np.float64)
    all_rows = all_rows.reshape(len(all_rows), -1)
    X, spread = all_rows[part], all_rows.std(axis=0)
    effects = np.array([one.effects for one in facts.clusters])[facts.sample.labels[part]]
    apart = X - all_rows.mean(axis=0)
    scaled = np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
    return np.asarray(scaled * effects)
