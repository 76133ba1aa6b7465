"""`TablePreparation`: a table as people have it becomes rows of numbers, as scikit-learn's part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tell.data.chunks import Choice, Chunk, Source
from tell.data.preparation import Preparation
from tell.data.sources import is_array_like, is_frame, open_source
from tell.data.survey import Encoding, Gaps, ScalingRule, learn
from tell.data.tables import ArrowSource, TableSource
from tell.exceptions import InputError

#: One line per column: what it is, what becomes of it, how much is missing, why.
Decision = dict[str, Any]


class TablePreparation(TransformerMixin, BaseEstimator):
    """Learn what each column of a table is, and turn tables into numbers that weigh alike.

    Numbers are standardised; where that is clearly better, by their logarithm (not negative, at
    most 10 % zeros, skewness above 2 and brought below a quarter of it, or a deviation more than
    five times that of the middle half and brought below twice) or else by their quartiles (a
    deviation more than five times that of the middle half). A category of any size weighs as much
    as one number, a boolean is one column. Gaps get the median or the most common value, and
    `missing` tells where they were. Dates, ids, free text and constants are left out, unless
    `types` says otherwise.

    Parameters
    ----------
    types : dict of str to str, optional
        What columns are to be, whatever they look like: "number", "log", "robust", "plain" (not
        scaled), "category", "boolean", "date" (a line and a yearly circle) or "drop".
    gaps : {"fill", "drop"}, default="fill"
        "drop" leaves out rows with a gap.
    scaling : {"auto", "standard", "none"}, default="auto"
        "standard" takes neither logarithms nor quartiles; "none" leaves numbers as they are.
    encoding : {"weighted", "standard"}, default="weighted"
        "standard" gives every value of a category the weight of a number.

    Attributes
    ----------
    preparation_ : tell.data.preparation.Preparation
        All that was learned, as plain data.
    decisions_ : list of dict
        One entry per column, in the table's order: column, kind, treatment, missing, fill, note.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31, None, 45], "city": ["Ulm", "Ulm", "Bonn"]})
    >>> prepare = TablePreparation().fit(table)
    >>> prepare.get_feature_names_out().tolist()
    ['age', 'city=Bonn', 'city=Ulm']
    >>> prepare.transform(table).round(2)[:, 0].tolist()
    [-1.0, 0.0, 1.0]
    >>> prepare.missing(table).tolist()
    [[False, False], [True, False], [False, False]]
    >>> prepare.inverse_transform(prepare.transform(table))["city"]
    ['Ulm', 'Ulm', 'Bonn']
    """

    preparation_: Preparation

    def __init__(
        self,
        *,
        types: Mapping[str, str] | None = None,
        gaps: Gaps = "fill",
        scaling: ScalingRule = "auto",
        encoding: Encoding = "weighted",
    ) -> None:
        self.types = types
        self.gaps = gaps
        self.scaling = scaling
        self.encoding = encoding

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a frame, an Arrow table or the path of a table."""
        self.preparation_ = self.learn(open_table(X))
        self.feature_names_in_ = np.array([c.name for c in self.preparation_.columns], dtype=object)
        self.n_features_in_ = len(self.feature_names_in_)
        return self

    def learn(self, source: TableSource) -> Preparation:
        """Read a source once; nothing is kept here."""
        return learn(
            source,
            types=self.types,
            gaps=self.gaps,
            scaling=self.scaling,
            encoding=self.encoding,
        )

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Rows as numbers (n, d) that weigh alike; NaN in rows with gaps under gaps="drop"."""
        check_is_fitted(self)
        learned = self.preparation_
        rows = open_prepared(X, learned, keep_gaps=True).read().X
        return np.asarray((rows - learned.offset) / learned.scale)

    def inverse_transform(self, X: Any) -> dict[str, list[Any]]:
        """Numbers (n, d) back as columns of the table, for `pandas.DataFrame`."""
        check_is_fitted(self)
        learned = self.preparation_
        return learned.undo(np.asarray(X, np.float64) * learned.scale + learned.offset)

    def missing(self, X: Any) -> NDArray[np.bool_]:
        """Which cells of the clustered columns are gaps, (n, columns)."""
        check_is_fitted(self)
        filled = open_prepared(X, self.preparation_, keep_gaps=True).read().filled
        firsts = [places[0] for places in self.preparation_.groups.values()]
        return np.zeros((0, len(firsts)), bool) if filled is None else filled[:, firsts]

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` gives."""
        check_is_fitted(self)
        return np.array(self.preparation_.feature_names, dtype=object)

    @property
    def decisions_(self) -> list[Decision]:
        """What was decided, column by column."""
        return decisions(self.preparation_)


def decisions(preparation: Preparation) -> list[Decision]:
    """What a preparation does, column by column, as a table."""
    return [
        {
            "column": column.name,
            "kind": column.kind,
            "treatment": column.treatment,
            "missing": column.missing,
            "fill": _shown_fill(column.fill, column.categories, column.treatment),
            "note": column.note,
        }
        for column in preparation.columns
    ]


def _shown_fill(fill: Any, categories: Sequence[str] | None, treatment: str) -> Any:
    """What fills gaps, in the table's own terms."""
    if fill is None or treatment == "left out":
        return None
    if treatment == "0/1" and categories is not None:
        return categories[int(fill)]
    if treatment == "date":
        return str(np.datetime64(round(fill), "D"))
    return fill


def open_table(data: Any, **choice: Any) -> TableSource:
    """Open what has named or numbered columns, so that it can be read twice."""
    source = open_source(data, **choice)
    if not isinstance(source, TableSource):
        raise InputError(
            f"{source.name}: a preparation needs a table with columns (a frame, CSV, Parquet), "
            "got an array; give it as a frame, or without preparing (prepare=False, --no-prepare)"
        )
    return source if source.rereadable else held_table(source)


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
            columns = [pa.array(np.ascontiguousarray(column)) for column in chunk.X.T]
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
    from tell.data.cells import is_numeric

    cells = cells.combine_chunks()
    if is_numeric(cells) and not cells.null_count:
        return np.asarray(cells.to_numpy(zero_copy_only=False))
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
