"""The step of `tell.core.online` for small batches, where calls cost more than numbers.

A step is some fifty calls whatever the number of rows, and one of NumPy takes a third of the time
of one of torch. The formulas are those of `assignment`, `engine`, `radii` and `online`; only sums
may be rounded otherwise. Rows that need more care than speed are left to those.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.core.assignment import (
    FEW_CLUSTERS,
    FEW_DIGITS,
    SCORES_IN_CACHE,
    Assignment,
    DenseRows,
    Totals,
)
from tell.core.layer import Geometry
from tell.core.online import IDLE_SHARE, StreamState, is_time_to_revive, noted, revive_idle
from tell.core.radii import BINS, LOWEST, PER_OCTAVE, Radii

Numbers = NDArray[np.floating[Any]]
Labels = NDArray[np.intp]

LENGTHS = (1e-15, 1e15)  # of rows whose squares float32 holds, and sums of very many of them
MOST_ROWS = 1 << 13  # of a small batch; its numbers and scores stay in a core's cache
MOST_SEEN = 2.0**60  # rows, or weight: beyond it numbers are first brought near 1
SHORT = 512  # rows whose scores are searched row by row; more are compared centre by centre
FEW_TERMS = 1 << 20  # of a product that is not worth torch's threads

_POSITIONS = np.arange(MOST_ROWS)


def is_small(x: Any, state: StreamState) -> bool:
    """Whether rows are a batch for this file: a small array, of a stream on the CPU."""
    centers = state.centers
    return (
        type(x) is np.ndarray
        and x.shape[0] <= MOST_ROWS
        and x.shape[0] * max(centers.shape) <= SCORES_IN_CACHE
        and state.growth is None
        and state.seen < MOST_SEEN
        and centers.device.type == "cpu"
    )


@np.errstate(all="ignore")  # what overflows or is no number is found in the result
def small_labels(x: Numbers, centers: Tensor, geometry: Geometry) -> Labels | None:
    """The nearest centre of each row of x (n, d); None where only the longer way can tell."""
    labels, best = _search(x, centers.numpy().astype(x.dtype, copy=False), geometry)
    if geometry == "euclidean":
        length = _lengths(x)
        return None if length is None or _distances(length, best, geometry) is None else labels
    # One look at the scores instead of at all of x; NaN lies between no limits.
    return labels if LENGTHS[0] < np.abs(best).max() < LENGTHS[1] else None


@np.errstate(all="ignore")
def small_step(
    state: StreamState, x: Numbers, geometry: Geometry, half_life: float | None
) -> tuple[StreamState, dict[str, float], Labels] | None:
    """As `online.step` on rows x (n, d) that count once each, in the precision of the centres.

    None where the rows need the longer way: not finite, of no or an extreme length, or so near to
    their centre that the digits of the distance are lost.
    """
    length, before = _lengths(x), state.centers.numpy()
    if length is None:
        return None
    labels, best = _search(x, before, geometry)
    distances = _distances(length, best, geometry)
    if distances is None:
        return None
    n, k = len(x), len(before)
    keep = 1.0 if half_life is None else 0.5 ** (n / half_life)
    apart = distances.astype(np.float64)
    loss = float(np.add.reduce(apart)) / n
    apart -= loss
    members, sums = np.bincount(labels, minlength=k), state.memory.sums.numpy() * keep
    sums += _totals(x, length, labels, k, geometry)
    counts = state.memory.counts.numpy() * keep + members
    lengths = state.lengths.numpy() * keep + np.bincount(labels, length, minlength=k)
    centers = _moved(before, sums, counts, members > 0, geometry)
    new = StreamState(
        torch.from_numpy(centers),
        Totals(torch.from_numpy(sums), torch.from_numpy(counts)),
        torch.from_numpy(lengths),
        state.seen + n,
        state.revived_at,
        state.watch.following(float(n), loss, float(apart @ apart)),
        None if state.radii is None else _radii(state.radii, labels, distances, keep),
    )
    new, revived = _revived(new, x, labels, distances, geometry)
    gap = (new.centers.numpy() - before).ravel() if revived else (centers - before).ravel()
    record = noted(
        new,
        rows=float(n),
        loss=loss,
        moved=math.sqrt(float(gap @ gap) / k),
        far=np.count_nonzero(distances > state.watch.far) / n,
        revived=revived,
    )
    return new, record, labels


def _tensor(x: Numbers) -> Tensor:
    # torch warns about read-only memory (joblib's maps): it is only ever read here.
    return torch.from_numpy(x if x.flags.writeable else x.copy())


def _product(a: Numbers, b: Numbers) -> Numbers:
    if a.size * b.shape[1] <= FEW_TERMS:
        return a @ b
    return (_tensor(a) @ _tensor(b)).numpy()


def _lengths(x: Numbers) -> Numbers | None:
    """Length of each row (n,); None if one is extreme or no number."""
    squares = np.vecdot(x, x)
    usual = squares.min() > LENGTHS[0] ** 2 and squares.max() < LENGTHS[1] ** 2
    return np.sqrt(squares) if usual else None


def _search(x: Numbers, centers: Numbers, geometry: Geometry) -> tuple[Labels, Numbers]:
    """The nearest centre of each row, as far as the rows' precision tells, and its score (n,)."""
    n, k = len(x), len(centers)
    bias = None if geometry == "sphere" else np.vecdot(centers, centers) / -2
    if n <= SHORT or k > FEW_CLUSTERS:
        scores = _product(x, np.ascontiguousarray(centers.T))
        if bias is not None:
            scores += bias
        labels = scores.argmax(axis=1)
        return labels, scores[_POSITIONS[:n], labels]
    scores = _product(centers, x.T)
    if bias is not None:
        scores += bias[:, None]
    best = scores.max(axis=0)
    # The first centre that reaches the maximum has the highest rank of those that do.
    rank = np.arange(k - 1, -1, -1, dtype=np.uint8)[:, None]
    return k - 1 - ((scores == best) * rank).max(axis=0).astype(np.intp), best


def _distances(length: Numbers, best: Numbers, geometry: Geometry) -> Numbers | None:
    """Squared distances (n,) of rows with these best scores; None if one has lost its digits."""
    if geometry == "sphere":
        distances = best / length
        distances *= -2
        distances += 2  # Eq. 12
        return np.maximum(distances, 0, out=distances)
    squares = length * length
    distances = np.maximum(squares - 2 * best, 0)  # Eq. 6
    lost = distances < FEW_DIGITS * np.finfo(squares.dtype).eps * squares
    return None if lost.any() else distances


def _totals(x: Numbers, length: Numbers, labels: Labels, k: int, geometry: Geometry) -> Numbers:
    """Sums (k, d) of the rows of each cluster, of unit length on the sphere."""
    assignment = np.zeros((k, len(x)), x.dtype)
    assignment[labels, _POSITIONS[: len(x)]] = 1 / length if geometry == "sphere" else 1
    return _product(assignment, x)


def _moved(
    centers: Numbers, sums: Numbers, counts: Numbers, fed: NDArray[np.bool_], geometry: Geometry
) -> Numbers:
    """Centres that got rows where the memory says (as `engine.step_to`), the others as they are."""
    size = counts
    if geometry == "sphere":
        size = np.sqrt(np.vecdot(sums, sums))
        fed &= size > 1e-12 * counts  # opposite rows may cancel: no direction
    moved = centers.copy()
    return np.divide(sums, size[:, None], out=moved, where=fed[:, None], casting="same_kind")


def _radii(radii: Radii, labels: Labels, distances: Numbers, keep: float) -> Radii:
    """As `Radii.after`."""
    shares = np.maximum(distances / radii.unit.numpy()[labels], 2.0**LOWEST)
    places = ((np.log2(shares) - LOWEST) * PER_OCTAVE).astype(np.intp)
    places = np.minimum(places, BINS - 1) + labels * BINS
    counts = radii.counts.numpy() * keep
    np.add.at(counts.reshape(-1), places, 1.0)
    return Radii(torch.from_numpy(counts), radii.unit)


def _revived(
    state: StreamState, x: Numbers, labels: Labels, distances: Numbers, geometry: Geometry
) -> tuple[StreamState, int]:
    """As `online.revive_idle`, where it is time for it."""
    if not is_time_to_revive(state):
        return state, 0
    counts = state.memory.counts.numpy()
    if counts.min() >= IDLE_SHARE * counts.sum() / len(counts):
        return replace(state, revived_at=state.seen), 0
    nearest = Assignment(torch.from_numpy(labels), torch.from_numpy(distances))
    return revive_idle(state, DenseRows(_tensor(x)), nearest, geometry)
