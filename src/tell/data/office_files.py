"""Whole files that are read at once: Excel sheets and JSON arrays."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

from tell.data.chunks import Choice, Source, no_rows
from tell.data.limits import check_size, decoding, most_bytes
from tell.data.streams import open_lines
from tell.data.tables import ArrowSource
from tell.exceptions import InputError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow as pa


def open_excel(paths: list[Path], name: str, choice: Choice, chunk_rows: int) -> Source:
    """Open the first sheet of an .xlsx file; its first row names the columns."""
    return _source([_sheet(path) for path in paths], name, choice, chunk_rows)


def open_json(paths: list[Path], name: str, choice: Choice, chunk_rows: int) -> Source:
    """Open a .json file: an array of objects or of arrays, or objects line by line."""
    contents = []
    for path in paths:
        with path.open("rb") as file:
            lines = len(paths) == 1 and file.read(64).lstrip()[:1] == b"{"
        size = path.stat().st_size
        if lines and size > most_bytes():
            return open_lines(paths, name, choice, chunk_rows)
        check_size(size, "the array", str(path))
        try:
            found = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            if lines:
                return open_lines(paths, name, choice, chunk_rows)
            raise InputError(f"{path} is not JSON ({error}); write an array of rows") from None
        contents.append(_rows_of(found, str(path)))
    return _source(contents, name, choice, chunk_rows)


def _source(
    contents: list[list[dict[str, Any]]], name: str, choice: Choice, chunk_rows: int
) -> Source:
    rows = [row for content in contents for row in content]
    if not rows:
        raise no_rows(name)
    source = ArrowSource(_table(rows), choice, chunk_rows)
    source.name = name
    return source


def _rows_of(found: Any, name: str) -> list[dict[str, Any]]:
    if isinstance(found, dict):  # {"rows": [...]}: the one array in it
        arrays = [value for value in found.values() if isinstance(value, list)]
        found = arrays[0] if len(arrays) == 1 else [found]
    if not isinstance(found, list):
        raise InputError(f"{name} must hold an array of rows, got {type(found).__name__}")
    rows = []
    for number, row in enumerate(found):
        if isinstance(row, list):
            row = {str(place): value for place, value in enumerate(row)}
        if not isinstance(row, dict):
            raise InputError(
                f"{name}: row {number} (counting from 0) must be an object or an array, got {row!r}"
            )
        rows.append(row)
    return rows


def _sheet(path: Path) -> list[dict[str, Any]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise MissingDependencyError(
            'reading Excel files needs openpyxl; install it: pip install "tell-clustering[excel]"'
        ) from None
    with decoding(str(path), "Excel (.xlsx)"):
        with ZipFile(path) as archive:
            check_size(sum(part.file_size for part in archive.infolist()), "the book", str(path))
        book = load_workbook(path, read_only=True, data_only=True)
        lines = list(book.worksheets[0].iter_rows(values_only=True))
        book.close()
    lines = [line for line in lines if any(cell is not None for cell in line)]
    if not lines:
        raise no_rows(str(path))
    names = ["" if cell is None else str(cell).strip() for cell in lines[0]]
    width = max(place for place, name in enumerate(names) if name) + 1 if any(names) else 0
    return [dict(zip(names[:width], line[:width], strict=True)) for line in lines[1:]]


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    """Rows as an Arrow table: each column of one type, text where types are mixed."""
    import pyarrow as pa

    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    return pa.table({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Any]) -> pa.Array:
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and kinds:
        return pa.array([None if value is None else float(value) for value in values])
    if len(kinds) == 1 and kinds <= {bool, str, datetime.datetime, datetime.date}:
        return pa.array(values)
    return pa.array([None if value is None else str(value) for value in values], pa.string())
