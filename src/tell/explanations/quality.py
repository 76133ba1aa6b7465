"""How far the explanations themselves can be trusted, as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tell.explanations.assigned import Assigned
from tell.explanations.matrices import dense
from tell.explanations.points import margin_contributions
from tell.explanations.stability import Stability, measure_stability
from tell.explanations.surrogate import Surrogate, fit_surrogate
from tell.explanations.terms import Terms
from tell.explanations.view import AffineInput, EncodedInput, Floats, ModelView

#: Features taken away per row when faithfulness is measured; never more than half of all.
REMOVED = 3
#: Rows tried where every reason takes many gradients through an encoder.
ATTRIBUTED_ROWS = 32
#: Rows of a sparse matrix that are made dense for it: they may have many columns.
SPARSE_ROWS = 50


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
