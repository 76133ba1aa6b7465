"""Tables read through a preparation: columns by name, and what is kept beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import as_array, as_cells, is_numeric
from tell.data.chunks import Choice, Chunk, Source
from tell.data.preparation import Preparation
from tell.data.sources import is_array_like, is_frame, open_source
from tell.data.tables import ArrowSource, TableSource
from tell.exceptions import InputError


def open_prepared(
    data: Any, preparation: Preparation, *, keep_gaps: bool = False, **choice: Any
) -> Source:
    """Open a table by a preparation: its columns by name, in any order, others ignored."""
    wanted = [column.name for column in preparation.used]
    source = open_source(data, columns=wanted, by_name=True, **choice)
    if not isinstance(source, TableSource):
        source = _Numbered(source)
    if not source.named and len(source.columns) not in (len(wanted), len(preparation.columns)):
        raise InputError(
            f"{source.name}: the model needs {len(wanted)} columns, {', '.join(wanted[:12])}, got "
            f"{len(source.columns)} without names; give the table with its header"
        )
    return preparation.apply(source, keep_gaps=keep_gaps)


def is_table(X: Any, learned: Preparation) -> bool:
    """Whether X holds the table's own columns; arrays and open sources hold its features."""
    if isinstance(X, Source):
        return X.preparation is None and isinstance(X, TableSource)
    if is_array_like(X) and not is_frame(X):
        return False
    names = getattr(X, "columns", None)
    return names is None or [str(name) for name in names] != learned.feature_names


def in_columns_of(model: Any, data: Any) -> Any:
    """Give a table the model's columns, by name and in its order; leave anything else as it is.

    A table is read through the model's preparation, if it has one.
    """
    learned = getattr(model, "preparation_", None)
    if learned is not None and is_table(data, learned):
        return open_prepared(data, learned)
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None or not hasattr(data, "columns") or not hasattr(data, "to_numpy"):
        return data
    found, needed = [str(name) for name in data.columns], [str(name) for name in wanted]
    there = set(found)
    if missing := [name for name in needed if name not in there]:
        raise InputError(f"X needs the columns {needed} as in fit, got none called {missing[0]!r}")
    return data if found == needed else data[list(wanted)]


class _Numbered(TableSource):
    """An array as a table whose columns have numbers for names."""

    def __init__(self, source: Source) -> None:
        self._array = source
        names = [str(place) for place in range(source.n_features)]
        super().__init__(
            source.name,
            names,
            Choice(),
            named=False,
            n_rows=source.n_rows,
            chunk_rows=source.chunk_rows,
        )
        self.rereadable, self.labelled = source.rereadable, source.labelled

    def _rows(self) -> Iterator[Chunk]:
        import pyarrow as pa

        for chunk in self._array.chunks():
            columns = [as_cells(column) for column in chunk.X.T]
            batch = pa.RecordBatch.from_arrays(columns, names=self.columns)
            for part in self._convert([batch], start=chunk.start, row=chunk.start):
                yield replace(part, y=chunk.y)


class KeptColumns:
    """Columns that are not clustered, chunk by chunk, as they stand in the table.

    Reading the rows of `source` fills it: `take` gives the columns of the rows read since.
    """

    def __init__(self, source: Source, names: list[str]) -> None:
        self.names = names
        self._batches: list[Any] = []
        if not names:
            return
        if not isinstance(source, TableSource):
            raise InputError(
                f"{source.name}: --keep needs a table with the columns {names}, got an array"
            )
        missing = [name for name in names if name not in source.available]
        if missing:
            raise InputError(
                f"{source.name}: there is no column {', '.join(map(repr, missing))} to keep; it "
                f"has {', '.join(map(repr, source.available[:12]))}"
            )
        source.carried = list(names)
        source.on_batch = self._batches.append

    def take(self) -> dict[str, NDArray[Any]]:
        """The columns (rows,) of the rows that were read since the last call."""
        import pyarrow as pa

        if not self.names:
            return {}
        batches, self._batches[:] = list(self._batches), []
        table = pa.Table.from_batches(batches)
        return {name: _values(table.column(name)) for name in self.names}


def _values(cells: Any) -> NDArray[Any]:
    """Cells as they stand in the table: numbers as numbers, anything else as text."""
    cells = cells.combine_chunks()
    if is_numeric(cells) and not cells.null_count:
        return as_array(cells)
    import pyarrow as pa

    texts = cells.cast(pa.string()).to_pylist()
    return np.array(["" if text is None else text for text in texts])


def held_table(source: TableSource) -> ArrowSource:
    """Read a stream into memory, cells as they are, to go through it more than once."""
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []

    def keep(batch: pa.RecordBatch, name: str, start: int) -> NDArray[np.float64]:
        batches.append(batch)
        return np.empty((batch.num_rows, 0))

    source.decoder = keep
    for _ in source.chunks():
        pass
    try:
        table = pa.Table.from_batches(batches)
    except pa.ArrowInvalid:  # JSON lines whose numbers are whole here and not there
        table = pa.concat_tables(
            [pa.Table.from_batches([batch]) for batch in batches], promote_options="permissive"
        )
    held = ArrowSource(table, Choice(label=source.label), source.chunk_rows)
    held.name = source.name
    if source.feature_names is None:
        held.feature_names = None
    return held
