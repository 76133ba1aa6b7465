"""Label files, written chunk by chunk beside their place and renamed when they are whole."""

from __future__ import annotations

import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from glob import glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from tell.data.cells import as_cells
from tell.exceptions import InputError
from tell.files import whole_file
from tell.runtime.answers import Columns

if TYPE_CHECKING:
    import pyarrow as pa


class Writer(ABC):
    """Takes the columns of one chunk after the other."""

    @abstractmethod
    def write(self, columns: Columns) -> None:
        """Add rows."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file; without this it is not whole."""


class _TableWriter(Writer):
    """CSV or Parquet through Arrow, opened when the first chunk shows the columns."""

    def __init__(self, open_file: Callable[[pa.Schema], Any]) -> None:
        self._open = open_file
        self._file: Any = None

    def write(self, columns: Columns) -> None:
        import pyarrow as pa

        batch = pa.table({name: as_cells(np.asarray(values)) for name, values in columns.items()})
        if self._file is None:
            self._file = self._open(batch.schema)
        self._file.write_table(batch)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _ArrayWriter(Writer):
    """A .npy of labels, or a .npz with one array per kind of column."""

    def __init__(self, file: IO[bytes], archive: bool) -> None:
        self._target, self._archive = file, archive
        self._parts: list[Columns] = []

    def write(self, columns: Columns) -> None:
        self._parts.append(columns)

    def close(self) -> None:
        names = list(self._parts[0])
        whole = {name: np.concatenate([part[name] for part in self._parts]) for name in names}
        if self._archive:
            np.savez(self._target, allow_pickle=False, **whole)
        else:
            np.save(self._target, whole["cluster"])


def _csv(file: Any) -> Writer:
    from pyarrow import csv

    return _TableWriter(lambda schema: csv.CSVWriter(file, schema))


def _parquet(file: Any) -> Writer:
    from pyarrow import parquet

    return _TableWriter(lambda schema: parquet.ParquetWriter(file, schema))


_WRITERS: dict[str, Callable[[Any], Writer]] = {
    ".csv": _csv,
    ".parquet": _parquet,
    ".npy": lambda file: _ArrayWriter(file, archive=False),
    ".npz": lambda file: _ArrayWriter(file, archive=True),
}


_PAGES = (".html", ".htm")


def check_target(path: Path | None, data: str, *, many_columns: bool) -> None:
    """Say before the work that labels of `data` cannot be written to a file of this name."""
    if path is None:
        return
    if path.suffix.lower() not in _WRITERS:
        raise InputError(f"{path}: --out must end in {', '.join(_WRITERS)}; rename it")
    if many_columns and path.suffix.lower() == ".npy":
        raise InputError(f"{path}: a .npy holds labels only; use .csv, .parquet or .npz instead")
    _check_place(path, data)


def check_page(path: Path | None, data: str) -> None:
    """Say before the work that a page about `data` cannot be written to a file of this name."""
    if path is None:
        return
    if path.suffix.lower() not in _PAGES:
        raise InputError(f"{path}: a page must end in .html; rename it")
    _check_place(path, data)


def _check_place(path: Path, data: str) -> None:
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} does not exist; make that folder first")
    found = map(Path, glob(data, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
    if path.exists() and any(_holds(read, path) for read in (Path(data), *found)):
        raise InputError(f"{path} is the data itself; choose another file to write to")


def _holds(read: Path, path: Path) -> bool:
    if read.is_dir():  # pages in it are no data
        return path.suffix.lower() not in _PAGES and path.resolve().is_relative_to(read.resolve())
    return read.exists() and read.samefile(path)


@contextmanager
def label_writer(path: Path | None, *, silent: bool) -> Iterator[Writer]:
    """Write to `path`, which appears when all went well.

    Without a path the labels go to standard output, or nowhere if that must stay `silent`.
    """
    with nullcontext(_standard(silent)) if path is None else whole_file(path) as file:
        writer = _csv(file) if path is None else _WRITERS[path.suffix.lower()](file)
        yield writer
        writer.close()


def _standard(silent: bool) -> IO[bytes]:
    return io.BytesIO() if silent else sys.stdout.buffer
