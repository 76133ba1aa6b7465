"""Rows without groups that spread as given ones do: what clusters are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import norm

from tell.choosing.skew import bend, most_normal, unbend
from tell.contract import Floats, Ints

#: Columns with at most this many values keep them: steps alone are no groups.
FEW_VALUES = 10


def structureless(
    rows: Floats, categories: list[Ints], random: np.random.Generator, n_draws: int
) -> Iterator[Floats]:
    """Rows like these (n, d) in spread and correlation, but without groups: sets of four kinds.

    Normal ones; ones that fill a box along the main axes; ones that fill the box of the columns'
    ranges; and ones as skewed as the columns. Categories are drawn as often as they occur, and
    columns with few values keep these.
    """
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    vary = deviation > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    low, high = rows[:, vary].min(axis=0), rows[:, vary].max(axis=0)
    grouped = {int(f) for part in categories for f in part}
    few = {
        f: np.sort(column)
        for f, column in enumerate(rows.T)
        if f not in grouped and len(np.unique(column)) <= FEW_VALUES
    }
    mixing = _mixing(rows)
    skewed = _skewed((rows[:, vary] - mean[vary]) / deviation[vary])
    for _ in range(n_draws):
        normal = random.normal(size=(len(rows), len(mixing))) @ mixing
        flat = np.sqrt(3) * random.uniform(-1, 1, size=(len(rows), len(mixing))) @ mixing
        box, bent = (np.tile(mean, (len(rows), 1)) for _ in range(2))
        box[:, vary] = low + norm.cdf(normal[:, vary] / deviation[vary]) * (high - low)
        bent[:, vary] += deviation[vary] * skewed(random)
        for drawn in (mean + normal, mean + flat, box, bent):
            yield _with_own_values(drawn, few, rows, categories, random)


def _mixing(rows: Floats) -> Floats:
    """What gives independent columns (n, r) of deviation 1 the covariance of these rows: (r, d)."""
    _, spread, axes = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    return np.asarray((spread / np.sqrt(len(rows)))[:, None] * axes)


def _skewed(rows: Floats) -> Callable[[np.random.Generator], Floats]:
    """Rows (n, d) with the skew of these: normal ones behind Yeo and Johnson's power transform."""
    power = most_normal(rows)
    level = bend(rows, power)
    mixing, middle = _mixing(level), level.mean(axis=0)
    low, high = level.min(axis=0), level.max(axis=0)

    def draw(random: np.random.Generator) -> Floats:
        drawn = middle + random.normal(size=(len(rows), len(mixing))) @ mixing
        return unbend(np.clip(drawn, low, high), power)

    return draw


def _with_own_values(
    drawn: Floats,
    sorted_few: dict[int, Floats],
    rows: Floats,
    categories: list[Ints],
    random: np.random.Generator,
) -> Floats:
    """Put the values of these rows into drawn ones, where they are categories or few."""
    for f, values in sorted_few.items():
        rank = np.argsort(np.argsort(drawn[:, f] + 1e-9 * random.normal(size=len(drawn))))
        drawn[:, f] = values[rank]
    for part in categories:
        drawn[:, part] = rows[random.permutation(len(rows))][:, part]
    return drawn


def compressed(X: Any, seed: int, n_components: int = 50) -> Floats:
    """Sparse or wide rows on their main axes, (n, at most 50): what differs, nearly."""
    from sklearn.decomposition import TruncatedSVD

    count = max(1, min(n_components, X.shape[0] - 1, X.shape[1] - 1))
    return np.asarray(TruncatedSVD(count, random_state=seed).fit_transform(X), np.float64)
