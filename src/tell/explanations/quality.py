"""How far the explanations can be trusted: are they faithful, and would they come out again?"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from tell.explanations.explained_rows import Block
from tell.explanations.matrices import cluster_sums, dense
from tell.explanations.points import margin_contributions
from tell.explanations.surrogate import Surrogate, fit_surrogate
from tell.explanations.terms import Terms
from tell.explanations.view import (
    AffineInput,
    Assigned,
    EncodedInput,
    Floats,
    Ints,
    ModelView,
    assign,
    view_model,
)

#: Features per cluster that are compared.
NAMED = 3

#: Features taken away per row when faithfulness is measured; never more than half of all.
REMOVED = 3
#: Rows tried where every reason takes many gradients through an encoder.
ATTRIBUTED_ROWS = 32
#: Rows of a sparse matrix that are made dense for it: they may have many columns.
SPARSE_ROWS = 50
#: And such that models are fitted to again.
REFIT_SPARSE_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Faithfulness:
    """What happens when the named features are taken away and the model is asked again.

    Attributes
    ----------
    n_rows : rows tried
    n_removed : features removed per row
    stated, measured : part of all margins that is lost, as the explanations state it, and in truth
    random : the same when as many of the other features are removed, drawn at random
    correlation : between stated and measured loss, row by row
    better_than_random : share of rows where the named features cost more margin than random ones
    """

    n_rows: int
    n_removed: int
    stated: float
    measured: float
    random: float
    correlation: float
    better_than_random: float


@dataclass(frozen=True, eq=False)
class QualityFacts:
    """Numbers about the explanations, from a seeded sample of `n_sample` rows.

    `agreement` is the share of rows where the nearest centre, which explanations speak about,
    is also what `model.predict` answers.
    """

    n_sample: int
    agreement: float
    faithfulness: Faithfulness | None
    stability: Stability | None
    surrogate: Surrogate | None


def measure_quality(
    view: ModelView,
    sample: Assigned,
    names: Sequence[str],
    terms: Terms,
    *,
    baseline: Floats,
    seed: int = 0,
) -> QualityFacts:
    """Faithfulness, stability and surrogate agreement on sampled rows."""
    several = len(np.unique(sample.labels)) > 1
    return QualityFacts(
        n_sample=len(sample),
        agreement=float(np.mean(view.predict(sample.X) == sample.labels)),
        faithfulness=measure_faithfulness(view, sample, baseline, seed) if several else None,
        stability=measure_stability(view, sample, seed) if several else None,
        surrogate=fit_surrogate(sample, names, terms, seed) if several else None,
    )


def measure_faithfulness(
    view: ModelView, sample: Assigned, baseline: Floats, seed: int, max_rows: int = 500
) -> Faithfulness | None:
    """Take the strongest features of every row away, ask the model again, compare with the claim.

    Taking a feature away means giving it the value that favours neither cluster: the middle of
    the two centres; 0 in sparse rows on the sphere; for a deep model, the baseline's value. None
    for a single column: there are no other features to compare with.
    """
    if sample.X.shape[1] == 1:
        return None
    exact = isinstance(view.path, AffineInput)
    limit = max_rows if exact else ATTRIBUTED_ROWS
    if sparse.issparse(sample.X):
        limit = SPARSE_ROWS
    random = np.random.default_rng(seed)
    few = np.sort(random.permutation(len(sample))[:limit])
    part = sample.take(few[sample.margin[few] > 0])
    if not len(part):
        return None
    from_zero = sparse.issparse(part.X) and view.on_sphere
    part = replace(part, X=dense(part.X))
    amounts, neutral = _claims(view, part, baseline, from_zero=from_zero)
    half, twentieth = (max(1, amounts.shape[1] // part) for part in (2, 20))
    count = min(REMOVED, half) if exact else twentieth
    named = np.argsort(-amounts, axis=1)[:, :count]
    keys = random.random(amounts.shape)
    np.put_along_axis(keys, named, np.inf, axis=1)  # the same features would prove nothing
    chance = np.argsort(keys, axis=1)[:, :count]
    stated = np.take_along_axis(amounts, named, axis=1).sum(axis=1)
    measured = _lost_margin(view, part, neutral, named)
    by_chance = _lost_margin(view, part, neutral, chance)
    total = float(part.margin.sum())
    return Faithfulness(
        n_rows=len(part),
        n_removed=count,
        stated=float(stated.sum() / total),
        measured=float(measured.sum() / total),
        random=float(by_chance.sum() / total),
        correlation=_correlation(stated, measured),
        better_than_random=float(np.mean(measured > by_chance)),
    )


def _claims(
    view: ModelView, part: Assigned, baseline: Floats, *, from_zero: bool
) -> tuple[Floats, Floats]:
    """Contributions (n, d) and the neutral values (n, d), in the data's own units."""
    path = view.path
    if isinstance(path, EncodedInput):
        return _attributed(path, part, baseline), np.broadcast_to(baseline, part.X.shape)
    j, k = part.labels, part.runner_up
    if from_zero:
        amounts = margin_contributions(view, view.layer_rows(part.X), j, k, from_zero=True)
        return amounts, np.zeros(part.X.shape)
    amounts = margin_contributions(view, view.layer_rows(part.X), j, k)
    middle = (view.centers[j] + view.centers[k]) / 2
    if view.on_sphere:  # centres have unit length: bring the middle to the length of the row
        middle = middle * np.linalg.norm(path.apply(part.X), axis=1, keepdims=True)
    return amounts, path.undo(middle)


def _attributed(path: EncodedInput, part: Assigned, baseline: Floats) -> Floats:
    from tell.explanations.attribution import integrated_gradients

    amounts = np.zeros(part.X.shape)
    pairs = np.stack([part.labels, part.runner_up], axis=1)
    for j, k in np.unique(pairs, axis=0):
        rows = np.flatnonzero(np.all(pairs == (j, k), axis=1))
        amounts[rows] = integrated_gradients(
            path, part.X[rows], int(j), int(k), baseline, n_steps=32
        )[0]
    return amounts


def _lost_margin(
    view: ModelView, part: Assigned, neutral: Floats, removed: NDArray[np.intp]
) -> Floats:
    """Loss of margin (n,) when the columns `removed` (n, m) turn neutral."""
    X = np.array(part.X, np.float64)
    np.put_along_axis(X, removed, np.take_along_axis(neutral, removed, axis=1), axis=1)
    squared = view.squared_distances(view.layer_rows(X))
    rows = np.arange(len(X))
    left = squared[rows, part.runner_up] - squared[rows, part.labels]
    return np.asarray(part.margin - left)


def _correlation(first: Floats, second: Floats) -> float:
    if len(first) < 2 or first.std() == 0 or second.std() == 0:
        return 1.0 if np.allclose(first, second) else 0.0
    return float(np.corrcoef(first, second)[0, 1])


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
        n_refits, max_rows = 1, REFIT_SPARSE_ROWS
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
