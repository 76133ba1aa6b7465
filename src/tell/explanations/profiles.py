"""What clusters look like in columns that were not clustered: country, membership, churn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.contract import Floats, Ints
from tell.exceptions import InputError
from tell.explanations.terms import DATE, NUMBER

#: Categories of a column that are told apart; the others count together.
MAX_LEVELS = 12
OTHERS = "others"


@dataclass(frozen=True, eq=False)
class NumberProfile:
    """A column of numbers by cluster; gaps are counted and take no part in the rest.

    Every array has one entry per cluster and a last one for all rows. Dates are days since 1970,
    and their `kind` is "date".
    """

    name: str
    mean: Floats
    median: Floats
    low: Floats
    high: Floats
    missing: Floats
    kind: str = NUMBER


@dataclass(frozen=True, eq=False)
class CategoryProfile:
    """Shares of categories by cluster, over the rows that have one; the last line is all rows.

    Attributes
    ----------
    levels : categories, most frequent first
    shares : (k + 1, levels)
    missing : (k + 1,) share of rows without a category
    """

    name: str
    levels: tuple[str, ...]
    shares: Floats
    missing: Floats


Profile = NumberProfile | CategoryProfile


def describe_profiles(given: object, labels: Ints, k: int) -> tuple[Profile, ...]:
    """Profiles of the columns of a frame, or of a mapping of names to columns (n,)."""
    found = []
    for name, values in _columns(given).items():
        if len(values) != len(labels):
            raise InputError(
                f"profile needs one value per row ({len(labels)}), but {name!r} has {len(values)}; "
                "pass columns of the same rows"
            )
        found.append(_profile(name, values, labels, k))
    return tuple(found)


def cells_beside(given: object, rows: Ints) -> dict[str, tuple[float | str | None, ...]]:
    """The cells of some rows in the columns of a profile; None where one is missing."""
    return {
        name: tuple(_cell(value) for value in _plain(values[rows]))
        for name, values in _columns(given).items()
    }


def _plain(values: NDArray[Any]) -> list[Any]:
    """Values as Python has them; of a moment its day."""
    return (values.astype("datetime64[D]") if values.dtype.kind == "M" else values).tolist()


def _cell(value: object) -> float | str | None:
    if _is_gap(value):
        return None
    return float(value) if isinstance(value, int | float) else str(value)


def _columns(given: Any) -> dict[str, NDArray[Any]]:
    if not isinstance(given, Mapping) and not hasattr(given, "columns"):
        raise InputError(
            f"profile needs a frame or a mapping of names to columns, got {type(given).__name__}; "
            'pass {"country": values}'
        )
    names = list(given) if isinstance(given, Mapping) else list(given.columns)
    return {str(name): np.asarray(given[name]) for name in names}


def _profile(name: str, values: NDArray[Any], labels: Ints, k: int) -> Profile:
    groups = [*(labels == j for j in range(k)), np.ones(len(labels), bool)]
    if values.dtype.kind in "iuf":
        return _numbers(name, values.astype(np.float64), groups, NUMBER)
    if values.dtype.kind == "M":
        days = (values - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
        return _numbers(name, days, groups, DATE)
    texts = np.array(["" if _is_gap(value) else str(value) for value in values], object)
    return _categories(name, texts, groups)


def _is_gap(value: object) -> bool:
    return value is None or value != value or str(value) in ("", "<NA>", "NaT", "nan")


def _numbers(
    name: str, values: Floats, groups: list[NDArray[np.bool_]], kind: str
) -> NumberProfile:
    known = np.isfinite(values)
    parts = [values[group & known] for group in groups]
    low, median, high = (
        np.array([np.percentile(part, q) if len(part) else np.nan for part in parts])
        for q in (25, 50, 75)
    )
    mean = np.array([part.mean() if len(part) else np.nan for part in parts])
    return NumberProfile(name, mean, median, low, high, _missing(known, groups), kind)


def _missing(known: NDArray[np.bool_], groups: list[NDArray[np.bool_]]) -> Floats:
    return np.array([1 - known[group].mean() if group.any() else np.nan for group in groups])


def _categories(name: str, texts: NDArray[Any], groups: list[NDArray[np.bool_]]) -> CategoryProfile:
    known = texts != ""
    levels, counts = np.unique(texts[known].astype(str), return_counts=True)
    order = np.argsort(-counts, kind="stable")
    kept = [str(levels[i]) for i in order[:MAX_LEVELS].tolist()]
    shown = np.where(np.isin(texts.astype(str), kept), texts, OTHERS)
    names = (*kept, *((OTHERS,) if len(levels) > MAX_LEVELS else ()))
    shares = np.zeros((len(groups), len(names)))
    for line, group in enumerate(groups):
        part = shown[group & known]
        if len(part):
            shares[line] = [np.mean(part == level) for level in names]
    return CategoryProfile(name, names, shares, _missing(known, groups))
