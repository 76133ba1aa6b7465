"""CSV files in chunks, as offices write them: encoding, delimiter, decimal sign, compression."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tell.data.cells import gap_spellings
from tell.data.chunks import Block, Choice, Chunk, no_rows
from tell.data.limits import lines_of, read_line
from tell.data.tables import TableSource, text_remedy
from tell.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = ",;\t|"
_LOOK = 1 << 18  # bytes at the beginning of a file that tell how it is written
_PIECE = 1 << 16
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),  # the mark itself is taken off the first name
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_COMMA_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+")
_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)(,\d+)?")
_POINT_NUMBER = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)\.\d+")
# The same for Arrow, which knows no look-around: 1.234,5 and 1.234 with a decimal comma.
_THOUSANDS = r"^[+-]?\d{1,3}(\.\d{3})+(,\d+)?$"
_DECIMAL = r"^[+-]?\d+,\d+$"


_COMMA = re.compile(r"[+-]?\d[\d.]*,[\d,]*\d(\.\d+)?")  # 5,1 or 1.000,5 or 1,000 or 1,000.5
_LOOK_LINES = 200
_READ_BYTES = 8 << 20
_SPAN_BYTES = 1 << 20  # of a block for shuffled reading


@dataclass(frozen=True)
class Layout:
    """How the lines of a CSV file are cut: delimiter, column names and whether a header names them.

    Without a header the names are the positions "0", "1", …
    """

    delimiter: str
    names: list[str]
    has_header: bool
    encoding: str = "utf-8"
    decimal: str = "."

    @classmethod
    def of_line(cls, line: str, name: str) -> Layout:
        """Recognise the layout from the first line; all numbers means that it is no header."""
        delimiter = recognise_delimiter(line)
        try:
            fields = next(csv.reader([line], delimiter=delimiter), [])
        except csv.Error as error:
            raise InputError(f"{name}: the first line is not CSV: {error}") from None
        if not fields:
            raise no_rows(name)
        number = _is_number if delimiter == "," else _is_any_number
        if any(number(field) for field in fields) and all(
            number(field) or not field.strip() for field in fields
        ):
            return cls(delimiter, [str(position) for position in range(len(fields))], False)
        return cls(delimiter, [field.strip() for field in fields], True)

    def parse(
        self,
        lines: Any,
        wanted: list[str],
        label: str | None,
        *,
        as_text: bool = False,
        carried: Sequence[str] = (),
    ) -> Any:
        """Stream record batches of the wanted columns from a file object of data lines."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        kind = pa.string() if as_text else pa.float64()
        reader = arrow_csv.open_csv(
            lines,
            read_options=arrow_csv.ReadOptions(
                column_names=self.names, block_size=_READ_BYTES, use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
            # Types are stated, not guessed from the first lines, which may hold whole numbers only.
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types={
                    name: pa.string() if name in carried else kind
                    for name in wanted
                    if name != label
                },
                strings_can_be_null=as_text,
                null_values=gap_spellings(),
                decimal_point=self.decimal,
            ),
        )
        if as_text and self.decimal == ",":
            return (with_points(batch, label) for batch in reader)
        return reader

    def first_mistake(
        self, lines: IO[bytes], columns: list[str], *, skip: int = 0, first_row: int = 0
    ) -> str | None:
        """Find what Arrow could not convert: its own message knows the column but not the row."""
        places = {name: place for place, name in enumerate(self.names)}
        features = [places[column] for column in columns]
        texts = (line.decode(errors="replace") for line in lines_of(lines, "the file"))
        cells = filter(None, csv.reader(texts, delimiter=self.delimiter))
        if self.has_header:
            next(cells)
        row = 0
        try:
            for row, fields in enumerate(cells):
                if row >= skip and (reason := _wrong(fields, self.names, features)):
                    return f"row {first_row + row} (counting from 0) {reason}"
        except csv.Error as error:
            return f"near row {first_row + row} (counting from 0): {error}"
        return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_any_number(text: str) -> bool:
    """With a decimal point or a decimal comma."""
    return _is_number(text) or _COMMA.fullmatch(text.strip()) is not None


class CsvSource(TableSource):
    """One or more CSV files; columns are matched by name, whatever their order in each file."""

    def __init__(self, paths: list[Path], name: str, choice: Choice, chunk_rows: int) -> None:
        self._files = [(path, _layout(path)) for path in paths]
        first = self._files[0][1]
        choice = choice if first.has_header else choice.without_names()
        super().__init__(name, first.names, choice, named=first.has_header, chunk_rows=chunk_rows)
        for path, layout in self._files[1:]:
            self.same_columns(layout.names, first.names, choice, str(path))

    def _rows(self) -> Iterator[Chunk]:
        start = 0
        for path, layout in self._files:
            for chunk in self._read(path, layout, start):
                yield chunk
                start = chunk.start + len(chunk)
        if start == 0:
            raise no_rows(self.name)

    def _read(self, path: Path, layout: Layout, start: int) -> Iterator[Chunk]:
        import pyarrow as pa

        with open_text(path, layout.encoding) as file, _gzip_errors(path):
            header = len(read_line(file, str(path))) if layout.has_header else 0
            if path.suffix == ".gz" or layout.encoding != "utf-8":
                yield from self._parse(file, path, layout, start=start, row=0)
                return
        # Arrow reads ahead in a thread of its own: a native file needs no Python to do so, and
        # so cannot meet an interpreter that is going down.
        with pa.OSFile(str(path)) as lines:
            lines.seek(header)
            yield from self._parse(lines, path, layout, start=start, row=0)

    def _parse(
        self, lines: Any, path: Path, layout: Layout, *, start: int, row: int
    ) -> Iterator[Chunk]:
        """Read data lines, of which the first is row `row` of the file and `start` of all files."""
        import pyarrow as pa

        read = 0
        try:
            reader = layout.parse(
                lines,
                self.wanted,
                self.label,
                as_text=self.decoder is not None,
                carried=self.carried,
            )
            for chunk in self._convert(reader, start=start, file=str(path), row=row):
                yield chunk
                read += len(chunk)
        except pa.ArrowInvalid as error:
            if "Empty CSV" not in str(error):
                with open_text(path, layout.encoding) as whole:
                    reason = layout.first_mistake(whole, self.columns, skip=row + read)
                raise InputError(f"{path}: {reason or error}") from None

    def blocks(self) -> list[Block]:
        """Cut plain files at line ends, so that they can be read in any order."""
        blocks: list[Block] = []
        start = 0
        for path, layout in self._files:
            if path.suffix == ".gz" or layout.encoding != "utf-8":
                return [self.chunks]
            row = 0
            for begin, end, rows in line_spans(path, has_header=layout.has_header):
                span = partial(self._read_span, path, layout, begin, end, start=start, row=row)
                blocks.append(span)
                start, row = start + rows, row + rows
        return blocks

    def _read_span(
        self, path: Path, layout: Layout, begin: int, end: int, *, start: int, row: int
    ) -> Iterator[Chunk]:
        import pyarrow as pa

        with path.open("rb") as file:
            file.seek(begin)
            lines = pa.BufferReader(file.read(end - begin))
        yield from self._parse(lines, path, layout, start=start, row=row)


def line_spans(path: Path, *, has_header: bool) -> Iterator[tuple[int, int, int]]:
    """Cut a file into spans of whole lines: first byte, byte behind the last, number of lines.

    A line end between quotes is part of a cell, so only those behind an even number of quotes
    count as a place to cut.
    """
    with path.open("rb") as file:
        if has_header:
            read_line(file, str(path))
        begin = file.tell()
        while piece := file.read(_SPAN_BYTES):
            lines, quotes = piece.count(b"\n"), piece.count(b'"')
            while (more := read_line(file, str(path))) and (
                quotes % 2 or not piece.endswith(b"\n")
            ):
                lines, quotes, piece = lines + 1, quotes + more.count(b'"'), more
            end = file.tell() - len(more)
            file.seek(end)
            yield begin, end, lines + (not piece.endswith(b"\n"))
            begin = end


def _wrong(fields: list[str], names: list[str], features: list[int]) -> str | None:
    if len(fields) != len(names):
        return f"has {len(fields)} fields where {len(names)} were expected; repair that line"
    for position in features:
        if fields[position].strip() and not _is_number(fields[position]):
            column = names[position]
            comma = _COMMA.fullmatch(fields[position].strip())
            remedy = "numbers have a decimal point and no commas; convert the file"
            return (
                f"holds {fields[position]!r} in column {column!r}, which must be a number; "
                f"{remedy if comma else text_remedy(column)}"
            )
    return None


def _layout(path: Path) -> Layout:
    with _gzip_errors(path):
        encoding = recognise_encoding(path)
        with open_text(path, encoding) as lines:
            line = read_line(lines, str(path)).decode("utf-8-sig", errors="replace").rstrip("\r\n")
            layout = Layout.of_line(line, str(path))
            further = [
                read_line(lines, str(path)).decode(errors="replace") for _ in range(_LOOK_LINES)
            ]
    beginning = [
        text.rstrip("\r\n") for text in (further if layout.has_header else [line, *further])
    ]
    decimal = recognise_decimal(beginning, layout.delimiter)
    return replace(layout, encoding=encoding, decimal=decimal)


@contextmanager
def _gzip_errors(path: Path) -> Iterator[None]:
    """Name the file that gzip cannot read."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} must be a whole gzip file, got {error}; copy it again") from None


def recognise_encoding(path: Path) -> str:
    """Guess by a byte order mark, by the bytes of UTF-16 text, or by what UTF-8 cannot be."""
    with raw(path) as file:
        beginning = file.read(_LOOK)
    for mark, encoding in _MARKS:
        if beginning.startswith(mark):
            return encoding
    if beginning[1:200:2].count(0) > len(beginning[1:200:2]) // 2:
        return "utf-16-le"
    if beginning[0:200:2].count(0) > len(beginning[0:200:2]) // 2:
        return "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return _western(beginning)
    return "utf-8"


def _western(beginning: bytes) -> str:
    """Windows' Latin-1 with its quotes and euro sign, or the plain one."""
    try:
        beginning.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def raw(path: Path) -> IO[bytes]:
    """Open a file, uncompressed."""
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def open_text(path: Path, encoding: str) -> IO[bytes]:
    """Open a file as bytes of UTF-8, whatever it was written in."""
    if encoding == "utf-8":
        return raw(path)
    return io.BufferedReader(_Utf8(raw(path), encoding), _PIECE)


class _Utf8(io.RawIOBase):
    """A stream of another encoding as bytes of UTF-8."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding=encoding, newline="", errors="replace")
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            self._rest = self._text.read(_PIECE).encode()
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size

    def close(self) -> None:
        self._text.close()
        super().close()


def recognise_delimiter(line: str) -> str:
    """The sign that cuts the first line into most fields; a comma may be inside numbers.

    >>> recognise_delimiter("a,b;c,d,e"), recognise_delimiter("1,5;2,5"), recognise_delimiter("a;b")
    (',', ';', ';')
    """
    for sign in DELIMITERS[1:]:
        cells = [cell.strip() for cell in line.split(sign)]
        if len(cells) > 1 and all(_NUMBER.fullmatch(cell) for cell in cells):
            return sign
    return max(DELIMITERS, key=line.count)


def recognise_decimal(lines: list[str], delimiter: str) -> str:
    """Tell a decimal comma from a point by the cells of the first lines.

    >>> recognise_decimal(["1,5;2", "3;0,25"], ";"), recognise_decimal(["1.5;2"], ";")
    (',', '.')
    """
    if delimiter == ",":
        return "."
    cells = [cell.strip().strip('"') for line in lines for cell in line.split(delimiter)]
    commas = sum(_COMMA_NUMBER.fullmatch(cell) is not None for cell in cells)
    points = sum(_POINT_NUMBER.fullmatch(cell) is not None for cell in cells)
    return "," if commas > points else "."


def with_points(batch: pa.RecordBatch, keep: str | None) -> pa.RecordBatch:
    """Write numbers in columns of text with a decimal point and without thousands signs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for name, cells in zip(batch.schema.names, batch.columns, strict=True):
        if name != keep and pa.types.is_string(cells.type):
            thousands = pc.match_substring_regex(cells, _THOUSANDS)
            cells = pc.if_else(thousands, pc.replace_substring(cells, ".", ""), cells)
            decimal = pc.match_substring_regex(cells, _DECIMAL)
            cells = pc.if_else(decimal, pc.replace_substring(cells, ",", "."), cells)
        columns.append(cells)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
