"""Numbers as people read them: with the digits that tell them apart, and no more."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


def shown(values: Iterable[float], digits: int = 4) -> list[str]:
    """Numbers of one column, with enough digits that different ones look different.

    Each has at least `digits` significant digits; more where the column spreads by less than they
    show. Nothing below 10^15 is written with an exponent, and rounding noise is 0.

    >>> shown([20240115.0, 20240116.0])
    ['20240115', '20240116']
    >>> shown([1234567.891, 0.5]), shown([3.0, -4.5e-17]), shown([1e30])
    (['1234568', '0.5'], ['3', '0'], ['1e+30'])
    """
    numbers = [float(value) for value in values]
    finite = np.array([value for value in numbers if np.isfinite(value)])
    largest = float(np.abs(finite).max()) if len(finite) else 0.0
    clean = [0.0 if abs(value) < 1e-14 * largest else value for value in numbers]
    gap = _smallest_gap(clean)
    return [_shown(value, digits, gap) for value in clean]


def _smallest_gap(numbers: list[float]) -> float:
    """Between two different numbers of the column; not finer than a millionth of the largest."""
    different = np.unique([value for value in numbers if np.isfinite(value)])
    if len(different) < 2:
        return 0.0
    least = 1e-9 * float(np.abs(different).max())
    gaps = np.diff(different)
    return float(gaps[gaps > least].min()) if (gaps > least).any() else 0.0


def _shown(value: float, digits: int, gap: float) -> str:
    if not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = int(np.floor(np.log10(abs(value))))
    if abs(value) >= 1e15 or abs(value) < 1e-5:
        return f"{value:.{digits - 1}g}" if gap == 0 else f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - size)
    if gap > 0:  # so that half a step of the last digit is less than the gap
        decimals = max(decimals, min(9, int(np.ceil(-np.log10(gap)))))
    text = f"{value:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
