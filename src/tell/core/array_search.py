"""The nearest centre of each row of an array, in NumPy alone.

Calls of NumPy cost a third of torch's, which is most of the time of a small batch, and a program
that only labels rows need not wait for torch to load. The formulas are those of `assignment`;
rows that need more care than speed are left to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tell.core.layer import Geometry

Numbers = NDArray[np.floating[Any]]
Labels = NDArray[np.intp]
#: The product of two matrices.
Product = Callable[[Numbers, Numbers], Numbers]

SCORES_IN_CACHE = 1 << 19  # numbers per block: few enough to stay in a core's cache,
SCORES_SEARCHED = 1 << 18  # or, where they are gone through several times, in float64, too
FEW_CLUSTERS = 32  # up to here a row of scores is too short to be searched by vector instructions
FEW_DIGITS = 1 << 10  # a difference of this many roundings has lost most of its digits
LENGTHS = (1e-15, 1e15)  # of rows whose squares float32 holds, and sums of very many of them
MOST_ROWS = 1 << 14  # of a block; of more than one, torch's threads are worth their calls
LONG = 32  # columns from which on few centres multiply faster as the right factor, in float32
SHORT = 512  # rows whose scores are searched row by row; more are compared centre by centre

_POSITIONS = np.arange(MOST_ROWS)


def rows_at_once(n_clusters: int, n_features: int) -> int:
    """Rows of a block whose scores, or a part of the rows themselves, stay in a core's cache."""
    return max(1024, min(MOST_ROWS, SCORES_SEARCHED // max(n_clusters, n_features // 8)))


@np.errstate(all="ignore")  # what overflows or is no number is found in the result
def label_array(
    x: Numbers, centers: Numbers, geometry: Geometry, live: Labels | None = None
) -> NDArray[np.int32] | None:
    """The nearest centre of each row of x (n, d); None where only `assignment` can tell.

    `live` are the positions of the centres (k, d) that take rows; None if all do.
    """
    if live is not None:
        found = label_array(x, centers[live], geometry)
        return None if found is None else live.astype(np.int32)[found]
    centers = centers.astype(x.dtype, copy=False)
    size = rows_at_once(*centers.shape)
    if len(x) <= size:
        labels = _clear_labels(x, centers, geometry)
        return None if labels is None else labels.astype(np.int32)
    found = np.empty(len(x), np.int32)
    for start in range(0, len(x), size):
        part = _clear_labels(x[start : start + size], centers, geometry)
        if part is None:
            return None
        found[start : start + size] = part
    return found


def _clear_labels(x: Numbers, centers: Numbers, geometry: Geometry) -> Labels | None:
    labels, best = search(x, centers, geometry)
    if geometry == "euclidean":
        length = usual_lengths(x)
        return None if length is None or clear_distances(length, best, geometry) is None else labels
    # One look at the scores instead of at all of x; NaN lies between no limits.
    return labels if LENGTHS[0] < np.abs(best).max() < LENGTHS[1] else None


def usual_lengths(x: Numbers) -> Numbers | None:
    """Length of each row (n,); None if one is extreme or no number."""
    squares = np.vecdot(x, x)
    usual = squares.min() > LENGTHS[0] ** 2 and squares.max() < LENGTHS[1] ** 2
    return np.sqrt(squares) if usual else None


def product(a: Numbers, b: Numbers) -> Numbers:
    """The matrix product, in the order of its factors that NumPy's library has a fast way for."""
    few = len(a) <= FEW_CLUSTERS and b.shape[1] > SHORT
    if few and a.shape[1] >= LONG and a.dtype == np.float32:
        return np.ascontiguousarray((b.T @ np.ascontiguousarray(a.T)).T)
    return a @ b


def search(
    x: Numbers, centers: Numbers, geometry: Geometry, multiply: Product = product
) -> tuple[Labels, Numbers]:
    """The nearest centre of each row, as far as the rows' precision tells, and its score (n,)."""
    n, k = len(x), len(centers)
    bias = None if geometry == "sphere" else np.vecdot(centers, centers) / -2
    if n <= SHORT or k > FEW_CLUSTERS:
        scores = multiply(x, np.ascontiguousarray(centers.T))
        if bias is not None:
            scores += bias
        labels = scores.argmax(axis=1)
        return labels, scores[_POSITIONS[:n], labels]
    scores = multiply(centers, x.T)
    if bias is not None:
        scores += bias[:, None]
    labels, best = np.empty(n, np.intp), np.empty(n, scores.dtype)
    first_best(scores, best, labels)
    return labels, best


def first_best(scores: Numbers, best: Numbers, labels: NDArray[np.integer[Any]]) -> None:
    """Write the largest of each column of scores (k, n), k ≤ 255, and who first reaches it.

    Several times faster than asking for positions: whole rows are compared, in bytes.
    """
    k = len(scores)
    np.maximum.reduce(scores, axis=0, out=best)
    # The first that reaches the maximum has the highest rank of those that do.
    rank = np.equal(scores, best).view(np.uint8)
    rank *= np.arange(k - 1, -1, -1, dtype=np.uint8)[:, None]
    np.subtract(k - 1, np.maximum.reduce(rank, axis=0), out=labels, casting="unsafe")


def clear_distances(length: Numbers, best: Numbers, geometry: Geometry) -> Numbers | None:
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
