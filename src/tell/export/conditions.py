"""Ways through a tree as conditions that a person can read: limits, categories, dates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tell.contract import Ints, Reals

#: What a leaf asks of a row: feature → the interval (low, high] its value must lie in.
Limits = Mapping[int, tuple[float, float]]


@dataclass(frozen=True)
class Question:
    """One feature as rules ask for it.

    `level` is the category that a feature of 0 and 1 stands for, and `is_date` says that its values
    are days since 1970.
    """

    name: str
    level: str | None = None
    is_date: bool = False

    def condition(self, low: float, high: float, values: Reals) -> str:
        """Say that the feature lies in (low, high]; `values` (n,) are those it was seen with.

        >>> Question("country", level="Peru").condition(0.5, np.inf, np.array([0.0, 1.0]))
        'country is Peru'
        >>> Question("age").condition(17.5, 65.5, np.array([17.0, 18.0, 65.0, 66.0]))
        '17.5 < age ≤ 65.5'
        """
        if self.level is not None:  # 0 or 1: one limit between them
            return f"{self.name} {'is not' if np.isinf(low) else 'is'} {self.level}"
        if self.is_date:
            return between_days(self.name, low, high)
        if np.isinf(low):
            return f"{self.name} ≤ {short_threshold(high, values)}"
        if np.isinf(high):
            return f"{self.name} > {short_threshold(low, values)}"
        return f"{short_threshold(low, values)} < {self.name} ≤ {short_threshold(high, values)}"


def leaf_limits(
    feature: Ints, threshold: NDArray[np.float64], left: Ints, right: Ints
) -> dict[int, dict[int, tuple[float, float]]]:
    """The limits that lead to each leaf of a tree (m,); several on one feature become one interval.

    The root is node 0, a leaf has -1 for children, and a row goes left where its value is at most
    the threshold.
    """
    found: dict[int, dict[int, tuple[float, float]]] = {}
    stack: list[tuple[int, dict[int, tuple[float, float]]]] = [(0, {})]
    while stack:
        node, limits = stack.pop()
        if left[node] == -1:
            found[node] = limits
            continue
        asked, at = int(feature[node]), float(threshold[node])
        low, high = limits.get(asked, (-np.inf, np.inf))
        stack.append((int(left[node]), limits | {asked: (low, min(high, at))}))
        stack.append((int(right[node]), limits | {asked: (max(low, at), high)}))
    return found


def between_days(name: str, low: float, high: float) -> str:
    """Limits between days, as dates that are still inside.

    >>> between_days("signup", 19722.5, float("inf")), between_days("signup", 0.5, 19722.5)
    ('signup from 2024-01-01 on', 'signup from 1970-01-02 to 2023-12-31')
    """
    if np.isinf(low):
        return f"{name} until {_day(high)}"
    first = _day(math.floor(low) + 1)
    return f"{name} from {first} on" if np.isinf(high) else f"{name} from {first} to {_day(high)}"


def _day(days: float) -> str:
    return str(np.datetime64(math.floor(days), "D"))


def short_threshold(threshold: float, column: Reals) -> str:
    """The threshold with as few digits as keep every value (n,) on its side.

    >>> short_threshold(1999.5, np.array([1999, 2000]))
    '1999.5'
    >>> short_threshold(1.23456, np.array([0.0, 9.0]))
    '1.235'
    >>> short_threshold(39001.2, np.array([30000.0, 50000.0]))
    '39,000'
    """
    below = column <= threshold
    texts = (f"{threshold:.{digits}g}" for digits in range(4, 18))
    text = next((t for t in texts if np.array_equal(column <= float(t), below)), repr(threshold))
    large = "e+" in text and abs(threshold) < 1e15
    return f"{float(text):,.0f}" if large else text
