"""Rows and weights in the range that floats hold: float64 where float32 is too narrow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from tell.core.array_search import LENGTHS
from tell.core.assignment import DenseRows, Rows, SparseRows, Totals, wide
from tell.core.growing import grow_step
from tell.core.layer import Geometry
from tell.core.online import StreamState, step
from tell.estimators.scaling import Floats
from tell.exceptions import InputError

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
