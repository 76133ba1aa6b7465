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

from tell.core.array_search import (
    SCORES_IN_CACHE,
    Labels,
    Numbers,
    clear_distances,
    product,
    search,
    usual_lengths,
)
from tell.core.assignment import Assignment, DenseRows, Totals
from tell.core.layer import Geometry
from tell.core.online import IDLE_SHARE, StreamState, is_time_to_revive, noted, revive_idle
from tell.core.radii import BINS, LOWEST, PER_OCTAVE, Radii

MOST_ROWS = 1 << 13  # of a small batch; its numbers and scores stay in a core's cache
MOST_SEEN = 2.0**60  # rows, or weight: beyond it numbers are first brought near 1
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


@np.errstate(all="ignore")
def small_step(
    state: StreamState, x: Numbers, geometry: Geometry, half_life: float | None
) -> tuple[StreamState, dict[str, float], Labels] | None:
    """As `online.step` on rows x (n, d) that count once each, in the precision of the centres.

    None where the rows need the longer way: not finite, of no or an extreme length, or so near to
    their centre that the digits of the distance are lost.
    """
    length, before = usual_lengths(x), state.centers.numpy()
    if length is None:
        return None
    labels, best = search(x, before, geometry, _product)
    distances = clear_distances(length, best, geometry)
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
        return product(a, b)
    return (_tensor(a) @ _tensor(b)).numpy()


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
