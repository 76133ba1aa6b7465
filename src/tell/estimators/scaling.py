"""The way of rows into the clustered space and back: scaling, weights, what float32 holds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from tell.core.assignment import DenseRows, Rows, SparseRows, Totals, wide
from tell.core.growing import grow_step
from tell.core.layer import Geometry
from tell.core.online import StreamState, step
from tell.core.small_batches import LENGTHS
from tell.exceptions import InputError, ParameterError

EXPONENTS = 60  # weights between 2^-60 and 2^60 are left as they are
MOST_EXPONENT = 1000  # of a factor that float64 holds


def beyond_float32(X: Any, rows: Rows) -> bool:
    """Whether rows are in float32 and should not be: X holds finite numbers beyond `LENGTHS`."""
    if rows.example.dtype != torch.float32:
        return False
    usual = (rows.length > LENGTHS[0]) & (rows.length < LENGTHS[1])
    if bool(usual.all()):
        return False
    extreme = X[(~usual).cpu().numpy()]
    values = getattr(extreme, "data", extreme) if hasattr(extreme, "tocsr") else extreme
    return bool(np.isfinite(values).all() and np.any(values))  # zeros are in range


def near_one(weight: NDArray[Any] | None) -> tuple[NDArray[Any] | None, float]:
    """Weights near 1 and the factor that they were divided by, a power of two.

    >>> near_one(np.array([1.0, 3.0]))
    (array([1., 3.]), 1.0)
    >>> near_one(np.array([2.0**100, 2.0**101]))
    (array([0.25, 0.5 ]), 5.070602400912918e+30)
    """
    exponent = 0 if weight is None else _exponent(float(weight.max()))
    if weight is None or abs(exponent) <= EXPONENTS:
        return weight, 1.0
    near = weight.astype(np.float64) * 2.0**-exponent
    return near.astype(weight.dtype), 2.0**exponent


def step_in_range(
    state: StreamState,
    rows: Rows,
    geometry: Geometry,
    half_life: float | None,
    grow: float | None = None,
) -> tuple[StreamState, dict[str, float], Tensor]:
    """Take a step of `tell.core.online` with weights, old and new, brought near 1.

    `grow`: rows after which clusters may be born.
    """
    state = replace(state, centers=state.centers.to(rows.example))
    added = rows.shape[0] if rows.weight is None else float(wide(rows.weight).sum())
    exponent = _exponent(max(state.seen, added))
    if abs(exponent) <= EXPONENTS:
        return _step(state, rows, geometry, half_life, grow, 1.0)
    down, up = 2.0**-exponent, 2.0**exponent
    near, time = (None if rows_of is None else rows_of * down for rows_of in (half_life, grow))
    new, record, labels = _step(
        _rescaled(state, down), _reweighted(rows, down), geometry, near, time, up
    )
    record |= {"rows": record["rows"] * up, "seen": record["seen"] * up}
    return _rescaled(new, up), record, labels


def _step(
    state: StreamState,
    rows: Rows,
    geometry: Geometry,
    half_life: float | None,
    grow: float | None,
    unit: float,
) -> tuple[StreamState, dict[str, float], Tensor]:
    if grow is None:
        return step(state, rows, geometry, half_life, unit)
    return grow_step(state, rows, geometry, half_life, grow, unit)


def _exponent(value: float) -> int:
    found = math.frexp(value)[1] if value > 0 and math.isfinite(value) else 0
    return max(-MOST_EXPONENT, min(MOST_EXPONENT, found))


def _reweighted(rows: Rows, factor: float) -> Rows:
    weight = (wide(rows.weights()) * factor).to(rows.example.dtype)
    if isinstance(rows, DenseRows | SparseRows):
        return replace(rows, weight=weight)
    return rows


def _rescaled(state: StreamState, factor: float) -> StreamState:
    return replace(
        state,
        memory=Totals(state.memory.sums * factor, state.memory.counts * factor),
        lengths=state.lengths * factor,
        seen=state.seen * factor,
        revived_at=state.revived_at * factor,
        radii=None if state.radii is None else state.radii.scaled(factor),
        growth=None if state.growth is None else state.growth.scaled(factor),
    )


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
        if sp.issparse(X):
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
        if sp.issparse(X):  # the model was fitted to dense rows
            X = X.toarray()
        moved = np.subtract(X, self.offset.astype(X.dtype), out=X if in_place else None)
        if self.scale is not None:
            moved /= self.scale.astype(X.dtype)
        return moved

    def undo(self, points: Floats) -> Floats:
        """Points (m, d) of the clustered space in the user's units."""
        if self.scale is not None:
            points = points * self.scale
        return points if self.offset is None else points + self.offset


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


def to_rows(X: Any, weight: Floats | None, device: torch.device | str) -> Rows:
    """An array or CSR matrix as rows on a device, in float64 where float32 cannot hold squares."""
    rows = as_rows(X, weight, device)
    if not beyond_float32(X, rows):
        return rows
    wide = None if weight is None else weight.astype(np.float64)
    return as_rows(X.astype(np.float64), wide, device)


def as_rows(X: Any, weight: Floats | None, device: torch.device | str) -> Rows:
    """An array or CSR matrix as rows on a device, sharing memory where it can."""
    weights = None if weight is None else torch.from_numpy(weight).to(device)
    if not sp.issparse(X):
        return DenseRows(_tensor(X).to(device), weights)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    crow, columns = (torch.from_numpy(part.astype(np.int64)) for part in (X.indptr, X.indices))
    values = _tensor(X.data)
    return SparseRows(crow.to(device), columns.to(device), values.to(device), X.shape[1], weights)


def as_labels(labels: Tensor) -> NDArray[np.int32]:
    """Labels as users know them."""
    return labels.cpu().numpy().astype(np.int32)


def check_weights(sample_weight: ArrayLike | None, X: Any) -> Floats | None:
    """Weights (n,) of the rows of X, in their precision."""
    if sample_weight is None:
        return None
    try:
        weight = _check_sample_weight(sample_weight, X, dtype=X.dtype, ensure_non_negative=True)
    except ValueError as error:
        raise InputError(str(error)) from error
    if not weight.any():
        raise InputError("sample_weight must count at least one row, got only zeros")
    return weight


def join(parts: list[tuple[Any, Floats | None]]) -> tuple[Any, Floats | None]:
    """Rows and weights of several batches as one."""
    matrices = [X for X, _ in parts]
    sparse = any(sp.issparse(X) for X in matrices)
    rows = sp.vstack(matrices, format="csr") if sparse else np.concatenate(matrices)
    if all(weight is None for _, weight in parts):
        return rows, None
    ones = (np.ones(X.shape[0], X.dtype) if w is None else w for X, w in parts)
    return rows, np.concatenate(list(ones)).astype(rows.dtype)


def _tensor(array: NDArray[Any]) -> Tensor:
    # torch warns about read-only memory (joblib's maps): it is only ever read here.
    return torch.from_numpy(array if array.flags.writeable else array.copy())
