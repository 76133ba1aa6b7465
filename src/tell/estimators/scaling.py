"""The linear map of columns into the clustered space and back, and how it is learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import InputError, ParameterError

if TYPE_CHECKING:
    from tell.core.layer import Geometry

Floats = NDArray[np.floating[Any]]
SQUARES = (1e-30, 1e30)  # that float32 holds with all their digits

FEW_ROWS = 4096  # that show what is typical of a column
HIDDEN = 1e-9  # of a deviation: what spreads by less has been hidden by another value
BLOCK_NUMBERS = 1 << 20  # that are scaled or summed at a time: 8 MB


@dataclass(frozen=True)
class Scaling:
    """The linear map (x − offset) / scale that rows pass before they are clustered.

    With `standardize` it gives every column mean 0 and deviation 1. In the euclidean geometry it
    otherwise only moves the data's mean to the origin, so that float32 distances do not drown in
    a common offset; centres are then shown with the offset added back.
    """

    offset: Floats | None = None
    scale: Floats | None = None

    @classmethod
    def learn(cls, X: Any, weight: Floats | None, geometry: Geometry, standardize: bool) -> Scaling:
        """Measure the columns of X (n, d)."""
        if _is_sparse(X):
            if standardize:
                raise ParameterError(
                    "standardize=True needs a dense array, because subtracting the mean fills a "
                    "sparse one; scale it with StandardScaler(with_mean=False) first"
                )
            return cls()
        if not standardize and geometry == "sphere":
            return cls()
        mean = _mean(X, weight)
        if not standardize:
            return cls(mean)
        middle = mean.astype(X.dtype)
        with np.errstate(over="ignore"):
            variance = _mean(X, weight, lambda rows: np.square(rows - middle))
        lost = ~((variance > SQUARES[0]) & (variance < SQUARES[1]))
        if lost.any() and X.dtype == np.float32:  # those columns again in float64
            exact = mean[lost]
            variance[lost] = _mean(X[:, lost], weight, lambda rows: np.square(rows - exact))
        hidden = ~(variance < np.finfo(np.float64).max)
        if hidden.any():  # squares that no float holds
            return cls.learn_huge(X, weight)
        scaling = cls.from_moments(mean, variance, X.dtype)
        check_visible(X, scaling)
        return scaling

    @classmethod
    def learn_huge(cls, X: Any, weight: Floats | None) -> Scaling:
        """Standardise columns whose squares overflow, about a power of two of their size."""
        size = np.abs(X).max(axis=0).astype(np.float64)
        unit = 2.0 ** np.floor(np.log2(np.where(size > 0, size, 1.0)))
        mean = _mean(X, weight, lambda rows: rows / unit)
        variance = _mean(X, weight, lambda rows: np.square(rows / unit - mean))
        near = cls.from_moments(mean, variance, X.dtype)
        scaling = cls(near.offset * unit, near.scale * unit)  # type: ignore[operator]
        check_visible(X, scaling)
        return scaling

    @classmethod
    def from_moments(cls, mean: Floats, variance: Floats, dtype: Any = np.float32) -> Scaling:
        """Standardise; a constant column tells nothing and stays at 0, or as near as rounding is.

        Constant is what spreads by no more than the last digit of its mean in the rows' `dtype`, or
        than the mean of many numbers is off by.
        """
        deviation = np.sqrt(variance)
        constant = deviation <= max(np.finfo(dtype).eps, 1e-13) * np.abs(mean)
        rounding = np.where(deviation > 0, np.maximum(np.abs(mean), 1.0), 1.0)
        return cls(mean, np.where(constant, rounding, deviation))

    def apply(self, X: Any, *, in_place: bool = False) -> Any:
        """Scaled rows; X itself where there is nothing to do, or where it may be overwritten."""
        if self.offset is None:
            return X
        if _is_sparse(X):  # the model was fitted to dense rows
            X = X.toarray()
        moved = np.subtract(X, self.offset.astype(X.dtype), out=X if in_place else None)
        if self.scale is not None:
            moved /= self.scale.astype(X.dtype)
        return moved

    def shown(self, centers: Floats) -> Floats:
        """A copy of centres (k, d) with the data's mean added back, where nothing is scaled."""
        if self.scale is None and self.offset is not None:
            return (centers + self.offset).astype(centers.dtype)
        return centers.copy()

    def undo(self, points: Floats) -> Floats:
        """Points (m, d) of the clustered space in the user's units."""
        if self.scale is not None:
            points = points * self.scale
        return points if self.offset is None else points + self.offset


def _is_sparse(X: Any) -> bool:
    # Without asking scipy, which takes its time to load.
    return hasattr(X, "tocsr")


def check_visible(X: NDArray[Any], scaling: Scaling) -> None:
    """Refuse a cell so large that all others of its column would become the same number."""
    if scaling.scale is None or len(X) < 3:
        return
    step = max(1, len(X) // FEW_ROWS)
    few = X[::step].astype(np.float64)
    middle = np.median(few, axis=0)
    typical = np.median(np.abs(few - middle), axis=0)
    for column in np.flatnonzero((typical > 0) & (typical < HIDDEN * scaling.scale)):
        sizes = np.abs(X[:, column].astype(np.float64) - middle[column])
        row = int(sizes.argmax())
        raise InputError(
            f"X must hold values of comparable size where columns are standardised, got "
            f"{X[row, column]:g} in row {row}, column {column} (counting from 0), beside which all "
            f"others, about {middle[column]:g} ± {typical[column]:.2g}, would be one; correct it, "
            "or take its logarithm"
        )


def _mean(
    X: Floats, weight: Floats | None, of: Callable[[Floats], Floats] = lambda rows: rows
) -> Floats:
    """Column means (d,) of what `of` makes of rows: in float64, as float32 loses later rows."""
    if weight is None:
        return column_sums(X, of) / len(X)
    total = np.einsum("i,ij->j", weight, of(X), dtype=np.float64)
    return total / weight.sum(dtype=np.float64)


def column_sums(X: NDArray[Any], of: Callable[[Any], Any] = lambda rows: rows) -> Floats:
    """Sum `of` rows (n, d) to (d,) in float64, block by block: no copy of all of them is made.

    Each block is added to what came before it row by row, as numpy does, so that the sum depends
    neither on the size of the blocks nor on the order of X in memory.
    """
    size = max(1, BLOCK_NUMBERS // max(1, X[:1].size))
    if X[:1].size == 1:  # of a single column numpy sums pairs
        size = len(X)
    total = np.add.reduce(np.ascontiguousarray(of(X[:size])), axis=0, dtype=np.float64)
    for start in range(size, len(X), size):
        block = np.ascontiguousarray(of(X[start : start + size]), dtype=np.float64)
        total = np.add.reduce(np.concatenate([total[None], block]), axis=0)
    return total
