"""Look at a whole table once and decide how its text columns and gaps become numbers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import as_numbers, as_texts, first_text, is_numeric
from tell.data.chunks import FloatArray
from tell.data.preparation import Column, Preparation, gap_error
from tell.data.tables import TableSource
from tell.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Impute = Literal["mean", "median", "drop"]

# A column with more different texts is a name or a number plate, not a category.
MAX_CATEGORIES = 100


def learn(
    source: TableSource, *, impute: Impute | None = None, one_hot: bool = False
) -> Preparation:
    """Read `source` once and decide what to do with each of its columns.

    Parameters
    ----------
    source : TableSource
        CSV cells are looked at as text: a column is one of numbers if all its cells are.
    impute : {"mean", "median", "drop"}, optional
        What fills a gap in a column of numbers; a gap in a text column then gets its most
        frequent text. "drop" leaves out rows with gaps. Default: a gap is an error.
    one_hot : bool, default=False
        Whether text columns become one 0/1 feature per text. Default: text is an error.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tell.data.tables import ArrowSource
    >>> from tell.data.chunks import Choice
    >>> table = pa.table({"age": [31, None, 45], "city": ["Ulm", "Ulm", "Bonn"]})
    >>> source = ArrowSource(table, Choice(), chunk_rows=2)
    >>> preparation = learn(source, impute="mean", one_hot=True)
    >>> preparation.apply(source).read().X.tolist()
    [[31.0, 0.0, 1.0], [38.0, 0.0, 1.0], [45.0, 1.0, 0.0]]
    """
    columns = {column: _Seen() for column in source.columns}

    def look(rows: pa.RecordBatch, name: str, start: int) -> FloatArray:
        for column, seen in columns.items():
            seen.add(rows.column(column), start)
        return np.empty((rows.num_rows, 0))

    source.decoder = look
    for _ in source.chunks():
        pass
    rules = [seen.rule(column, source.name, impute, one_hot) for column, seen in columns.items()]
    return Preparation(tuple(rules), drops_rows=impute == "drop")


class _Seen:
    """What has been seen of one column so far."""

    def __init__(self) -> None:
        self.numbers: list[NDArray[np.float64]] = []
        self.texts: Counter[str] = Counter()
        self.first_text: tuple[int, str] | None = None
        self.first_gap: int | None = None

    def add(self, cells: pa.Array, start: int) -> None:
        numbers = as_numbers(cells)
        if numbers is None or not is_numeric(cells):
            if len(self.texts) <= MAX_CATEGORIES:
                self.texts.update(as_texts(cells).tolist())
            if numbers is None and self.first_text is None:
                row, text = first_text(cells)
                self.first_text = (start + row, text)
        gaps = as_texts(cells) == "" if numbers is None else np.isnan(numbers)
        if self.first_gap is None and gaps.any():
            self.first_gap = start + int(np.flatnonzero(gaps)[0])
        if numbers is not None:
            self.numbers.append(numbers[~gaps])

    def rule(self, column: str, name: str, impute: Impute | None, one_hot: bool) -> Column:
        if self.first_gap is not None and impute is None:
            raise gap_error(name, column, self.first_gap)
        if self.first_text is None:
            return Column(column, self._typical(column, name, impute))
        row, text = self.first_text
        if not one_hot:
            raise InputError(
                f"{name}: columns must be numbers, but row {row} (counting from 0) of column "
                f"{column!r} holds {text!r}; pass --one-hot, or leave it out with --drop {column}"
            )
        self.texts.pop("", None)
        if len(self.texts) > MAX_CATEGORIES:
            raise InputError(
                f"{name}: --one-hot takes columns with at most {MAX_CATEGORIES} different texts, "
                f"column {column!r} has more; leave it out with --drop {column}"
            )
        common = self.texts.most_common(1)[0][0] if impute in ("mean", "median") else None
        return Column(column, common, tuple(sorted(self.texts)))

    def _typical(self, column: str, name: str, impute: Impute | None) -> float | None:
        if impute is None:
            return None
        numbers = np.concatenate(self.numbers) if self.numbers else np.empty(0)
        if len(numbers) == 0:
            raise InputError(
                f"{name}: column {column!r} has no value at all to learn from; "
                f"leave it out with --drop {column}"
            )
        if impute == "drop":
            return None
        return float(np.mean(numbers) if impute == "mean" else np.median(numbers))
