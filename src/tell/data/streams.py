"""Rows that arrive by themselves: iterables of batches, and lines of CSV or JSON."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.data.arrays import as_numbers, sample_shape
from tell.data.chunks import Choice, Chunk, Source, finite, no_rows, precision
from tell.data.csv_files import Layout
from tell.data.limits import check_size, lines_of
from tell.data.tables import TableSource
from tell.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE = 1 << 20
_INT64 = 1 << 63


class IterableSource(Source):
    """A generator, a `DataLoader` or any iterable of batches ``X`` or ``(X, y)``.

    What gives a new iterator every time it is asked (a loader, a list) can be read again; a
    generator cannot. The first batch decides on shape and precision.
    """

    def __init__(self, batches: Iterable[Any], chunk_rows: int) -> None:
        name = type(batches).__name__
        iterator = iter(batches)
        first = next(iterator, None)
        if first is None:
            raise no_rows(name)
        X, y = _features_and_labels(first, name, 0)
        self.labelled = y is not None
        self.rereadable = iterator is not batches
        self._batches = batches if self.rereadable else chain([first], iterator)
        shape = sample_shape(X.shape, X.dtype, f"{name}, batch 0")
        super().__init__(name, shape, chunk_rows=chunk_rows, dtype=precision(X.dtype))

    def _rows(self) -> Iterator[Chunk]:
        start = 0
        for number, item in enumerate(self._batches):
            X, y = _features_and_labels(item, self.name, number)
            if X.ndim < 2 or X[0].size != self.n_features:
                raise InputError(
                    f"{self.name}: batch {number} must hold rows of {self.n_features} values like "
                    f"the first batch, got shape {X.shape}"
                )
            if X.dtype.kind in "biuf" and precision(X.dtype) > self.dtype:
                raise InputError(
                    f"{self.name}: batch {number} must hold {self.dtype} like the first batch, got "
                    f"{X.dtype}, whose values would be rounded; give all batches one type"
                )
            for chunk in self._split(X, y, start):
                yield chunk
                start += len(chunk)

    def _split(self, X: NDArray[Any], y: NDArray[Any] | None, start: int) -> Iterator[Chunk]:
        for first in range(0, len(X), self.chunk_rows):
            rows = slice(first, first + self.chunk_rows)
            part = as_numbers(X[rows].reshape(-1, self.n_features), self.dtype, self.name)
            finite(part, name=self.name, start=start + first, columns=None)
            yield Chunk(part, None if y is None else y[rows], start + first)


def _features_and_labels(
    item: Any, name: str, number: int
) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Take a batch apart: loaders give [X] or [X, y], generators X or (X, y)."""
    if isinstance(item, tuple | list) and 0 < len(item) <= 2 and hasattr(item[0], "shape"):
        X, y = _to_array(item[0]), _to_array(item[1]) if len(item) == 2 else None
    else:
        X, y = _to_array(item), None
    if y is not None and y.shape != X.shape[:1]:
        raise InputError(
            f"{name}: batch {number} must hold one label per row, got {y.shape} labels for rows "
            f"of shape {X.shape}"
        )
    return X, y


def _to_array(values: Any) -> NDArray[Any]:
    # Tensors may sit on another device or carry a gradient.
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


class LineSource(TableSource):
    """Lines of CSV, or of JSON objects or arrays, handed on as soon as they have arrived.

    Parameters
    ----------
    open_stream : callable
        Gives the stream of bytes.
    rereadable : bool
        Whether `open_stream` may be called again.

    Attributes
    ----------
    on_error : callable or None
        Takes what is wrong with a line, which is then passed over and still counted as a row. None:
        the first such line is an error.
    """

    on_error: Callable[[InputError], None] | None = None

    def __init__(
        self,
        open_stream: Callable[[], IO[bytes]],
        name: str,
        choice: Choice,
        chunk_rows: int,
        *,
        rereadable: bool,
    ) -> None:
        self.rereadable = rereadable
        self._open = open_stream
        self._stream: IO[bytes] | None = open_stream()
        self._first = _first_line(self._stream, name)
        self._is_json = self._first.lstrip()[:1] in (b"{", b"[")
        recognise = _json_layout if self._is_json else _layout
        self._layout = _named_by_position(recognise(self._first, name), choice)
        super().__init__(
            name,
            self._layout.names,
            choice,
            named=not _nameless(self._layout),
            chunk_rows=chunk_rows,
        )

    def _rows(self) -> Iterator[Chunk]:
        self._next = 0  # number of the next row
        for lines in self._whole_lines():
            yield from self._read(lines)
        if self._next == 0:
            raise no_rows(self.name)

    def _read(self, lines: bytes) -> Iterator[Chunk]:
        """Read whole lines; before one that cannot be used come all that stand above it."""
        read, start = self._from_json if self._is_json else self._from_csv, self._next
        try:
            chunks = list(self._convert(read(lines, start), start=start, row=start))
        except InputError as error:
            above, below = _halves(lines, quoted=not self._is_json)
            if below.strip():
                yield from self._read(above)
                yield from self._read(below)
            elif self.on_error is None:
                raise
            else:
                self._next += 1
                self.on_error(error)
            return
        for chunk in chunks:
            self._next = chunk.start + len(chunk)
            yield chunk

    def _whole_lines(self) -> Iterator[bytes]:
        """Give what has arrived, up to the last line end; never wait for more than one line."""
        if (stream := self._stream) is None:
            stream = self._open()
            _first_line(stream, self.name)
        self._stream = None
        rest = b"" if self._layout.has_header else self._first
        with stream:
            while piece := stream.read1(_PIECE):  # type: ignore[attr-defined]
                lines, end, beginning = piece.rpartition(b"\n")
                if end:
                    yield rest + lines + end
                rest = beginning if end else rest + beginning
                check_size(4 * len(rest), "a line, read as text,", self.name)
        if rest.strip():
            yield rest

    def _from_csv(self, lines: bytes, start: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        if not lines.strip():
            return
        headless = replace(self._layout, has_header=False)
        try:
            yield from headless.parse(
                io.BytesIO(lines),
                self.wanted,
                self.label,
                as_text=self.decoder is not None,
                carried=self.carried,
            )
        except pa.ArrowInvalid as error:
            reason = headless.first_mistake(io.BytesIO(lines), self.columns, first_row=start)
            raise InputError(f"{self.name}: {reason or error}") from None

    def _from_json(self, lines: bytes, start: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        rows: list[dict[str, Any]] = []
        for line in filter(None, map(bytes.strip, lines.split(b"\n"))):
            row = _json_row(line, f"{self.name}: row {start + len(rows)}")
            rows.append({column: _storable(row.get(column)) for column in self.wanted})
        try:
            yield pa.RecordBatch.from_pylist(rows)
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise InputError(
                f"{self.name}: rows {start} to {start + len(rows) - 1} mix types in one column or "
                f"hold text that is none ({error})"
            ) from None


def open_lines(paths: list[Path], name: str, choice: Choice, chunk_rows: int) -> Source:
    """Open a file of JSON lines."""
    if len(paths) > 1:
        raise InputError(f"{name}: only one file of JSON lines at a time, got {len(paths)}")
    path = paths[0]
    return LineSource(lambda: path.open("rb"), name, choice, chunk_rows, rereadable=True)


def _first_line(stream: IO[bytes], name: str) -> bytes:
    for line in lines_of(stream, name):
        if line.strip():
            return line
    raise no_rows(name)


def _halves(lines: bytes, *, quoted: bool) -> tuple[bytes, bytes]:
    r"""Cut behind a line end near the middle, if there is one; where it is `quoted` it is none.

    >>> _halves(b"1,2\n3,4\n5,6\n", quoted=True)
    (b'1,2\n', b'3,4\n5,6\n')
    >>> _halves(b'1,"a\nb"\n', quoted=True)
    (b'1,"a\nb"\n', b'')
    """
    places: list[int] = []
    behind = quotes = 0
    for line in lines.splitlines(keepends=True):
        behind += len(line)
        quotes += line.count(b'"') if quoted else 0
        if quotes % 2 == 0 and behind < len(lines):
            places.append(behind)
    cut = min(places, key=lambda place: abs(2 * place - len(lines)), default=len(lines))
    return lines[:cut], lines[cut:]


def _layout(line: bytes, name: str) -> Layout:
    try:
        return Layout.of_line(line.decode("utf-8-sig").rstrip("\r\n"), name)
    except UnicodeDecodeError as error:
        raise InputError(f"{name} must be UTF-8 text ({error}); convert it first") from None


def _json_row(line: bytes, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}; write one object per line") from None
    if isinstance(row, dict):
        return row
    if isinstance(row, list):
        return {str(position): value for position, value in enumerate(row)}
    raise InputError(f"{where} must be a JSON object or array, got {line[:40]!r}")


def _storable(value: Any) -> Any:
    """Take a whole number beyond 64 bits as the number that it would be with a decimal point."""
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf  # is reported with row and column
    return value


def _json_layout(line: bytes, name: str) -> Layout:
    return Layout("", list(_json_row(line, f"{name}: row 0")), has_header=False)


def _named_by_position(layout: Layout, choice: Choice) -> Layout:
    """Let lines without a header (`tail -f`) be the columns that were asked for, in that order."""
    wanted = [str(column) for column in choice.columns or []]
    if _nameless(layout) and len(wanted) == len(layout.names):
        positions = set(wanted) == set(layout.names)
        return layout if positions else replace(layout, names=wanted)
    return layout


def _nameless(layout: Layout) -> bool:
    return layout.names == [str(position) for position in range(len(layout.names))]
