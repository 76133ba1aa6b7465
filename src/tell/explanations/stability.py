"""Would the same facts come out again: from another half of the rows, or another seed?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from tell.explanations.assigned import Assigned, assign
from tell.explanations.explained_rows import Block
from tell.explanations.matrices import cluster_sums
from tell.explanations.view import EncodedInput, Floats, Ints, ModelView, view_model

#: Features per cluster that are compared.
NAMED = 3
#: Rows of a sparse matrix that models are fitted to again.
SPARSE_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Repeat:
    """Facts that came out again, averaged over refits.

    `agreement` is the adjusted Rand index of the two partitions; `features` the share of the
    three features named per cluster that are named again for the matching cluster; `chance` the
    share that would come out by chance.
    """

    agreement: float
    features: float
    chance: float
    n_refits: int


@dataclass(frozen=True, eq=False)
class Stability:
    """Under resampling (another half of the rows) and under another seed.

    A model with an encoder is not refitted for its own explanation, and one without a seed cannot
    be: there both are None and only `resampled_features` is known, with the model held fixed.
    """

    resampling: Repeat | None
    seed: Repeat | None
    resampled_features: float


def measure_stability(
    view: ModelView, sample: Assigned, seed: int, n_refits: int = 3, max_rows: int = 2000
) -> Stability:
    """Refit a linear model on half of the sampled rows, and on all with other seeds."""
    if sparse.issparse(sample.X):  # wide rows take long to fit: fewer of them, and once
        n_refits, max_rows = 1, SPARSE_ROWS
    random = np.random.default_rng(seed)
    few = sample.take(np.sort(random.permutation(len(sample))[:max_rows]))
    halves = [np.sort(random.permutation(len(few))[: len(few) // 2]) for _ in range(n_refits)]
    fixed = float(np.mean([_renamed(few, few.take(half), view.n_clusters) for half in halves]))
    # A model without a seed cannot be fitted again with another one.
    seeded = "random_state" in view.about.settings
    encoded = isinstance(view.path, EncodedInput)
    if encoded or not seeded or len(halves[0]) <= view.n_clusters:
        return Stability(None, None, fixed)
    own = view.about.settings["random_state"]  # the same seed would only repeat the model
    others = itertools.islice((s for s in itertools.count(seed + 1) if s != own), n_refits)
    return Stability(
        resampling=_repeat(view, few, ((half, seed) for half in halves), n_refits),
        seed=_repeat(view, few, ((None, other) for other in others), n_refits),
        resampled_features=fixed,
    )


def _repeat(
    view: ModelView, few: Assigned, trials: Iterable[tuple[Ints | None, int]], n_refits: int
) -> Repeat | None:
    from sklearn.metrics import adjusted_rand_score

    agreement, features = [], []
    for rows, seed in trials:
        refit = view.model.refit(few.X if rows is None else few.X[rows], seed)
        if refit is None:
            return None
        again = view_model(refit)
        labels = assign(again, Block(few.X, None, few.rows)).labels
        agreement.append(adjusted_rand_score(few.labels, labels))
        features.append(_named_again(view, again, few.labels, labels))
    d = view.centers.shape[1]
    chance = min(1.0, NAMED / d)
    return Repeat(float(np.mean(agreement)), float(np.mean(features)), chance, n_refits)


def _named_again(view: ModelView, again: ModelView, labels: Ints, labels_again: Ints) -> float:
    """Share of the named features of every cluster that its best match names too."""
    counts = np.zeros((view.n_clusters, again.n_clusters))
    np.add.at(counts, (labels, labels_again), 1)
    pairs = zip(*linear_sum_assignment(-counts), strict=True)
    first, second = _top(view.centers), _top(again.centers)
    return float(np.mean([_overlap(first[a], second[b]) for a, b in pairs if counts[a, b] > 0]))


def _renamed(whole: Assigned, part: Assigned, k: int) -> float:
    """Share of the features with the largest difference of means that the part names too."""
    first, second = _means(whole, k), _means(part, k)
    there = np.flatnonzero(~np.isnan(second[:, 0]) & ~np.isnan(first[:, 0]))
    tops = _top(first[there]), _top(second[there])
    return float(np.mean([_overlap(a, b) for a, b in zip(*tops, strict=True)]))


def _means(part: Assigned, k: int) -> Floats:
    """Means (k, d) in standard deviations of the columns; NaN for a cluster without rows."""
    shift = np.zeros(part.X.shape[1])
    if isinstance(part.X, np.ndarray):
        shift = part.X.mean(axis=0, dtype=np.float64)
    sums, squares = cluster_sums(part.X, part.labels, k, shift)
    sizes, n = np.bincount(part.labels, minlength=k)[:, None], len(part)
    variance = squares.sum(axis=0) / n - (sums.sum(axis=0) / n) ** 2
    spread = np.sqrt(np.maximum(variance, 0.0))
    means = shift + np.divide(sums, sizes, out=np.full_like(sums, np.nan), where=sizes > 0)
    return means / np.where(spread > 0, spread, 1)


def _top(centers: Floats) -> list[set[int]]:
    contrast = np.abs(centers - centers.mean(axis=0))
    return [set(np.argsort(-row, kind="stable")[:NAMED].tolist()) for row in contrast]


def _overlap(first: set[int], second: set[int]) -> float:
    return len(first & second) / len(first)
