"""Fit and predict for rows that are read in chunks: files larger than memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.core.layer import Geometry
from tell.data.sources import Source, open_source
from tell.estimators.scaling import Floats, Scaling
from tell.exceptions import InputError
from tell.progress import Bar

SAMPLE_BYTES = 1 << 27  # of rows held in memory: 1M rows of 32 features

Assign = Callable[[Any], tuple[NDArray[np.int32], NDArray[Any]]]


@dataclass
class Sample:
    """Rows drawn from a source, all alike likely, and the columns' moments over all rows."""

    X: NDArray[np.float32]
    n_rows: int
    mean: Floats
    variance: Floats

    @property
    def complete(self) -> bool:
        """Whether the sample is the whole source."""
        return len(self.X) == self.n_rows

    def scaling(self, geometry: Geometry, standardize: bool) -> Scaling:
        """The map that in-memory rows would get."""
        if standardize:
            return Scaling.from_moments(self.mean, self.variance)
        return Scaling(self.mean) if geometry == "euclidean" else Scaling()


def open_unweighted(data: Any, sample_weight: Any) -> Source:
    """Open rows that are not in memory; these cannot have weights."""
    if sample_weight is not None:
        raise InputError("sample_weight needs X as an array; read the file first")
    return open_source(data)


def read_sample(source: Source, seed: int, bar: Bar) -> Sample:
    """Read a source once; keep everything if it is small, else a uniform sample (reservoir)."""
    capacity = max(1, SAMPLE_BYTES // (4 * source.n_features))
    rng = np.random.default_rng(seed)
    # Pages that are never written take no memory: a small source costs no more than itself.
    kept = np.empty((capacity, source.n_features), dtype=np.float32)
    seen = 0
    mean: Floats = np.zeros(source.n_features)
    squares: Floats = np.zeros(source.n_features)
    for chunk in source.chunks():
        mean, squares = _merge_moments(mean, squares, seen, chunk.X)
        room = min(max(capacity - seen, 0), len(chunk.X))
        kept[seen : seen + room] = chunk.X[:room]
        if room < len(chunk.X):
            if not source.rereadable:
                raise InputError(
                    f"{source.name} can be read once and is larger than memory allows for; fit "
                    "needs a second pass: use partial_fit, or write it to a file first"
                )
            # Row i (from 0) replaces one of the kept with probability capacity / (i + 1).
            places = rng.integers(0, np.arange(seen + room, seen + len(chunk.X)) + 1)
            wins = places < capacity
            kept[places[wins]] = chunk.X[room:][wins]
        seen += len(chunk.X)
        bar.update(seen)
    if not seen:
        raise InputError(f"{source.name} must hold at least one row, got none")
    return Sample(kept[: min(seen, capacity)], seen, mean, squares / seen)


def _merge_moments(
    mean: Floats, squares: Floats, seen: int, X: NDArray[np.float32]
) -> tuple[Floats, Floats]:
    """Mean and sum of squared deviations after further rows (Chan et al. 1979)."""
    count = len(X)
    if not count:
        return mean, squares
    batch_mean = X.mean(axis=0, dtype=np.float64)
    batch_squares = np.square(X - batch_mean.astype(X.dtype)).sum(axis=0, dtype=np.float64)
    gap, total = batch_mean - mean, seen + count
    return (
        mean + gap * (count / total),
        squares + batch_squares + np.square(gap) * (seen * count / total),
    )


@dataclass
class Labelled:
    """Labels of all rows of a source and their mean loss."""

    labels: NDArray[np.int32]
    loss: float


def label_chunks(source: Source, assign: Assign, bar: Bar | None = None) -> Labelled:
    """Assign every row of a source, chunk by chunk."""
    labels = np.empty(source.n_rows or 0, dtype=np.int32)
    loss, seen = 0.0, 0
    for chunk in source.chunks():
        found, distances = assign(chunk.X)
        if seen + len(found) > len(labels):  # a stream does not know its length: double
            labels = np.resize(labels, max(2 * len(labels), seen + len(found)))
        labels[seen : seen + len(found)] = found
        loss += float(distances.sum(dtype=np.float64))
        seen += len(found)
        if bar is not None:
            bar.update(seen, loss=loss / seen)
    if not seen:
        raise InputError(f"{source.name} must hold at least one row, got none")
    return Labelled(labels[:seen], loss / seen)
