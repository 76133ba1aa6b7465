"""The four measures of Interpretable Deep Clustering (Svirsky and Lindenbaum, ICML 2024).

They judge gates (n, d): which features an explanation names for every row, as zeros and ones or as
weights of at least 0. They are computed as the authors' published program computes them, with its
peculiarities, which are told at each.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tell.contract import Floats, Ints, Reals
from tell.metrics import accuracy

Predict = Callable[[Reals], NDArray[np.integer]]


def faithfulness(X: Reals, gates: ArrayLike, predict: Predict, y: ArrayLike) -> float:
    """Do features that are named often matter to the model?

    Features are set to 0 for good, one after another, those open in most rows first; the measure is
    the correlation between in how many rows a feature is open and the accuracy against `y` that is
    left after it fell. 1 is best. NaN where all features are open equally often, or where the
    accuracy stays the same from the first on.

    Parameters
    ----------
    X : (n, d) rows
    gates : (n, d)
    predict : rows to clusters (n,)
    y : (n,) known classes, or the clusters that the model gives
    """
    counts = np.sum(np.asarray(gates) > 0, axis=0)
    order = np.flatnonzero(counts)
    order = order[np.argsort(-counts[order], kind="stable")]
    kept, scores = np.array(X, copy=True), []
    for feature in order:
        kept[:, feature] = 0
        scores.append(accuracy(y, predict(kept)))
    left = np.array(scores)
    if len(order) < 2 or np.ptp(counts[order]) == 0 or np.ptp(left) == 0:
        return float("nan")
    return float(np.corrcoef(counts[order], left)[0, 1])


def generalizability(
    train: tuple[Reals, ArrayLike, ArrayLike], test: tuple[Reals, ArrayLike, ArrayLike]
) -> float:
    """Do the named features serve another simple model?

    Accuracy on test rows of a linear support vector classifier that learns from rows times gates;
    either is a triple of rows (n, d), gates (n, d) and classes (n,).
    """
    from sklearn.svm import LinearSVC

    (X, gates, y), (X_test, gates_test, y_test) = train, test
    model = LinearSVC(random_state=0).fit(X * np.asarray(gates), np.asarray(y))
    return float(model.score(X_test * np.asarray(gates_test), np.asarray(y_test)))


def diversity(gates: ArrayLike, labels: ArrayLike, n_clusters: int) -> float:
    """Do different clusters have different features, in percent?

    100 (1 − Σ_ij J_ij / (k (k − 1))) with the Jaccard index J of the features whose median gate is
    open in clusters i and j. The published sum runs over the pairs (i, i) too, where J is 1:
    clusters that share nothing reach 100 (1 − 1 / (k − 1)), which is 88.9 for ten. Two clusters
    without any open feature count as 0, and so does a cluster with itself then.
    """
    open_ones, numbers = np.asarray(gates), np.asarray(labels)
    sets = np.array(
        [
            np.median(open_ones[numbers == j], axis=0) > 0
            if np.any(numbers == j)
            else np.zeros(open_ones.shape[1], bool)
            for j in range(n_clusters)
        ]
    )
    both = (sets[:, None] & sets[None]).sum(axis=2)
    either = (sets[:, None] | sets[None]).sum(axis=2)
    jaccard = np.divide(both, either, out=np.zeros(both.shape), where=either > 0)
    return float(100 * (1 - jaccard.sum() / (n_clusters * (n_clusters - 1))))


def uniqueness(X: Reals, gates: ArrayLike, n_neighbours: int = 1) -> float:
    """Do similar rows still get reasons of their own?

    The mean over rows of the smallest ‖g_i − g_j‖ / ‖x_i − x_j‖ over their nearest neighbours. Rows
    that are equal to a neighbour, for which the program would divide by 0, are left out; NaN where
    that leaves none.
    """
    from sklearn.neighbors import NearestNeighbors

    rows, open_ones = np.asarray(X, np.float64), np.asarray(gates, np.float64)
    search = NearestNeighbors(n_neighbors=n_neighbours).fit(rows)
    near = search.kneighbors(return_distance=False)  # of every row, itself left out
    distance, apart = _gaps(rows, near), _gaps(open_ones, near)
    ratio = np.divide(apart, distance, out=np.full(apart.shape, np.inf), where=distance > 0)
    smallest = ratio.min(axis=1)
    known = np.isfinite(smallest) & (distance > 0).all(axis=1)
    return float(smallest[known].mean()) if known.any() else float("nan")


def _gaps(rows: Floats, near: Ints) -> Floats:
    """How far every row is from its neighbours (n, m); exactly 0 from one that is equal."""
    return np.asarray(np.linalg.norm(rows[:, None] - rows[near], axis=2))
