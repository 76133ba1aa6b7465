"""Numbers at the edge of what floats can hold: extreme weights, and rows too large or too small.

A step squares lengths and adds up weights; both must stay far from the ends of the range. Weights
matter only relative to each other, so extreme ones are brought near 1 by a power of two, which
rounds nothing. Rows whose squares float32 cannot hold are clustered in float64.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.core.assignment import DenseRows, Rows, SparseRows, Totals, wide
from tell.core.layer import Geometry
from tell.core.online import StreamState, step

LENGTHS = (1e-15, 1e15)  # of rows whose squares float32 holds, and sums of very many of them
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
    state: StreamState, rows: Rows, geometry: Geometry, half_life: float | None
) -> tuple[StreamState, dict[str, float], Tensor]:
    """Take a step of `tell.core.online` with weights, old and new, brought near 1."""
    state = replace(state, centers=state.centers.to(rows.example))
    added = rows.shape[0] if rows.weight is None else float(wide(rows.weight).sum())
    exponent = _exponent(max(state.seen, added))
    if abs(exponent) <= EXPONENTS:
        return step(state, rows, geometry, half_life)
    down, up = 2.0**-exponent, 2.0**exponent
    near = None if half_life is None else half_life * down
    new, record, labels = step(
        _rescaled(state, down), _reweighted(rows, down), geometry, near, unit=up
    )
    record |= {"rows": record["rows"] * up, "seen": record["seen"] * up}
    return _rescaled(new, up), record, labels


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
    )
