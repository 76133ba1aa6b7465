"""Anything with named columns: Arrow tables and readers, pandas and polars frames."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import as_array
from tell.data.chunks import Block, Choice, Chunk, FloatArray, Source, finite, precision
from tell.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow as pa

# (rows, name for messages, number of the first row) → the numbers of these rows, and which of them
# stand for gaps where that is known.
Decoder = Callable[["pa.RecordBatch", str, int], FloatArray | tuple[FloatArray, NDArray[np.bool_]]]


class TableSource(Source):
    """Record batches with the chosen columns in the chosen order, whatever the file's own order.

    Parameters
    ----------
    available : list of str
        All column names of the table.
    named : bool, default=True
        False when the names are only positions, as in a CSV without a header.
    dtype : numpy dtype, default=float64
        The precision of the columns, where the table states their types.
    """

    # Turns rows with text or gaps into numbers, in place of the strict reading; see preparation.py.
    decoder: Decoder | None = None
    # Whether all chosen columns are numbers by their types; gaps may be among them.
    states_numbers: bool = False
    # Columns that are read beside the features, and who gets the rows of which they are part.
    carried: Sequence[str] = ()
    on_batch: Callable[[pa.RecordBatch], object] | None = None

    def __init__(
        self,
        name: str,
        available: list[str],
        choice: Choice,
        *,
        named: bool = True,
        n_rows: int | None = None,
        chunk_rows: int = 65536,
        dtype: Any = np.float64,
    ) -> None:
        self.available, self.named = list(available), named
        self.columns = choice.features(available, name)
        self.label = None if choice.label is None else str(choice.label)
        self.labelled = self.label is not None
        super().__init__(
            name,
            (len(self.columns),),
            chunk_rows=chunk_rows,
            feature_names=self.columns if named else None,
            n_rows=n_rows,
            dtype=dtype,
        )

    @property
    def wanted(self) -> list[str]:
        """Columns to read: the features, then the label, then those that are carried along."""
        label = [] if self.label is None else [self.label]
        wanted = [*self.columns, *label]
        return [*wanted, *(name for name in self.carried if name not in wanted)]

    def classes(self) -> NDArray[Any] | None:
        """Read the label column alone."""
        if self.label is None or not self.rereadable:
            return super().classes()
        alone = copy.copy(self)
        alone.columns, alone.decoder = [], None
        return Source.classes(alone)

    def same_columns(self, names: list[str], first: list[str], choice: Choice, file: str) -> None:
        """Check a further `file` against the columns of the `first` one."""
        choice.features(names, file)
        if choice.columns is None and set(names) != set(first):
            raise InputError(
                f"{file}: all files of {self.name} must have the same columns, but "
                f"{sorted(set(names) ^ set(first))} are only here or only in the first file; "
                "choose columns that every file has"
            )

    def _convert(
        self,
        batches: Iterable[pa.RecordBatch],
        *,
        start: int = 0,
        file: str | None = None,
        row: int = 0,
    ) -> Iterator[Chunk]:
        """Turn record batches into checked chunks.

        `start` is the number of the first row in the source, `row` its number in the `file` that
        an error message names.
        """
        for batch in batches:
            for part in _split(batch, self.chunk_rows):
                where = file or self.name
                if self.on_batch is not None:
                    self.on_batch(part)
                X, filled = self._decode(part, where, row)
                y = None if self.label is None else labels(part.column(self.label))
                yield Chunk(X, y, start, filled=filled)
                start += len(X)
                row += len(X)

    def _decode(
        self, part: pa.RecordBatch, where: str, row: int
    ) -> tuple[FloatArray, NDArray[np.bool_] | None]:
        if self.decoder is not None:
            found = self.decoder(part, where, row)
            return found if isinstance(found, tuple) else (found, None)
        X = _matrix(part, self.columns, self.dtype, where, row)
        return finite(X, name=where, start=row, columns=self.columns), None


def _split(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def schema_numbers(schema: pa.Schema, columns: Iterable[str]) -> bool:
    """Tell whether these columns of an Arrow table are numbers by their types."""
    import pyarrow as pa

    types = dict(zip(schema.names, schema.types, strict=True))
    plain = (pa.types.is_floating, pa.types.is_integer, pa.types.is_boolean, pa.types.is_decimal)
    return all(any(test(types[column]) for test in plain) for column in columns)


def schema_precision(schema: pa.Schema, columns: Iterable[str]) -> np.dtype[Any]:
    """Return the precision that the types of these columns of an Arrow table ask for."""
    types = dict(zip(schema.names, schema.types, strict=True))
    return precision(*map(_numpy_type, {types[column] for column in columns if column in types}))


def _numpy_type(kind: pa.DataType) -> Any:
    """Return a type that holds all values of an Arrow type of numbers; float64 for other types."""
    import pyarrow as pa

    known = pa.types.is_floating(kind) or pa.types.is_integer(kind)
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return np.bool_
    return kind.to_pandas_dtype() if known else np.float64


def _matrix(
    batch: pa.RecordBatch, columns: list[str], dtype: np.dtype[Any], name: str, start: int
) -> FloatArray:
    """Copy the named columns into one C-contiguous matrix; nulls become NaN."""
    X = np.empty((batch.num_rows, len(columns)), dtype=dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        for position, column in enumerate(columns):
            X[:, position] = _numbers(batch.column(column), column, name, start)
    return X


def _numbers(values: pa.Array, column: str, name: str, start: int) -> NDArray[Any]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return as_array(values)
    if pa.types.is_null(kind):
        return np.full(len(values), np.nan)
    if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        return as_array(values.cast(pa.float64()))
    shown = next((value for value in values.to_pylist() if value is not None), None)
    raise InputError(
        f"{name}: columns must be numbers, but column {column!r} holds {kind} (row {start}: "
        f"{shown!r}); {text_remedy(column)}"
    )


def text_remedy(column: str) -> str:
    """Say what to do about a column of text, in the words of the library and of the command."""
    return (
        f"correct it, or fit without the column (drop=[{column!r}], --drop {column}), with it as "
        f"the label (label={column!r}, --label {column}) or prepared (prepare=True, --prepare)"
    )


def labels(values: pa.Array) -> NDArray[Any]:
    """Return a label column as a numpy array; dictionary-encoded text becomes plain text."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    array = np.asarray(values.to_numpy(zero_copy_only=False))
    # Object arrays of text compare and concatenate slowly and cannot be sorted with None in them.
    if array.dtype == object:
        return np.array(["" if value is None else str(value) for value in array])
    return array


class ArrowSource(TableSource):
    """A pyarrow Table or RecordBatch."""

    def __init__(self, table: Any, choice: Choice, chunk_rows: int) -> None:
        import pyarrow as pa

        self.table = pa.table(table) if isinstance(table, pa.RecordBatch) else table
        super().__init__(
            "Arrow table",
            list(table.schema.names),
            choice,
            n_rows=table.num_rows,
            chunk_rows=chunk_rows,
        )
        self.dtype = schema_precision(table.schema, self.columns)
        self.states_numbers = schema_numbers(table.schema, self.columns)

    def _rows(self) -> Iterator[Chunk]:
        batches = self.table.select(self.wanted).to_batches(max_chunksize=self.chunk_rows)
        yield from self._convert(batches)


class ArrowStream(TableSource):
    """A pyarrow RecordBatchReader: read once."""

    rereadable = False

    def __init__(self, reader: Any, choice: Choice, chunk_rows: int) -> None:
        self._reader = reader
        super().__init__("Arrow reader", list(reader.schema.names), choice, chunk_rows=chunk_rows)
        self.dtype = schema_precision(reader.schema, self.columns)

    def _rows(self) -> Iterator[Chunk]:
        yield from self._convert(self._reader)


def frame_precision(frame: Any, columns: Iterable[str] | None = None) -> np.dtype[Any]:
    """Return the precision that these (or all) columns of a pandas or polars frame ask for."""
    names = list(map(str, frame.columns))
    wanted = set(names if columns is None else columns)
    if hasattr(frame, "to_arrow"):
        return schema_precision(frame.head(0).to_arrow().schema, wanted)
    kinds = {kind for name, kind in zip(names, frame.dtypes, strict=True) if name in wanted}
    return precision(*map(_column_type, kinds))


def _column_type(kind: Any) -> Any:
    """Return the numpy type behind a pandas column; float64 for what is no plain number."""
    found = getattr(kind, "numpy_dtype", kind)  # of a column that may have gaps
    return found if isinstance(found, np.dtype) and found.kind in "biuf" else np.float64


class FrameSource(TableSource):
    """A pandas or polars frame, converted slice by slice: no second copy stands beside it."""

    def __init__(self, frame: Any, choice: Choice, chunk_rows: int) -> None:
        self._frame = frame
        super().__init__(
            "frame", list(map(str, frame.columns)), choice, n_rows=len(frame), chunk_rows=chunk_rows
        )
        self.dtype = frame_precision(frame, self.columns)

    def _rows(self) -> Iterator[Chunk]:
        for start in range(0, len(self._frame), self.chunk_rows):
            yield from self._block(start)

    def _block(self, start: int) -> Iterator[Chunk]:
        batches = self._slice(start).combine_chunks().to_batches()
        yield from self._convert(batches, start=start, row=start)

    def blocks(self) -> list[Block]:
        return [partial(self._block, at) for at in range(0, len(self._frame), self.chunk_rows)]

    def _slice(self, start: int) -> pa.Table:
        import pyarrow as pa

        if hasattr(self._frame, "to_arrow"):
            return self._frame[start : start + self.chunk_rows].select(self.wanted).to_arrow()
        rows = self._frame.iloc[start : start + self.chunk_rows]
        rows = rows.set_axis(list(map(str, rows.columns)), axis=1)[self.wanted]
        if self.decoder is not None:
            rows = _one_type_each(rows)
        try:
            return pa.Table.from_pandas(rows, preserve_index=False)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise InputError(
                f"frame: columns must be numbers, but rows from {start} on hold mixed types "
                f"({error}); convert or drop that column"
            ) from None


def _one_type_each(rows: Any) -> Any:
    """A pandas frame whose columns of objects hold text or None, whatever was mixed in them."""
    objects = [
        name
        for name, kind in zip(rows.columns, rows.dtypes, strict=True)
        if kind == np.dtype(object)
    ]
    if not objects:
        return rows
    return rows.assign(
        **{name: rows[name].map(str).where(rows[name].notna(), None) for name in objects}
    )
