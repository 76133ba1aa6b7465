"""The body of a request as rows: JSON, lines of CSV or JSON, or an Arrow stream.

All of it goes through the model's own door (`open_like`). Numbers in JSON, the common case, spare
the way through Arrow: they become the same features, as the tests hold.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Never

import numpy as np
from numpy.typing import NDArray

from tell.data.chunks import Chunk, finite
from tell.data.limits import decoding
from tell.exceptions import InputError
from tell.runtime.model_rows import feature_names, open_like
from tell.serving.arrow_bodies import read_arrow
from tell.serving.refusals import RequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from tell.data.preparation import Preparation

NAME = "body"  # what errors call it
JSON, CSV, LINES, ARROW = (
    "application/json",
    "text/csv",
    "application/x-ndjson",
    "application/vnd.apache.arrow.stream",
)
KINDS = (JSON, CSV, LINES, ARROW)
MOST_NUMBERS = 1 << 25  # features of one request in all: 256 MiB in double
_PLAIN = {int, float, type(None)}
_CELLS = (str, int, float, type(None))  # a bool is an int
_INT64 = 1 << 63
_DELIMITERS = (b",", b";", b"\t", b"|")

Rows = Sequence[Any]


@dataclass(frozen=True)
class RowLimits:
    """How much one request may bring."""

    rows: int = 100_000
    columns: int = 10_000

    def check_rows(self, rows: int, n_features: int = 1) -> None:
        """Refuse more rows than are allowed, or than fit."""
        if rows > self.rows:
            raise RequestError(
                413, f"{NAME}: at most {self.rows:,} rows, got {rows:,}; send them in parts"
            )
        if rows * n_features > MOST_NUMBERS:
            most = MOST_NUMBERS // n_features
            raise RequestError(
                413, f"{NAME}: at most {most:,} rows of {n_features:,} features, got {rows:,}; "
                "send them in parts"
            )  # fmt: skip

    def check_columns(self, columns: int) -> None:
        """Refuse more columns than are allowed."""
        if columns > self.columns:
            raise RequestError(
                422, f"{NAME}: at most {self.columns:,} columns, got {columns:,}; leave those out "
                "that the model does not use"
            )  # fmt: skip


class RowReader:
    """Reads rows for one fitted model.

    Parameters
    ----------
    model : fitted
    limits : RowLimits
    chunk_rows : int
        Most rows of a chunk.
    """

    def __init__(self, model: Any, limits: RowLimits, chunk_rows: int = 65536) -> None:
        self._model, self._limits, self._chunk_rows = model, limits, chunk_rows
        self._prepared: Preparation | None = getattr(model, "preparation_", None)
        self.n_features = int(model.n_features_in_)
        self._widths: dict[int, list[str] | None] = {}  # values of a list → their columns
        if self._prepared is None:
            self.columns = feature_names(model)
            self._widths[self.n_features] = self.columns
        else:
            self.columns = [column.name for column in self._prepared.used]
            self._widths[len(self._prepared.columns)] = [c.name for c in self._prepared.columns]
            self._widths[len(self.columns)] = self.columns

    @property
    def all_numbers(self) -> bool:
        """Whether every column is to hold numbers."""
        return self._prepared is None or self._prepared.number_columns is not None

    def read(self, body: bytes, kind: str) -> list[Chunk]:
        """All rows of a body of this content type, checked; nothing is learned of a bad one."""
        if kind == JSON:
            rows = parse_json(body)
            if (numbers := self.numbers(rows)) is not None:
                return [numbers]
            return self._open(self._table(rows))
        if kind == ARROW:
            table = read_arrow(body, self._limits, self.columns, NAME)
            return self._open(table)
        return self._open(self._lines(body))

    def numbers(self, rows: Rows) -> Chunk | None:
        """Rows of a JSON body that are plain numbers; None where there is more to read in them."""
        names = self._checked(rows)
        if not self.all_numbers or names is not self.columns:
            return None
        cells: Any = rows
        if isinstance(rows[0], dict):
            cells = [[row[name] for name in names] for row in rows] if names else None
        if not set(map(type, chain.from_iterable(cells))) <= _PLAIN:
            return None
        try:
            X = np.array(cells, dtype=np.float64)
        except OverflowError:  # a whole number beyond all others
            return None
        if self._prepared is None:
            return Chunk(finite(X, name=NAME, start=0, columns=names), None, 0)
        encoded, filled = self._prepared.encode_numbers(X, NAME)
        return Chunk(encoded, None, 0, filled=filled)

    def _checked(self, rows: Rows) -> list[str] | None:
        """Check that rows are rows of the model's columns; give the names of the columns."""
        if not rows:
            raise InputError(f"{NAME} needs at least one row, got none")
        self._limits.check_rows(len(rows), self.n_features)
        if isinstance(rows[0], dict):
            self._check_objects(rows)
            return self.columns
        if not isinstance(rows[0], list):
            _bad_row(0, "must be an object or a list", rows[0])
        width = len(rows[0])
        if width not in self._widths:
            wanted = " or ".join(f"{known:,}" for known in sorted(self._widths))
            names = "" if self.columns is None else f": {', '.join(self.columns[:12])}"
            raise InputError(f"{NAME}: row 0 needs {wanted} values, got {width:,}{names}")
        for number, row in enumerate(rows):
            if type(row) is not list or len(row) != width:
                _bad_row(number, f"must be a list of {width:,} values like the first", row)
        return self._widths[width]

    def _check_objects(self, rows: Rows) -> None:
        if self.columns is None:
            raise InputError(
                f"{NAME}: the model was fitted to an array, whose columns have no names; send each "
                f"row as a list of {self.n_features:,} numbers"
            )
        for number, row in enumerate(rows):
            if type(row) is not dict:
                _bad_row(number, "must be an object like the first", row)
            self._limits.check_columns(len(row))
            for name in self.columns:
                if name not in row:
                    raise InputError(
                        f"{NAME}: row {number} (counting from 0) lacks the column {name!r}; give "
                        "it, or null where there is no value"
                    )

    def _table(self, rows: Rows) -> pa.Table:
        """Rows as a table, cells as they are."""
        import pyarrow as pa

        names = self._checked(rows) or [str(place) for place in range(self.n_features)]
        named = isinstance(rows[0], dict)
        columns = [
            _column([row[name if named else place] for row in rows], name, self.all_numbers)
            for place, name in enumerate(names)
        ]
        return pa.Table.from_arrays(columns, names=names)

    def _lines(self, body: bytes) -> io.BufferedIOBase:
        if not body.strip():
            raise InputError(f"{NAME} needs at least one row, got none")
        first, _, _ = body.lstrip().partition(b"\n")
        self._limits.check_columns(1 + max(first.count(mark) for mark in _DELIMITERS))
        self._limits.check_rows(body.count(b"\n"), 1)
        return _Body(body)

    def _open(self, data: Any) -> list[Chunk]:
        with decoding(NAME, "table"):
            source = open_like(self._model, data, keep_gaps=True, chunk_rows=self._chunk_rows)
            source.name = NAME
            chunks = list(source.chunks())
        self._limits.check_rows(sum(map(len, chunks)), self.n_features)
        if not chunks:
            raise InputError(f"{NAME} needs at least one row, got none")
        return chunks


class _Body(io.BytesIO):
    """A body that is given at once, so that no cell is cut."""

    name = NAME

    def read1(self, size: int | None = -1) -> bytes:
        return self.read()


def parse_json(body: bytes) -> Rows:
    """The rows of {"rows": [...]} or of a bare list."""
    try:
        content = json.loads(body, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise RequestError(400, f"{NAME} is not JSON: {reason}") from None
    if isinstance(content, dict):
        content = content.get("rows")
    if not isinstance(content, list):
        raise RequestError(
            422, f'{NAME} needs a list of rows, as {{"rows": [{{"age": 31}}]}} or as a bare list'
        )
    return content


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is not a value of JSON; null is a gap")


def _bad_row(number: int, rule: str, found: Any) -> Never:
    shown = json.dumps(found)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    raise InputError(f"{NAME}: row {number} (counting from 0) {rule}, got {shown}")


def _column(cells: list[Any], name: str, numeric: bool) -> pa.Array:
    """The cells of one column: numbers, or texts where one of them is."""
    import pyarrow as pa

    for number, cell in enumerate(cells):
        if not isinstance(cell, _CELLS):
            kind = "an object" if isinstance(cell, dict) else "a list"
            raise InputError(
                f"{NAME}: row {number} (counting from 0), column {name!r} must be a number, a "
                f"text, true, false or null, got {kind}"
            )
    if any(isinstance(cell, str) for cell in cells):
        cells = [None if cell is None else _text(cell) for cell in cells]
    elif numeric or not all(isinstance(cell, bool | None) for cell in cells):
        cells = [None if cell is None else _number(cell) for cell in cells]
    try:
        return pa.array(cells)
    except (pa.ArrowException, UnicodeError) as error:
        raise InputError(f"{NAME}: column {name!r} holds text that is none ({error})") from None


def _text(cell: str | float | bool) -> str:
    return cell if isinstance(cell, str) else json.dumps(cell)


def _number(cell: float) -> float:
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf  # is reported with row and column


def matrix(chunks: list[Chunk]) -> NDArray[Any]:
    """The features (n, d) of all chunks."""
    return chunks[0].X if len(chunks) == 1 else np.concatenate([chunk.X for chunk in chunks])
