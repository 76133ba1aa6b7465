"""Feature sets of a stated size: the few columns that speak most for a cluster, or for a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import ParameterError
from tell.explanations.matrices import dense
from tell.explanations.view import Floats

if TYPE_CHECKING:
    from tell.explanations.facts import Explanation

Mask = NDArray[np.bool_]


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
    amounts = _contributions(facts) if exact else _standing_out(facts)
    labels, k = facts.sample.labels, len(facts.clusters)
    means = np.array(
        [
            amounts[labels == j].mean(axis=0) if np.any(labels == j) else np.zeros(d)
            for j in range(k)
        ]
    )
    clusters = open_gates(means, size)
    order = np.argsort(-means, axis=1, kind="stable")
    names = tuple(
        tuple(facts.data.feature_names[f] for f in order[j] if clusters[j, f]) for j in range(k)
    )
    return Gates(size, clusters, open_gates(amounts, size), names, exact)


def open_gates(amounts: Floats, size: int) -> Mask:
    """The `size` largest amounts of each line (n, d), of those above 0.

    >>> open_gates(np.array([[3.0, -1.0, 5.0], [1.0, 0.0, -2.0]]), 2).tolist()
    [[True, False, True], [True, False, False]]
    """
    best = np.argsort(-amounts, axis=1, kind="stable")[:, :size]
    gates = np.zeros(amounts.shape, bool)
    np.put_along_axis(gates, best, True, axis=1)
    return gates & (amounts > 0)


def _contributions(facts: Explanation) -> Floats:
    """What every feature adds to the margin over the runner-up: (n, d) for the sampled rows."""
    centers = np.array([one.center for one in facts.clusters])
    own, other = centers[facts.sample.labels], centers[facts.sample.runner_up]
    Z = np.asarray(dense(facts.sample.embedding), np.float64)
    return np.asarray(2 * (own - other) * (Z - (own + other) / 2))


def _standing_out(facts: Explanation) -> Floats:
    """How far a value lies from the mean of all rows, towards the side of its cluster: (n, d)."""
    X = np.asarray(dense(facts.terms.shown(facts.sample.values)), np.float64)
    X = X.reshape(len(X), -1)
    effects = np.array([one.effects for one in facts.clusters])[facts.sample.labels]
    spread = X.std(axis=0)
    scaled = np.divide(X - X.mean(axis=0), spread, out=np.zeros_like(X), where=spread > 0)
    return np.asarray(scaled * effects)
