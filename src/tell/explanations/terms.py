"""Features in the words of the table they came from: columns, categories, dates and real values.

A preparation turns columns into features: a category into several of 0 and 1, a skewed number into
its logarithm, a date into a line and a circle. Explanations are computed on features, and told by
columns: what belongs to one column is one item, and numbers are those of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.explanations.matrices import Matrix
from tell.explanations.view import Floats, Reals
from tell.explanations.words import decimal_text, short

if TYPE_CHECKING:
    from tell.data.preparation import Column, Preparation

NUMBER, LOGARITHM, CATEGORY, BOOLEAN, DATE = "number", "logarithm", "category", "boolean", "date"
#: What a cell of a category says that is none of those the model knows.
OTHER = "another value"
#: Digits of a number that a logarithm and its inverse leave as they were.
DIGITS = 13
_KINDS = {"log": LOGARITHM, "one-hot": CATEGORY, "0/1": BOOLEAN, "date": DATE}

#: A cell as the table has it.
Cell = float | str
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Term:
    """One column of the data.

    Attributes
    ----------
    name : what the table calls it
    kind : "number", "logarithm" (its features are), "category", "boolean" or "date"
    features : their places among all features
    levels : of a category one per feature; of a boolean what 0 and 1 stand for
    whole : whether it holds whole numbers only, as far as the preparation knows
    """

    name: str
    kind: str
    features: tuple[int, ...]
    levels: tuple[str, ...] = ()
    whole: bool = False

    def cell(self, x: Reals) -> Cell:
        """The cell of a row (d,) of features, as the table has it."""
        first = float(x[self.features[0]])
        if self.kind == CATEGORY:
            block = x[list(self.features)]
            return self.levels[int(np.argmax(block))] if block.max() > 0 else OTHER
        if self.kind == BOOLEAN:
            return self.levels[int(first >= 0.5)]
        if self.kind == DATE:
            return day(first)
        return float(_plain(np.array([first]), self.whole)[0]) if self.kind == LOGARITHM else first

    def level(self, feature: int) -> str | None:
        """The category that a feature stands for; None for a number or a date."""
        if self.kind == BOOLEAN:
            return self.levels[1]
        return self.levels[self.features.index(feature)] if self.kind == CATEGORY else None

    def title(self, feature: int) -> str:
        """What people call one of its features."""
        if (level := self.level(feature)) is not None:
            return f"{self.name} = {level}"
        if self.kind == DATE and feature != self.features[0]:
            return f"{self.name} (time of year)"
        return self.name


@dataclass(frozen=True, eq=False)
class Terms:
    """All columns of the data, and whether a preparation made the features of them."""

    columns: tuple[Term, ...]
    prepared: bool = False

    @cached_property
    def of(self) -> tuple[Term, ...]:
        """The column of each feature (d,)."""
        pairs = [(f, column) for column in self.columns for f in column.features]
        return tuple(column for _, column in sorted(pairs, key=lambda pair: pair[0]))

    @cached_property
    def logs(self) -> Mask:
        """Which features (d,) are logarithms."""
        return np.array([column.kind == LOGARITHM for column in self.of], bool)

    @cached_property
    def _whole_logs(self) -> Mask:
        return np.array([column.whole for column in self.of], bool)[self.logs]

    @cached_property
    def readable(self) -> Mask:
        """Which features (d,) say something by themselves: not the circle of a date."""
        firsts = {c.features[0] for c in self.columns if c.kind == DATE}
        return np.array([c.kind != DATE or f in firsts for f, c in enumerate(self.of)], bool)

    def titles(self, names: Sequence[str]) -> tuple[str, ...]:
        """What people call the features; `names` (d,) where no preparation made them."""
        if not self.prepared:
            return tuple(names)
        return tuple(column.title(f) for f, column in enumerate(self.of))

    def shown(self, X: Matrix) -> Matrix:
        """Features (n, d) in the units of the table: logarithms undone."""
        if not self.logs.any():
            return X
        values = np.array(X, np.float64)
        values[:, self.logs] = _plain(values[:, self.logs], self._whole_logs)
        return values

    def hidden(self, values: Floats) -> Floats:
        """What `shown` gave, as features again."""
        if not self.logs.any():
            return values
        X = np.array(values, np.float64)
        X[..., self.logs] = np.log1p(X[..., self.logs])
        return X

    def filled(self, mask: Mask | None) -> tuple[str, ...]:
        """Names of the columns of one row whose cell is missing; `mask` (d,) marks features."""
        if mask is None:
            return ()
        return tuple(column.name for column in self.columns if mask[column.features[0]])

    def cells(self, x: Reals) -> dict[str, Cell]:
        """One row (d,) of features by column, as the table has it."""
        return {column.name: column.cell(x) for column in self.columns}


def plain_terms(names: Sequence[str]) -> Terms:
    """Features that are the columns of the data themselves."""
    return Terms(tuple(Term(name, NUMBER, (f,)) for f, name in enumerate(names)))


def learn_terms(preparation: Preparation | None, names: Sequence[str]) -> Terms:
    """The columns behind features called `names` (d,)."""
    if preparation is None or len(preparation.feature_names) != len(names):
        return plain_terms(names)
    groups = preparation.groups
    columns = tuple(_term(column, groups[column.name]) for column in preparation.used)
    return Terms(columns, prepared=True)


def _term(column: Column, features: Sequence[int]) -> Term:
    return Term(
        column.name,
        _KINDS.get(column.treatment, NUMBER),
        tuple(features),
        _levels(column),
        column.kind == "whole number",
    )


def _levels(column: Column) -> tuple[str, ...]:
    if column.treatment == "0/1":
        return column.categories or ("0", "1")
    return (column.categories or ()) if column.treatment == "one-hot" else ()


def _plain(logs: NDArray[Any], whole: Mask | bool) -> Floats:
    """Numbers behind their logarithms log(1 + x), without the rounding of the way there and back.

    >>> _plain(np.log1p(np.array([846.0, 0.1])), np.array([True, False])).tolist()
    [846.0, 0.1]
    """
    values = np.expm1(np.asarray(logs, np.float64))
    size = np.floor(np.log10(np.where(values != 0, np.abs(values), 1.0)))
    # The logarithm is that of 1 + x: below 1 it keeps digits behind the point, no more.
    unit = 10.0 ** (DIGITS - np.maximum(size, 0.0))
    return np.where(np.logical_or(whole, np.abs(values) >= 1e15), np.rint(values),
                    np.rint(values * unit) / unit)  # fmt: skip


def day(days: float) -> str:
    """Days since 1970 as a date.

    >>> day(19723.0)
    '2024-01-01'
    """
    return str(np.datetime64(round(days), "D"))


def cell_text(cell: Cell, *, filled: bool = False) -> str:
    """A cell as it is printed; of one that is missing, what it was counted as.

    >>> cell_text(1120.0), cell_text("rent"), cell_text(125.0, filled=True)
    ('1,120', 'rent', 'missing, taken as 125')
    """
    text = cell if isinstance(cell, str) else short(cell)
    return f"missing, taken as {text}" if filled else text


def number_text(value: float, kind: str) -> str:
    """A statistic of a column: a date as a date, a number with four digits, a gap as a dash.

    >>> number_text(19723.4, DATE), number_text(float("nan"), NUMBER), number_text(0.5, NUMBER)
    ('2024-01-01', '–', '0.5')
    """
    if value != value:
        return "–"
    return day(value) if kind == DATE else short(value)


def span_text(value: float, kind: str) -> str:
    """A spread, which is a number of days where the column holds dates."""
    if value != value:
        return "–"
    return f"{decimal_text(value, 0)} days" if kind == DATE else short(value)
