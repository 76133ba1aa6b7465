"""CSV files, one or many, plain or compressed, in chunks."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from tell.data.chunks import Choice, Chunk, no_rows
from tell.data.tables import TableSource, text_remedy
from tell.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow as pa

_DELIMITERS = ",;\t|"
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True)
class Layout:
    """How the lines of a CSV file are cut: delimiter, column names and whether a header names them.

    Without a header the names are the positions "0", "1", …
    """

    delimiter: str
    names: list[str]
    has_header: bool

    @classmethod
    def of_line(cls, line: str, name: str) -> Layout:
        """Recognise the layout from the first line; all numbers means that it is no header."""
        delimiter = max(_DELIMITERS, key=line.count)
        fields = next(csv.reader([line], delimiter=delimiter), [])
        if not fields:
            raise no_rows(name)
        if any(_is_number(field) for field in fields) and all(
            _is_number(field) or not field.strip() for field in fields
        ):
            return cls(delimiter, [str(position) for position in range(len(fields))], False)
        return cls(delimiter, [field.strip() for field in fields], True)

    def parse(
        self, lines: Any, wanted: list[str], label: str | None, *, as_text: bool = False
    ) -> Any:
        """Stream record batches of the wanted columns from a file object of data lines."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        kind = pa.string() if as_text else pa.float32()
        return arrow_csv.open_csv(
            lines,
            read_options=arrow_csv.ReadOptions(
                column_names=self.names, block_size=_BLOCK_BYTES, use_threads=False
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=self.delimiter),
            # Types are stated, not guessed from the first lines, which may hold whole numbers only.
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted,
                column_types={name: kind for name in wanted if name != label},
                strings_can_be_null=as_text,
            ),
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class CsvSource(TableSource):
    """One or more CSV files; columns are matched by name, whatever their order in each file."""

    def __init__(self, paths: list[Path], name: str, choice: Choice, chunk_rows: int) -> None:
        self._files = [(path, _layout(path)) for path in paths]
        first = self._files[0][1]
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

        read = 0
        with _open(path) as lines:
            if layout.has_header:
                lines.readline()
            try:
                reader = layout.parse(
                    lines, self.wanted, self.label, as_text=self.decoder is not None
                )
                for chunk in self._convert(reader, start=start, file=str(path)):
                    yield chunk
                    read += len(chunk)
            except pa.ArrowInvalid as error:
                if "Empty CSV" not in str(error):
                    raise self._bad_cell(path, layout, read, error) from None

    def _bad_cell(
        self, path: Path, layout: Layout, skip: int, error: pa.ArrowInvalid
    ) -> InputError:
        """Find what Arrow could not convert: its own message knows the column but not the row."""
        features = [layout.names.index(column) for column in self.columns]
        with _open(path) as raw:
            lines = (line.decode(errors="replace") for line in raw)
            cells = csv.reader(lines, delimiter=layout.delimiter)
            if layout.has_header:
                next(cells)
            for row, fields in enumerate(filter(None, cells)):
                if row >= skip and (reason := _wrong(fields, layout.names, features)):
                    return InputError(f"{path}: row {row} (counting from 0) {reason}")
        return InputError(f"{path} cannot be read as CSV: {error}")


def _wrong(fields: list[str], names: list[str], features: list[int]) -> str | None:
    if len(fields) != len(names):
        return f"has {len(fields)} fields where {len(names)} were expected; repair that line"
    for position in features:
        if fields[position].strip() and not _is_number(fields[position]):
            column = names[position]
            return (
                f"holds {fields[position]!r} in column {column!r}, which must be a number; "
                f"{text_remedy(column)}"
            )
    return None


def _layout(path: Path) -> Layout:
    with _open(path) as lines:
        try:
            line = lines.readline().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} must be UTF-8 text ({error}); convert it first") from None
    return Layout.of_line(line.rstrip("\r\n"), str(path))


def _open(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")
