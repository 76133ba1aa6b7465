"""The same few questions for dense rows and for sparse ones, which stay sparse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from tell.contract import Floats, Reals

#: Rows (n, d): an array, or a CSR matrix.
Matrix = Any


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Rows under each other."""
    return (
        sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.concatenate(parts)
    )


def dense(X: Matrix) -> Reals:
    """Rows as an array: for a few rows or a few columns only."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


def column(X: Matrix, f: int) -> Reals:
    """One column (n,)."""
    return dense(X[:, [f]])[:, 0]


def cluster_sums(
    X: Matrix, labels: NDArray[np.integer], k: int, shift: Floats
) -> tuple[Floats, Floats]:
    """Sums of the rows of each cluster and of their squares, (k, d) each, about `shift` (d,).

    Sparse rows are not shifted: most of their values are 0.
    """
    n = X.shape[0]
    members = sparse.csr_array((np.ones(n), (labels, np.arange(n))), shape=(k, n))
    if sparse.issparse(X):
        wide = X.astype(np.float64)
        sums, squares = members @ wide, members @ wide.multiply(wide)
        return np.asarray(sums.toarray()), np.asarray(squares.toarray())
    shifted = X.astype(np.float64) - shift
    return members @ shifted, members @ shifted**2


def extremes(X: Matrix) -> tuple[Floats, Floats]:
    """Smallest and largest value of every column, (d,) each."""
    low, high = (dense(found).ravel() for found in (X.min(axis=0), X.max(axis=0)))
    return low.astype(np.float64), high.astype(np.float64)


def whole_columns(X: Matrix) -> NDArray[np.bool_]:
    """Which columns (d,) hold whole numbers only."""
    if not sparse.issparse(X):
        return np.asarray((np.rint(X) == X).all(axis=0))
    whole = np.ones(X.shape[1], bool)
    whole[X.indices[X.data != np.rint(X.data)]] = False
    return whole


def empty_rows(X: Matrix) -> int:
    """Number of rows that are all zeros."""
    if sparse.issparse(X):
        return int(np.sum(np.asarray(abs(X).sum(axis=1)).ravel() == 0))
    return int(np.sum(~X.any(axis=1)))


def medians(X: Matrix) -> Floats:
    """Median of every column (d,)."""
    if not sparse.issparse(X):
        return np.asarray(np.median(X, axis=0), np.float64)
    found = np.zeros(X.shape[1])
    # Where fewer than half of the values are not 0, the median of a column without negatives is 0.
    stored = np.bincount(X.indices, minlength=X.shape[1])
    often = np.flatnonzero(2 * stored >= X.shape[0])
    often = np.union1d(often, np.unique(X.indices[X.data < 0]))
    if len(often):
        found[often] = np.median(dense(X[:, often]), axis=0)
    return found


def taken(X: Matrix, index: ArrayLike) -> Matrix:
    """The rows at `index`."""
    return X[np.asarray(index, np.intp)]
