"""Text files as offices write them: which encoding, which delimiter, which decimal sign."""

from __future__ import annotations

import codecs
import gzip
import io
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

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
