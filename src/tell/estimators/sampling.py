"""Rows of any source, within a limit of memory: all of them, or a sample drawn while reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.core.layer import Geometry
from tell.data.sources import Source
from tell.estimators.scaling import Floats, Scaling, column_sums
from tell.exceptions import InputError
from tell.progress import Bar

FEW_ROWS = 2048  # are always held: fewer would be no sample
GROWTH = 1.25  # of the labels of a source that does not know its length

Assign = Callable[[Any], tuple[NDArray[np.int32], NDArray[Any]]]


@dataclass
class Sample:
    """Rows of a source and, where these are not all, the columns' moments over all rows.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (m, d)
        All rows, or a uniform sample of them.
    n_rows : int
        How many rows the source has.
    is_copy : bool
        Whether X belongs to the sample alone and may be overwritten.
    """

    X: Any
    n_rows: int
    is_copy: bool
    mean: Floats | None = None
    variance: Floats | None = None

    @property
    def complete(self) -> bool:
        """Whether the sample is the whole source."""
        return int(self.X.shape[0]) == self.n_rows

    def scaling(self, geometry: Geometry, standardize: bool) -> Scaling:
        """The map that in-memory rows would get."""
        if self.mean is None or self.variance is None:
            return Scaling.learn(self.X, None, geometry, standardize)
        if standardize:
            return Scaling.from_moments(self.mean, self.variance, self.X.dtype)
        return Scaling(self.mean) if geometry == "euclidean" else Scaling()


def most_rows(limit: int, row_bytes: int, descended: int) -> int:
    """Rows that `limit` bytes hold, with a further copy of those that the steps are taken on.

    Parameters
    ----------
    row_bytes : int
        Bytes of a row and of what is computed for each: its length, label, distance.
    descended : int
        Rows of the largest sample that the engine takes steps on.
    """
    rows = limit // row_bytes
    return max(FEW_ROWS, rows - descended if rows >= 2 * descended else rows // 2)


def read_sample(source: Source, capacity: int, seed: int, bar: Bar | None = None) -> Sample:
    """Give all rows of a source if there are at most `capacity`, else a uniform sample.

    What is in memory is never sampled. Anything else is read once (a reservoir).
    """
    if source.in_memory:
        X = source.matrix()
        return Sample(X, X.shape[0], is_copy=False)
    bar = bar or Bar()
    random = np.random.default_rng(seed)
    if source.n_rows is not None:
        capacity = min(capacity, source.n_rows)
    # Pages that are never written take no memory: a small source costs no more than itself.
    kept = np.empty((capacity, source.n_features), dtype=source.dtype)
    moments = Moments(source.n_features)
    for chunk in source.chunks():
        seen = moments.rows
        moments.add(chunk.X)
        room = min(max(capacity - seen, 0), len(chunk.X))
        kept[seen : seen + room] = chunk.X[:room]
        if room < len(chunk.X):
            check_second_pass(source)
            # Row i (from 0) replaces one of the kept with probability capacity / (i + 1).
            places = random.integers(0, np.arange(seen + room, moments.rows) + 1)
            wins = places < capacity
            kept[places[wins]] = chunk.X[room:][wins]
        bar.update(moments.rows)
    if not moments.rows:
        raise InputError(f"{source.name} must hold at least one row, got none")
    if moments.rows <= capacity:
        return Sample(kept[: moments.rows], moments.rows, is_copy=True)
    return Sample(kept, moments.rows, True, moments.mean, moments.variance)


def check_second_pass(source: Source) -> None:
    """Refuse a stream of which more is to be seen than one pass."""
    if not source.rereadable:
        raise InputError(
            f"{source.name} can be read once and is larger than memory allows for; fit needs a "
            "second pass: use partial_fit, write it to a file first, or raise memory (--memory)"
        )


class Moments:
    """Mean and variance (d,) of the rows so far (Chan et al. 1979)."""

    def __init__(self, n_features: int) -> None:
        self.rows = 0
        self.mean: Floats = np.zeros(n_features)
        self._squares: Floats = np.zeros(n_features)

    @property
    def variance(self) -> Floats:
        """Mean squared deviation."""
        return self._squares / self.rows

    def add(self, X: NDArray[Any]) -> None:
        """Take further rows in."""
        if not len(X):
            return
        mean = column_sums(X) / len(X)
        middle = mean.astype(np.result_type(X.dtype, np.float32))  # bytes have no sign
        squares = column_sums(X, lambda rows: np.square(rows - middle))
        self.merge(len(X), mean, squares)

    def merge(self, rows: int, mean: Floats, squares: Floats) -> None:
        """Take in rows of which the mean and the summed squared deviations are known."""
        gap, total = mean - self.mean, self.rows + rows
        self.mean = self.mean + gap * (rows / total)
        self._squares = self._squares + squares + np.square(gap) * (self.rows * rows / total)
        self.rows = total


@dataclass
class Labelled:
    """Labels of all rows of a source, their mean loss, and that of each cluster (k,)."""

    labels: NDArray[np.int32]
    loss: float
    cluster_losses: Floats


def label_chunks(
    source: Source,
    assign: Assign,
    n_clusters: int,
    bar: Bar | None = None,
) -> Labelled:
    """Assign every row of a source, chunk by chunk."""
    labels = np.empty(source.n_rows or 0, dtype=np.int32)
    counts, losses, seen = np.zeros(n_clusters), np.zeros(n_clusters), 0
    loss = 0.0
    for chunk in source.chunks():
        found, distances = assign(chunk.X)
        end = seen + len(found)
        if end > len(labels):  # a stream does not know its length; the system moves no bytes here
            labels.resize(max(int(GROWTH * len(labels)), end), refcheck=False)
        labels[seen:end] = found
        counts += np.bincount(found, minlength=n_clusters)
        losses += np.bincount(found, distances, minlength=n_clusters)
        loss += float(distances.sum(dtype=np.float64))
        seen = end
        if bar is not None:
            bar.update(seen, loss=loss / seen)
    if not seen:
        raise InputError(f"{source.name} must hold at least one row, got none")
    return Labelled(labels[:seen], loss / seen, per_cluster(losses, counts))


def per_cluster(totals: NDArray[Any], counts: NDArray[Any]) -> Floats:
    """Totals (k,) over counts (k,); NaN where there is no row."""
    return np.divide(totals, counts, out=np.full(len(totals), np.nan), where=counts > 0)
