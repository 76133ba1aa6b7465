"""What to do with each column of a table, learned once and applied to every later row.

A preparation is plain data, so a model folder keeps it as JSON. `matrix` turns rows into features
in the table's own units, `offset` and `scale` say how they are weighed, and `undo` turns features
back into the table's terms.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from tell.data.cells import as_days, as_numbers, as_texts, is_numeric, plain_number
from tell.data.chunks import Block, Chunk, FloatArray, Source
from tell.data.tables import TableSource
from tell.exceptions import InputError, ModelFileError, TellWarning
from tell.schema import NUMBER, TEXT, TRUTH, MisfitError, check, either, list_of, optional, record

_COLUMN = {
    "name": TEXT,
    "kind": TEXT,
    "treatment": TEXT,
    "fill": optional(either(TEXT, NUMBER)),
    "categories": optional(list_of(TEXT)),
    "numeric": TRUTH,
    "pattern": optional(TEXT),
    "offset": list_of(NUMBER),
    "scale": list_of(NUMBER),
    "missing": NUMBER,
    "note": TEXT,
}
_SCHEMA = record({"columns": list_of(record(_COLUMN)), "drops_rows": TRUTH})

if TYPE_CHECKING:
    import pyarrow as pa

MOST_COMPLAINTS = 20
YEAR = 365.2425
_NUMBERS = ("plain", "standard", "robust", "log")  # treatments of columns that are numbers
_DATE_PARTS = ("day", "year sin", "year cos")
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Column:
    """One column of the table.

    Attributes
    ----------
    name : str
    kind : str
        What it is: number, whole number, boolean, category, date, text, id, constant or empty.
    treatment : str
        What becomes of it: "standard", "robust", "plain" and "log" are numbers as they are (or
        their logarithm), differently weighed; "0/1", "one-hot", "date"; "left out".
    fill : float, str or None
        What a gap gets: the median of a number, the most common text. None: a gap stays a gap.
    categories : tuple of str or None
        The texts of a category; of a boolean the false one and the true one.
    numeric : bool
        Whether all cells are numbers: then the categories 1 and 1.0 are the same one.
    pattern : str or None
        How dates are written, where they are texts.
    offset, scale : tuple of float, one per feature
        What is clustered is (feature − offset) / scale.
    missing : float
        Share of the rows of the fit that had a gap here.
    note : str
        Why it was treated like this.
    """

    name: str
    kind: str = "number"
    treatment: str = "plain"
    fill: float | str | None = None
    categories: tuple[str, ...] | None = None
    numeric: bool = False
    pattern: str | None = None
    offset: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    missing: float = 0.0
    note: str = ""

    @property
    def features(self) -> list[str]:
        """Names of the features this column becomes."""
        if self.treatment == "left out":
            return []
        if self.treatment == "one-hot":
            return [f"{self.name}={category}" for category in self.categories or ()]
        if self.treatment == "0/1":
            true = (self.categories or ("0", "1"))[1]
            return [self.name if true.lower() in ("1", "true") else f"{self.name}={true}"]
        if self.treatment == "date":
            return [f"{self.name} ({part})" for part in _DATE_PARTS]
        return [f"log1p({self.name})" if self.treatment == "log" else self.name]

    def encode(self, cells: pa.Array, complaints: Complaints) -> tuple[FloatArray, Mask]:
        """Features (rows, width) with gaps filled, and which rows had a gap (rows,)."""
        if self.treatment == "one-hot":
            return self._one_hot(cells, complaints)
        if self.treatment == "0/1":
            numbers = self._truths(cells, complaints)
        elif self.treatment == "date":
            numbers = self._days(cells, complaints)
        else:
            numbers = self._numbers(cells, complaints)
        gaps = np.isnan(numbers)
        if self.fill is not None:
            numbers = np.where(gaps, float(self.fill), numbers)
        if self.treatment == "log":
            return np.log1p(numbers)[:, None], gaps
        return (_date_parts(numbers) if self.treatment == "date" else numbers[:, None]), gaps

    def decode(self, block: FloatArray) -> list[Any]:
        """Features (rows, width) back as values of the column."""
        if self.treatment == "one-hot":
            return [(self.categories or ())[place] for place in block.argmax(axis=1)]
        if self.treatment == "0/1":
            words = self.categories or ("0", "1")
            return [words[int(value >= 0.5)] for value in block[:, 0]]
        if self.treatment == "date":
            return np.rint(block[:, 0]).astype("datetime64[D]").astype(str).tolist()
        values = np.expm1(block[:, 0]) if self.treatment == "log" else block[:, 0]
        return [float(value) for value in values]

    def _numbers(self, cells: pa.Array, complaints: Complaints) -> NDArray[np.float64]:
        numbers = as_numbers(cells)
        if numbers is None:
            numbers = complaints.texts(cells, self.name)
        return self._usable(numbers, complaints)

    def _usable(self, numbers: NDArray[np.float64], complaints: Complaints) -> NDArray[np.float64]:
        """Complain about numbers that cannot be clustered."""
        for row in np.flatnonzero(np.isinf(numbers)):
            complaints.add(row, self.name, "is infinite, but values must be finite; correct it")
        if self.treatment == "log":
            for row in np.flatnonzero(numbers <= -1):
                complaints.add(
                    row, self.name, f"holds {numbers[row]:g}, but its logarithm is clustered, so "
                    f"that it must be above -1; correct it, or fit with --column {self.name}:number"
                )  # fmt: skip
            numbers = np.where(numbers <= -1, np.nan, numbers)
        return numbers

    def _days(self, cells: pa.Array, complaints: Complaints) -> NDArray[np.float64]:
        days = as_days(cells, self.pattern)
        if days is not None:
            return days
        for row, text in enumerate(as_texts(cells)):
            if text and as_days(cells.slice(row, 1), self.pattern) is None:
                complaints.add(
                    row, self.name, f"holds {text!r}, but held dates such as "
                    f"{_example(self.pattern)} when the model was fitted; correct it"
                )  # fmt: skip
        return np.full(len(cells), np.nan)

    def _truths(self, cells: pa.Array, complaints: Complaints) -> NDArray[np.float64]:
        no, yes = self.categories or ("0", "1")
        texts = np.array([text.lower() for text in self._texts(cells)], dtype=object)
        found = np.where(texts == yes.lower(), 1.0, np.where(texts == no.lower(), 0.0, np.nan))
        for row in np.flatnonzero(np.isnan(found) & (texts != "")):
            complaints.add(
                row, self.name, f"holds {texts[row]!r}, but held only {yes!r} and {no!r} when the "
                "model was fitted; correct it"
            )  # fmt: skip
        return found

    def _one_hot(self, cells: pa.Array, complaints: Complaints) -> tuple[FloatArray, Mask]:
        texts = self._texts(cells)
        gaps = texts == ""
        if self.fill is not None:
            texts = np.where(gaps, self.fill, texts)
        known = self.categories or ()
        block = np.stack([texts == category for category in known], axis=1).astype(np.float64)
        unknown = ~gaps & (block.sum(axis=1) == 0)
        if unknown.any():
            warnings.warn(
                f"{complaints.name}: column {self.name!r} holds texts that the model never saw, "
                f"such as {texts[unknown][0]!r}; these rows belong to none of its categories",
                TellWarning,
                stacklevel=2,
            )
        if self.fill is None:
            block[gaps] = np.nan
        return block, gaps

    def _texts(self, cells: pa.Array) -> NDArray[Any]:
        """Cells as the texts that categories are compared with."""
        texts = as_texts(cells)
        if not (self.numeric or is_numeric(cells)):
            return texts
        plain = {text: plain_number(text) for text in set(texts.tolist())}
        return np.array([plain[text] for text in texts.tolist()], dtype=object)


class Complaints:
    """All that is wrong with rows of a table, each with row, column and remedy."""

    def __init__(self, name: str, start: int = 0) -> None:
        self.name, self.start = name, start
        self.found: list[str] = []

    def add(self, row: int | np.integer[Any], column: str, what: str) -> None:
        """Complain about one cell."""
        where = f"row {self.start + int(row)} (counting from 0) of column {column!r}"
        self.found.append(f"{self.name}: {where} {what}")

    def texts(self, cells: pa.Array, column: str) -> NDArray[np.float64]:
        """Complain about every text in a column of numbers; give the numbers, NaN for the rest."""
        numbers = np.full(len(cells), np.nan)
        for row, text in enumerate(as_texts(cells)):
            try:
                numbers[row] = float(text or "nan")
            except ValueError:
                self.add(
                    row, column, f"holds {text!r}, but held numbers when the model was fitted; "
                    "correct it"
                )  # fmt: skip
        return numbers

    def raise_any(self) -> None:
        """Raise one error with all complaints, if there are any."""
        if self.found:
            raise InputError(as_one(self.found))


def as_one(complaints: list[str]) -> str:
    """Several complaints as the text of one error."""
    more = len(complaints) - MOST_COMPLAINTS
    shown = complaints[:MOST_COMPLAINTS] + ([f"and {more:,} more"] if more > 0 else [])
    return "\n".join(shown)


@dataclass(frozen=True)
class Preparation:
    """What to do with each column, learned by `survey.learn` and applied by `matrix`.

    Attributes
    ----------
    columns : tuple of Column
        All columns of the table, those that are left out too.
    drops_rows : bool
        Whether rows with a gap are left out of the fit (and left without a label).

    Examples
    --------
    >>> import pyarrow as pa
    >>> age = Column("age", fill=38.0, offset=(38.0,), scale=(10.0,))
    >>> city = Column("city", "category", "one-hot", "Ulm", ("Bonn", "Ulm"))
    >>> preparation = Preparation((age, city))
    >>> preparation.feature_names
    ['age', 'city=Bonn', 'city=Ulm']
    >>> rows = pa.record_batch({"city": ["Ulm", "Bonn"], "age": ["31", "n.a."]})
    >>> X, filled = preparation.encode(rows, "people")
    >>> X.tolist(), filled.tolist()
    ([[31.0, 0.0, 1.0], [38.0, 1.0, 0.0]], [[False, False, False], [True, False, False]])
    >>> preparation.undo(X)
    {'age': [31.0, 38.0], 'city': ['Ulm', 'Bonn']}
    >>> preparation.groups
    {'age': [0], 'city': [1, 2]}
    """

    columns: tuple[Column, ...]
    drops_rows: bool = False

    @property
    def used(self) -> list[Column]:
        """The columns that are clustered."""
        return [column for column in self.columns if column.treatment != "left out"]

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns of the matrix."""
        return [feature for column in self.columns for feature in column.features]

    @property
    def groups(self) -> dict[str, list[int]]:
        """The features of each column that is clustered, by their places in the matrix."""
        groups: dict[str, list[int]] = {}
        place = 0
        for column in self.used:
            groups[column.name] = list(range(place, place + len(column.features)))
            place += len(column.features)
        return groups

    @property
    def offset(self) -> NDArray[np.float64]:
        """What is subtracted from each feature (d,)."""
        parts = (column.offset or (0.0,) * len(column.features) for column in self.used)
        return np.array([value for part in parts for value in part])

    @property
    def scale(self) -> NDArray[np.float64]:
        """What each feature is divided by (d,) after that."""
        parts = (column.scale or (1.0,) * len(column.features) for column in self.used)
        return np.array([value for part in parts for value in part])

    def apply(self, source: TableSource, *, keep_gaps: bool = False) -> Source:
        """Read `source` through this preparation; its features change names and number.

        With `keep_gaps`, rows that would be dropped stay, with NaN in them, so that every row of
        the file can be accounted for.
        """
        source.decoder = _Decoder(self, source)
        source.preparation = self
        source.feature_names = self.feature_names
        source.shape = (len(self.feature_names),)
        source.dtype = np.dtype(np.float64)  # what fills a gap may be any mean
        return CompleteRows(source) if self.drops_rows and not keep_gaps else source

    def encode(self, batch: pa.RecordBatch, name: str, start: int = 0) -> tuple[FloatArray, Mask]:
        """Turn rows into features (rows, d) in the table's units, and say which were filled.

        A gap becomes the column's `fill`, or NaN where rows with gaps are dropped; text that was
        never seen belongs to no category.
        """
        complaints = Complaints(name, start)
        X, filled = self._encode(batch, complaints)
        complaints.raise_any()
        return X, filled

    @cached_property
    def number_columns(self) -> list[Column] | None:
        """The columns that are clustered, if all of them are plain numbers or their logarithms."""
        used = self.used
        return used if all(column.treatment in _NUMBERS for column in used) else None

    @cached_property
    def _fills_and_logs(self) -> tuple[NDArray[np.float64], Mask]:
        """What fills a gap of each of `number_columns`, and which of them become logarithms."""
        columns = self.number_columns or []
        fills = np.array([np.nan if c.fill is None else float(c.fill) for c in columns])
        return fills, np.array([column.treatment == "log" for column in columns], bool)

    def encode_numbers(
        self, numbers: NDArray[np.float64], name: str, start: int = 0
    ) -> tuple[FloatArray, Mask]:
        """As `encode`, of `number_columns` (rows, columns) at once; NaN is a gap.

        >>> ages = Preparation((Column("age", fill=38.0), Column("debt", treatment="log", fill=0)))
        >>> ages.encode_numbers(np.array([[np.nan, 0.0]]), "people")[0].tolist()
        [[38.0, 0.0]]
        """
        fills, logs = self._fills_and_logs
        if np.isinf(numbers).any() or (numbers[:, logs] <= -1).any():
            complaints = Complaints(name, start)
            for place, column in enumerate(self.number_columns or []):
                column._usable(numbers[:, place], complaints)
            complaints.raise_any()
        gaps = np.isnan(numbers)
        X = np.where(gaps, fills, numbers)
        X[:, logs] = np.log1p(X[:, logs])
        return X, gaps

    def _encode(self, batch: pa.RecordBatch, complaints: Complaints) -> tuple[FloatArray, Mask]:
        X = np.zeros((batch.num_rows, len(self.feature_names)))
        filled = np.zeros(X.shape, dtype=bool)
        groups = self.groups
        for column in self.used:
            places = groups[column.name]
            block, gaps = column.encode(batch.column(column.name), complaints)
            X[:, places] = block
            filled[:, places] = gaps[:, None]
        return X, filled

    def complaints(self, batch: pa.RecordBatch, name: str, start: int = 0) -> list[str]:
        """All that is wrong with these rows."""
        complaints = Complaints(name, start)
        self._encode(batch, complaints)
        return complaints.found

    def undo(self, X: FloatArray) -> dict[str, list[Any]]:
        """Turn features (rows, d) into columns of the table: numbers, texts and dates."""
        groups = self.groups
        return {column.name: column.decode(X[:, groups[column.name]]) for column in self.used}

    def to_json(self) -> dict[str, Any]:
        """Give plain data for a model folder."""
        content: dict[str, Any] = json.loads(json.dumps(asdict(self)))  # lists, as JSON has them
        return content

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """Build it again from what `to_json` gave."""
        try:
            check(content, _SCHEMA, "the model's preparation")
            columns = tuple(_column(entry) for entry in content["columns"])
        except MisfitError as error:
            raise ModelFileError(f"{error}; fit the model again") from None
        preparation = cls(columns, bool(content["drops_rows"]))
        if not preparation.feature_names:
            raise ModelFileError(
                "the model's preparation leaves out every column, but a fit needs at least one; "
                "fit the model again"
            )
        return preparation


class _Decoder:
    """Reads rows of a source by a preparation; what is wrong with the source is said at once."""

    def __init__(self, preparation: Preparation, source: TableSource) -> None:
        self._preparation, self._source = preparation, source
        self._positions = self._by_position()

    def _by_position(self) -> list[str] | None:
        """The names of columns that the source only numbers: those used, or all."""
        if self._source.named:
            return None
        for columns in (self._preparation.used, self._preparation.columns):
            if len(columns) == len(self._source.columns):
                return [column.name for column in columns]
        return None

    def _named(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self._positions is None:
            return batch
        return batch.select(self._source.columns).rename_columns(self._positions)

    def __call__(self, batch: pa.RecordBatch, name: str, start: int) -> tuple[FloatArray, Mask]:
        found = Complaints(name, start)
        X, filled = self._preparation._encode(self._named(batch), found)
        if found.found:
            raise InputError(as_one(self._all(found.found)))
        return X, filled

    def _all(self, first: list[str]) -> list[str]:
        """Read the source to its end for complaints, if it can be read again."""
        if not self._source.rereadable:
            return first
        found: list[str] = []

        def look(batch: pa.RecordBatch, name: str, start: int) -> FloatArray:
            if len(found) < 10 * MOST_COMPLAINTS:
                found.extend(self._preparation.complaints(self._named(batch), name, start))
            return np.empty((batch.num_rows, 0))

        self._source.decoder = look
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TellWarning)
                for _ in self._source.chunks():
                    pass
        finally:
            self._source.decoder = self
        return found or first


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
        self.preparation = source.preparation
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


def _column(entry: dict[str, Any]) -> Column:
    lists = ("categories", "offset", "scale")
    return Column(**entry | {name: tuple(entry[name]) for name in lists if entry[name] is not None})


def _date_parts(days: NDArray[np.float64]) -> FloatArray:
    """Days since 1970 as a line and as a circle of one year."""
    turn = 2 * np.pi * days / YEAR
    return np.stack([days, np.sin(turn), np.cos(turn)], axis=1)


def _example(pattern: str | None) -> str:
    import datetime

    return datetime.datetime(2024, 1, 31).strftime(pattern or "%Y-%m-%d")
