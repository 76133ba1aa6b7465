"""Text columns and gaps made into numbers, the same way for every later row.

A preparation is learned once from a whole table and then applied batch by batch. It is plain data,
so a model folder can keep it as JSON.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import as_numbers, as_texts, first_text
from tell.data.chunks import Block, Chunk, FloatArray, Source
from tell.data.tables import TableSource
from tell.exceptions import InputError, ModelFileError, TellWarning
from tell.schema import NUMBER, TEXT, TRUTH, MisfitError, check, either, list_of, optional, record

_SCHEMA = record(
    {
        "columns": list_of(
            record(
                {
                    "name": TEXT,
                    "fill": optional(either(TEXT, NUMBER)),
                    "categories": optional(list_of(TEXT)),
                },
                others=True,
            )
        ),
        "drops_rows": TRUTH,
    },
    others=True,
)

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Column:
    """One column of the table.

    Attributes
    ----------
    name : str
    fill : float, str or None
        What a gap gets. None: a gap stays a gap.
    categories : tuple of str or None
        The texts that were seen, each of which becomes a 0/1 feature. None: a column of numbers.
    """

    name: str
    fill: float | str | None = None
    categories: tuple[str, ...] | None = None

    @property
    def features(self) -> list[str]:
        """Names of the features this column becomes."""
        if self.categories is None:
            return [self.name]
        return [f"{self.name}={category}" for category in self.categories]


@dataclass(frozen=True)
class Preparation:
    """What to do with each column, learned by `survey.learn` and applied by `matrix`.

    Attributes
    ----------
    columns : tuple of Column
    drops_rows : bool
        Whether rows with a gap are left out of the fit (and left without a label).

    Examples
    --------
    >>> import pyarrow as pa
    >>> age = Column("age", fill=38.0)
    >>> city = Column("city", categories=("Bonn", "Ulm"))
    >>> preparation = Preparation((age, city))
    >>> preparation.feature_names
    ['age', 'city=Bonn', 'city=Ulm']
    >>> rows = pa.record_batch({"city": ["Ulm", "Bonn"], "age": ["31", ""]})
    >>> preparation.matrix(rows, "people", start=0).tolist()
    [[31.0, 0.0, 1.0], [38.0, 1.0, 0.0]]
    """

    columns: tuple[Column, ...]
    drops_rows: bool = False

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [feature for column in self.columns for feature in column.features]

    def apply(self, source: TableSource, *, keep_gaps: bool = False) -> Source:
        """Read `source` through this preparation; its features change names and number.

        With `keep_gaps`, rows that would be dropped stay, with NaN in them, so that every row of
        the file can be accounted for.
        """
        source.decoder = self.matrix
        source.feature_names = self.feature_names
        source.shape = (len(self.feature_names),)
        source.dtype = np.dtype(np.float64)  # what fills a gap may be any mean
        return CompleteRows(source) if self.drops_rows and not keep_gaps else source

    def matrix(self, batch: pa.RecordBatch, name: str, start: int) -> FloatArray:
        """Turn rows into numbers of shape (rows, n_features).

        A gap becomes the column's `fill`, or NaN where rows with gaps are dropped; text that was
        never seen belongs to no category.
        """
        X = np.zeros((batch.num_rows, len(self.feature_names)))
        position = 0
        for column in self.columns:
            width = len(column.features)
            block = X[:, position : position + width]
            if column.categories is None:
                block[:, 0] = self._numbers(batch, column, name, start)
            else:
                self._categories(block, batch, column, name, start)
            position += width
        return X

    def _numbers(
        self, batch: pa.RecordBatch, column: Column, name: str, start: int
    ) -> NDArray[np.float64]:
        cells = batch.column(column.name)
        numbers = as_numbers(cells)
        if numbers is None:
            row, text = first_text(cells)
            raise InputError(
                f"{name}: column {column.name!r} held numbers when the model was fitted, but row "
                f"{start + row} (counting from 0) holds {text!r}; correct that row"
            )
        if np.isinf(numbers).any():
            row = int(np.flatnonzero(np.isinf(numbers))[0])
            raise InputError(
                f"{name}: values must be finite, but row {start + row}, column {column.name!r} "
                "(rows counting from 0) is infinite; correct or drop it"
            )
        gaps = np.isnan(numbers)
        self._check_gaps(gaps, column, name, start)
        if column.fill is not None:
            numbers = np.where(gaps, float(column.fill), numbers)
        return numbers

    def _categories(
        self, block: FloatArray, batch: pa.RecordBatch, column: Column, name: str, start: int
    ) -> None:
        texts = as_texts(batch.column(column.name))
        gaps = texts == ""
        self._check_gaps(gaps, column, name, start)
        if column.fill is not None:
            texts = np.where(gaps, column.fill, texts)
        for place, category in enumerate(column.categories or ()):
            block[:, place] = texts == category
        unknown = ~gaps & (block.sum(axis=1) == 0)
        if unknown.any():
            warnings.warn(
                f"{name}: column {column.name!r} holds texts that the model never saw, such as "
                f"{texts[unknown][0]!r}; these rows belong to none of its categories",
                TellWarning,
                stacklevel=2,
            )
        if self.drops_rows:
            block[gaps] = np.nan

    def _check_gaps(self, gaps: NDArray[np.bool_], column: Column, name: str, start: int) -> None:
        if column.fill is None and not self.drops_rows and gaps.any():
            row = start + int(np.flatnonzero(gaps)[0])
            raise gap_error(name, column.name, row)

    def to_json(self) -> dict[str, Any]:
        """Give plain data for a model folder."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Build it again from what `to_json` gave."""
        try:
            check(content, _SCHEMA, "the model's preparation")
        except MisfitError as error:
            raise ModelFileError(f"{error}; fit the model again") from None
        columns = [
            Column(
                str(entry["name"]),
                entry["fill"],
                None if entry["categories"] is None else tuple(entry["categories"]),
            )
            for entry in content["columns"]
        ]
        return cls(tuple(columns), bool(content["drops_rows"]))


class CompleteRows(Source):
    """The rows of another source that have no gap."""

    def __init__(self, source: Source) -> None:
        super().__init__(
            source.name,
            source.shape,
            chunk_rows=source.chunk_rows,
            feature_names=source.feature_names,
            dtype=source.dtype,
        )
        self._source = source
        self.rereadable, self.labelled = source.rereadable, source.labelled

    def _rows(self) -> Iterator[Chunk]:
        return _complete(self._source.chunks)

    def blocks(self) -> list[Block]:
        return [partial(_complete, block) for block in self._source.blocks()]


def _complete(block: Block) -> Iterator[Chunk]:
    for chunk in block():
        whole = ~np.isnan(chunk.X).any(axis=1)
        if whole.all():
            yield chunk
        elif whole.any():
            y = None if chunk.y is None else chunk.y[whole]
            numbers = chunk.numbers[whole]
            yield Chunk(chunk.X[whole], y, int(numbers[0]), numbers)


def gap_error(name: str, column: str, row: int) -> InputError:
    """Build the error for a gap that nothing fills."""
    return InputError(
        f"{name}: row {row} (counting from 0) of column {column!r} is missing; fit with --impute "
        f"mean, median or drop, or without the column (--drop {column})"
    )
