"""A change that people can read and that moves a row: few columns, values as they are printed.

The exact point on the nearest boundary changes every column by a little and belongs to both
clusters. What is shown changes few columns, keeps whole numbers whole and categories categories, is
rounded outward to the digits that are printed, and then asks the model itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tell.contract import AffineInput, Floats, Ints
from tell.exceptions import InputError
from tell.explanations.matrices import Matrix, dense
from tell.explanations.terms import BOOLEAN, CATEGORY, DATE, OTHER, Terms
from tell.explanations.view import ModelView
from tell.explanations.words import decimal_text, short

#: How many columns are tried, besides all of them.
FEW = (1, 2, 3, 5, 8)
#: How far beyond the boundary values are tried, relative to the way there.
BEYOND = (1e-6, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 2.0, 4.0)
#: Parts of the way to a member of the other cluster.
TOWARDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: A change in fewer columns may be this much longer than the shortest.
LONGER = 1.5
#: Beyond the boundary by so little of the last digit is on it.
TINY = 1e-9
#: Of very many columns no more than these are tried together.
MOST_COLUMNS = 200
#: Other categories that are tried per column.
LEVELS = 3


@dataclass(frozen=True, eq=False)
class Change:
    """One column of a counterfactual, in the data's own units.

    `before` and `after` are numbers with `decimals` digits behind the point, or categories. Where
    the cell is missing, `filled` is true and `before` what it was taken as.
    """

    name: str
    index: int
    before: float | str
    after: float | str
    decimals: int = 0
    filled: bool = False

    def text(self) -> tuple[str, str]:
        """Both values as they are printed: the printed ones move the row."""
        before, after = self._text()
        return ("missing" if self.filled else before), after

    def _text(self) -> tuple[str, str]:
        if isinstance(self.before, str) or isinstance(self.after, str):
            return str(self.before), str(self.after)
        before, after = short(self.before), decimal_text(self.after, self.decimals)
        return decimal_text(self.before, self.decimals) if before == after else before, after


@dataclass(frozen=True, eq=False)
class Columns:
    """What values columns may take.

    Attributes
    ----------
    low, high : (d,) the range of the features
    whole : (d,) which columns hold whole numbers only
    categories : name of a column of the data → the features (0 or 1) of its categories
    levels : feature of a category → what the category is called
    fixed : (d,) which features may not change
    terms : the columns of the table behind the features
    """

    low: Floats
    high: Floats
    whole: NDArray[np.bool_]
    categories: Mapping[str, tuple[int, ...]]
    levels: Mapping[int, str]
    fixed: NDArray[np.bool_]
    terms: Terms

    def without(self, features: NDArray[np.bool_]) -> Columns:
        """The same columns, of which some (d,) may not change either."""
        return replace(self, fixed=self.fixed | features)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which features (d,) may take numbers of their range."""
        grouped = np.zeros(len(self.low), bool)
        for features in self.categories.values():
            grouped[list(features)] = True
        return ~grouped & ~self.fixed & (self.low < self.high)


def learn_columns(
    names: Sequence[str],
    sample: Matrix,
    low: Floats,
    high: Floats,
    whole: NDArray[np.bool_],
    *,
    terms: Terms,
    fixed: Iterable[str] = (),
) -> Columns:
    """What is known of the columns in their own units; categories are found if nobody knows them.

    Dates do not change: a row that came on another day is another row.
    """
    # A column without any value has no range, and stays as it is.
    low, high = (np.where(np.isfinite(end), end, 0.0) for end in (low, high))
    # A truth or a category is so or is not, whatever of it some rows have shown.
    binary = np.array([c.kind in (BOOLEAN, CATEGORY) for c in terms.of], bool)
    low, high, whole = np.where(binary, 0.0, low), np.where(binary, 1.0, high), whole | binary
    if terms.prepared:
        found = {c.name: c.features for c in terms.columns if c.kind == CATEGORY}
        levels = {f: str(terms.of[f].level(f)) for part in found.values() for f in part}
    else:
        found = find_categories(names, sample, whole & (low == 0) & (high == 1))
        levels = {f: _level(names[f], name) for name, part in found.items() for f in part}
    held = _held(names, found | {c.name: c.features for c in terms.columns}, fixed)
    for part in found.values():  # a category changes as a whole, or not at all
        held[list(part)] = held[list(part)].any()
    held |= np.array([c.kind == DATE for c in terms.of], bool)
    return Columns(terms.hidden(low), terms.hidden(high), whole, found, levels, held, terms)


def find_categories(
    names: Sequence[str], sample: Matrix, binary: NDArray[np.bool_]
) -> dict[str, tuple[int, ...]]:
    """Features that are one column of categories: 0/1, alike in name, exactly one of them 1.

    >>> X = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 6.0]])
    >>> find_categories(["a=x", "a=y", "b"], X, np.array([True, True, False]))
    {'a': (0, 1)}
    """
    groups: dict[str, list[int]] = {}
    for f in np.flatnonzero(binary).tolist():
        for mark in ("=", "_"):
            if mark in names[f]:
                groups.setdefault(names[f].rsplit(mark, 1)[0], []).append(f)
                break
    several = {name: part for name, part in groups.items() if len(part) > 1}
    one = {name: dense(sample[:, part]).sum(axis=1) for name, part in several.items()}
    return {name: tuple(part) for name, part in several.items() if np.all(one[name] == 1)}


def _level(name: str, column: str) -> str:
    """The category that a feature stands for: "country=Germany" is Germany."""
    return name[len(column) + 1 :] if name.startswith(column) and len(name) > len(column) else name


def _held(
    names: Sequence[str], columns: Mapping[str, tuple[int, ...]], fixed: Iterable[str]
) -> NDArray[np.bool_]:
    """Which features (d,) may not change: named by themselves or by their column."""
    held = np.zeros(len(names), bool)
    places = {name: f for f, name in enumerate(names)}
    for name in fixed:
        if name not in places and name not in columns:
            raise InputError(
                f"fixed needs names of columns, got {name!r}; there are "
                f"{', '.join(list(columns)[:12])}{', …' if len(columns) > 12 else ''}"
            )
        held[list(columns.get(name, ())) or [places[name]]] = True
    return held


def printed_change(
    view: ModelView,
    x: Floats,
    own: int,
    target: int,
    names: Sequence[str],
    columns: Columns,
    *,
    member: Floats | None,
    step: Floats | None = None,
    filled: NDArray[np.bool_] | None = None,
) -> tuple[Floats, int, tuple[Change, ...]] | None:
    """Values (d,) that move a row (d,), the cluster they belong to, and what changes, as printed.

    `member` (d,) is a row of the cluster to go to, `step` (d,) a way that a decoder draws, and
    `filled` (d,) marks values that stand for a gap: they change only if nothing else helps. None if
    no change of the free columns was found that the model itself answers with another cluster.
    """
    if filled is not None and filled.any() and not columns.fixed[filled].all():
        known = columns.without(filled)
        found = printed_change(
            view, x, own, target, names, known, member=member, step=step, filled=filled
        )
        if found is not None:
            return found
    tried = [
        (values, decimals)
        for start in _starts(view, x, own, target, columns)
        for way, reaches in _ways(view, start, own, target, columns, member, step)
        for values, decimals in _rounded(start, way, reaches, columns)
    ]
    if not tried:
        return None
    rows = np.stack([values for values, _ in tried])
    labels = view.predict(rows)
    best = _best(view, x, rows, labels, own, target, columns)
    if best is None:
        return None
    changes = _changes(x, rows[best], tried[best][1], names, columns, filled)
    return rows[best], int(labels[best]), changes


def _starts(
    view: ModelView, x: Floats, own: int, target: int, columns: Columns
) -> Iterator[Floats]:
    """The row, and the row with one category exchanged for one that speaks for the target."""
    yield x
    path = view.path
    scale = path.scale if isinstance(path, AffineInput) else None
    for part in columns.categories.values():
        features = np.array(part)
        if columns.fixed[features].any():
            continue
        gain = np.zeros(len(features))
        if isinstance(path, AffineInput):
            normal = view.centers[target] - view.centers[own]
            gain = normal[features] / (1.0 if scale is None else scale[features])
        for place in np.argsort(-gain, kind="stable")[:LEVELS]:
            if x[features[place]] == 1:
                continue
            other = x.copy()
            other[features], other[features[place]] = 0.0, 1.0
            yield other


def _ways(
    view: ModelView,
    x: Floats,
    own: int,
    target: int,
    columns: Columns,
    member: Floats | None,
    step: Floats | None,
) -> Iterator[tuple[Floats, Sequence[float]]]:
    """Changes (d,) of few columns, and the multiples of them that are worth a try."""
    yield np.zeros_like(x), (1.0,)
    if isinstance(view.path, AffineInput):
        yield from _to_the_boundary(view, view.path, x, own, target, columns)
    for way in (step, None if member is None else member - x):
        if way is not None:
            yield from _of_few(way, columns)


def _to_the_boundary(
    view: ModelView, path: AffineInput, x: Floats, own: int, target: int, columns: Columns
) -> Iterator[tuple[Floats, Sequence[float]]]:
    """The shortest way of the scaled row to the plane between two centres, in few columns."""
    row = path.apply(x[None])[0]
    normal = view.centers[target] - view.centers[own]
    squares = np.einsum("ij,ij->i", view.centers, view.centers)
    offset = 0.0 if view.on_sphere else float(squares[target] - squares[own]) / 2
    shortfall = offset - float(normal @ row)
    scale = np.ones_like(x) if path.scale is None else path.scale
    order = np.argsort(-np.abs(normal), kind="stable")
    order = order[(columns.free & (normal != 0))[order]]
    for count in _counts(len(order)):
        few = order[:count]
        way = np.zeros_like(x)
        way[few] = shortfall / float(normal[few] @ normal[few]) * normal[few] * scale[few]
        yield way, tuple(1 + share for share in BEYOND)


def _counts(free: int) -> list[int]:
    """How many columns to change at a time."""
    return sorted({*(m for m in FEW if m < free), min(free, MOST_COLUMNS)} - {0})


def _of_few(way: Floats, columns: Columns) -> Iterator[tuple[Floats, Sequence[float]]]:
    """A way in all columns, and in those alone that change most for their range."""
    span = np.where(columns.high > columns.low, columns.high - columns.low, 1.0)
    order = np.argsort(-np.abs(way) / span, kind="stable")
    order = order[(columns.free & (way != 0))[order]]
    for count in _counts(len(order)):
        part = np.zeros_like(way)
        part[order[:count]] = way[order[:count]]
        yield part, TOWARDS


def _rounded(
    x: Floats, way: Floats, reaches: Sequence[float], columns: Columns
) -> Iterator[tuple[Floats, Ints]]:
    """Rows at multiples of a way, rounded away from x to printed digits, and how many these are.

    Digits are those of the table: a logarithm is rounded where the number behind it is.
    """
    moved = np.flatnonzero(way)
    logs = columns.terms.logs[moved]
    before = columns.terms.shown(x[None])[0][moved]
    for reach in reaches:
        values, decimals = x.copy(), np.zeros(len(x), np.int64)
        goal = x[moved] + reach * way[moved]
        goal[logs] = np.expm1(goal[logs])
        step = np.where(logs, goal - before, reach * way[moved])
        # Two digits of the change; whole numbers have none behind the point.
        size = np.log10(np.maximum(np.abs(step), 1e-300))
        digits = np.clip(1 - np.floor(size), -20, 20).astype(np.int64)
        digits = np.where(columns.whole[moved], 0, digits)
        goal = _outward(before, step, digits)
        if (goal[logs] <= -1).any():  # has no logarithm
            continue
        goal[logs] = np.log1p(goal[logs])
        values[moved] = goal
        decimals[moved] = np.maximum(digits, 0)
        yield values, decimals


def _outward(value: Floats, change: Floats, places: Ints) -> Floats:
    """value + change, rounded to decimal places (may be negative) in the direction of the change.

    >>> _outward(np.array([13.24, 37.0]), np.array([-0.312, 0.2]), np.array([2, 0]))
    array([12.92, 38.  ])
    """
    unit = 10.0 ** np.abs(places)
    goal = np.where(places >= 0, (value + change) * unit, (value + change) / unit)
    # A whole number over a power of ten is the very number that its digits are read as.
    goal = np.where(change > 0, np.ceil(goal - TINY), np.floor(goal + TINY))
    return np.asarray(np.where(places >= 0, goal / unit, goal * unit))


def _best(
    view: ModelView,
    x: Floats,
    rows: Floats,
    labels: Ints,
    own: int,
    target: int,
    columns: Columns,
) -> int | None:
    """The row with the fewest changes among the short ones that the model places elsewhere."""
    path = view.path
    span = np.where(columns.high > columns.low, columns.high - columns.low, 1.0)
    scale = span
    if isinstance(path, AffineInput):
        scale = np.ones_like(x) if path.scale is None else path.scale
    length = np.linalg.norm((rows - x) / scale, axis=1)
    inside = ((rows >= np.minimum(columns.low, x)) & (rows <= np.maximum(columns.high, x))).all(1)
    changed = _n_changes(rows != x, columns)
    for wanted in (
        (labels == target) & inside,
        (labels != own) & inside,
        labels == target,
        labels != own,
    ):
        there = np.flatnonzero(wanted)
        if len(there):
            few = there[changed[there] <= FEW[-1]]  # nobody reads thirty changes
            there = few if len(few) else there
            short = there[length[there] <= LONGER * length[there].min()]
            return int(short[np.lexsort((length[short], changed[short]))[0]])
    return None


def _n_changes(changed: NDArray[np.bool_], columns: Columns) -> Ints:
    """Columns that change in each row (n,): a category counts once."""
    count = changed.sum(axis=1)
    for part in columns.categories.values():
        here = changed[:, list(part)]
        count -= here.sum(axis=1) - here.any(axis=1)
    return np.asarray(count, np.int64)


def _changes(
    x: Floats,
    values: Floats,
    decimals: Ints,
    names: Sequence[str],
    columns: Columns,
    filled: NDArray[np.bool_] | None,
) -> tuple[Change, ...]:
    """What differs, the largest change for its range first."""
    found: list[tuple[float, Change]] = []
    gaps = np.zeros(len(x), bool) if filled is None else filled
    span = np.where(columns.high > columns.low, columns.high - columns.low, 1.0)
    grouped = {f: name for name, part in columns.categories.items() for f in part}
    for f in np.flatnonzero(values != x).tolist():
        if f not in grouped:
            column = columns.terms.of[f]
            name = column.name if columns.terms.prepared else names[f]
            before, after = column.cell(x), column.cell(values)
            one = Change(name, f, before, after, int(decimals[f]), bool(gaps[f]))
            found.append((abs(values[f] - x[f]) / span[f], one))
        elif values[f] == 1:
            part = columns.categories[grouped[f]]
            level = next((columns.levels[g] for g in part if x[g] == 1), OTHER)
            one = Change(grouped[f], f, level, columns.levels[f], filled=bool(gaps[f]))
            found.append((1.0, one))
    return tuple(one for _, one in sorted(found, key=lambda pair: -pair[0]))
