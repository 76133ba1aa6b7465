"""One door for rows from anywhere: `open_source` gives them whole or in chunks of bounded size."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.data.arrays import ArraySource, NpzSource, SparseSource, open_npy
from tell.data.chunks import Choice, Chunk, Source, precision
from tell.data.csv_files import CsvSource
from tell.data.datasets import is_name, load
from tell.data.images import ImageFolder, is_image_folder
from tell.data.office_files import open_excel, open_json
from tell.data.parquet import ParquetSource
from tell.data.streams import IterableSource, LineSource, open_lines
from tell.data.tables import ArrowSource, ArrowStream, FrameSource, frame_precision
from tell.exceptions import DataUnavailableError, InputError, ParameterError

__all__ = ["Chunk", "Source", "is_array_like", "is_frame", "open_source", "precision_of"]

Opener = Callable[[list[Path], str, Choice, int], Source]


def open_source(
    data: Any,
    *,
    columns: Sequence[str | int] | None = None,
    drop: Sequence[str | int] | None = None,
    label: str | int | None = None,
    chunk_rows: int = 65536,
    data_dir: str | os.PathLike[str] | None = None,
    image_size: int | None = None,
    by_name: bool = False,
) -> Source:
    """Open anything that holds rows.

    Rows come as float32 where that holds all values of the columns' types exactly, else as
    float64. A CSV or JSON file states no types: its numbers are float64.

    Parameters
    ----------
    data : array, sparse matrix, frame, Arrow table or reader, path, iterable of batches, or str
        A path may name a .npy, .npz, .csv (also .gz), .tsv, .xlsx, .json, .parquet or .ndjson
        file (encoding, delimiter and decimal sign of text are recognised), a folder of
        Parquet or CSV files, a folder of images (its sub-folders are the labels), or a glob such
        as ``"2024-*.parquet"``. A plain word is a named data set (``"digits"``); ``"-"`` is
        standard input with CSV or JSON lines. A generator or `DataLoader` gives batches ``X`` or
        ``(X, y)``. A binary file object gives lines of CSV or JSON.
    columns : list of str, optional
        Features, in this order; default: all columns but the label. Arrays and CSV files without
        a header name their columns by position.
    drop : list of str, optional
        Columns to leave out.
    label : str, optional
        Column with known classes: it is not clustered, only handed on as `Chunk.y`.
    chunk_rows : int, default=65536
        Most rows in memory at a time.
    data_dir : path, optional
        Where the files of named data sets lie; default: the environment's `TELL_DATA`.
    image_size : int, optional
        Height and width to which the images of a folder are scaled and cropped; without it they
        must all have the same size.
    by_name : bool, default=False
        Whether `columns` is meant for data with named columns only; other data is then taken as
        it comes.

    Returns
    -------
    Source

    Examples
    --------
    >>> source = open_source("digits", chunk_rows=1000)
    >>> source.shape, source.n_rows
    ((1, 8, 8), 1797)
    >>> [chunk.X.shape for chunk in source.chunks()]
    [(1000, 64), (797, 64)]
    """
    if chunk_rows < 1:
        raise ParameterError(f"chunk_rows must be at least 1, got {chunk_rows}")
    choice = Choice(columns, drop, label, by_name)
    if isinstance(data, Source):
        return data
    if isinstance(data, str | os.PathLike):
        name = os.fspath(data)
        if _suffix(Path(name)) and Path(name).is_file():
            return _open_path(name, choice, chunk_rows)
        if is_name(name):
            return _open_dataset(name, choice, chunk_rows, data_dir)
        if name == "-":
            return _open_stdin(choice, chunk_rows)
        if is_image_folder(Path(name)) and not _tables_in(Path(name)):
            return ImageFolder(Path(name), choice, chunk_rows, size=image_size)
        return _open_path(name, choice, chunk_rows)
    return _open_object(data, choice, chunk_rows)


def is_array_like(data: Any) -> bool:
    """Tell whether `data` is in memory and scikit-learn's own validation takes it.

    True for arrays, lists, sparse matrices and pandas or polars frames; False for what
    `open_source` must read: paths, Arrow tables, generators, loaders, memory-mapped files.

    >>> is_array_like([[1.0, 2.0]]), is_array_like("rows.parquet")
    (True, False)
    """
    if isinstance(data, str | os.PathLike | Source | np.memmap) or _module(data) == "pyarrow":
        return False
    return hasattr(data, "__array__") or hasattr(data, "tocsr") or isinstance(data, list | tuple)


def precision_of(data: Any) -> np.dtype[Any]:
    """Return the type in which `open_source` would give the rows of what `is_array_like`.

    >>> precision_of([[1, 2]]), precision_of(np.zeros((1, 2), np.uint8))
    (dtype('float64'), dtype('float32'))
    """
    if is_frame(data):
        return frame_precision(data)
    kind = getattr(data, "dtype", None)
    if not isinstance(kind, np.dtype) and hasattr(data, "__array__"):
        kind = np.asarray(data).dtype  # of a tensor
    usable = isinstance(kind, np.dtype) and kind.kind in "biuf"
    return precision(kind) if usable else np.dtype(np.float64)


def is_frame(data: Any) -> bool:
    """Tell whether `data` is a pandas or polars frame."""
    return _module(data) in ("pandas", "polars") and hasattr(data, "columns")


def _module(data: Any) -> str:
    return type(data).__module__.partition(".")[0]


def _open_object(data: Any, choice: Choice, chunk_rows: int) -> Source:
    if is_frame(data):
        return FrameSource(data, choice, chunk_rows)
    if _module(data) == "pyarrow":
        stream = hasattr(data, "read_next_batch")
        return (ArrowStream if stream else ArrowSource)(data, choice, chunk_rows)
    if _module(data) == "ray" and hasattr(data, "materialize"):
        from tell.data.ray_data import RaySource

        return RaySource(data, choice, chunk_rows)
    if hasattr(data, "tocsr"):
        return SparseSource(data, choice, chunk_rows)
    if hasattr(data, "__array__") or isinstance(data, list | tuple):
        return ArraySource(_to_array(data), choice=choice, chunk_rows=chunk_rows)
    if hasattr(data, "read1"):
        name = str(getattr(data, "name", "stream"))
        return LineSource(lambda: data, name, choice, chunk_rows, rereadable=False)
    if isinstance(data, Iterable):
        return _open_iterable(data, choice, chunk_rows)
    raise InputError(
        "data must be an array, frame, table, path or iterable of batches, got "
        f"{type(data).__name__}"
    )


def _open_iterable(data: Iterable[Any], choice: Choice, chunk_rows: int) -> Source:
    if not choice.without_names().is_default:
        raise InputError(
            f"{type(data).__name__}: columns cannot be chosen in batches; leave them out before"
        )
    return IterableSource(data, chunk_rows)


def _to_array(data: Any) -> NDArray[Any]:
    try:
        return data if isinstance(data, np.ndarray) else np.asarray(data)
    except ValueError as error:
        raise InputError(f"array: rows must have equal lengths ({error})") from None


def _open_stdin(choice: Choice, chunk_rows: int) -> Source:
    # A stream is asked for lines as they arrive: a text layer would wait for whole blocks.
    stream = sys.stdin.buffer
    return LineSource(lambda: stream, "standard input", choice, chunk_rows, rereadable=False)


def _open_path(name: str, choice: Choice, chunk_rows: int) -> Source:
    paths = _expand(name)
    suffix = _suffix(paths[0])
    if suffix in (".npy", ".npz") and len(paths) > 1:
        raise InputError(f"{name}: only one {suffix} file at a time, got {len(paths)}")
    if suffix == ".npy":
        return open_npy(paths[0], choice, chunk_rows)
    if suffix == ".npz":
        return NpzSource(paths[0], choice, chunk_rows)
    opener = _TABLES.get(suffix)
    if opener is None:
        known = ", ".join([".npy", ".npz", *_TABLES])
        raise InputError(f"{paths[0]}: the file type must be one of {known}; convert the file")
    return opener(paths, name, choice, chunk_rows)


def _open_dataset(name: str, choice: Choice, chunk_rows: int, data_dir: Any) -> Source:
    data = load(name, data_dir)
    return ArraySource(
        data.X,
        y=data.y,
        name=name,
        choice=choice,
        shape=data.shape if choice.without_names().is_default else None,
        scale=data.scale,
        chunk_rows=chunk_rows,
    )


def _expand(name: str) -> list[Path]:
    """Return the files that a path, a folder or a glob stands for, in the order of their names."""
    path = Path(name)
    if path.is_file():
        return [path]
    if path.is_dir():
        found = _tables_in(path)
        if len({_suffix(child) for child in found}) > 1:
            raise InputError(
                f"{name} must hold one type of files; name one by a glob: {name}/*.csv"
            )
    else:
        found = sorted(map(Path, glob.glob(name, recursive=True)))  # noqa: PTH207
    if not found and path.is_dir():
        raise DataUnavailableError(
            f"{name}: the folder holds no tables ({', '.join(sorted(_TABLES))}) and no images"
        )
    if not found:
        raise DataUnavailableError(f"{name}: there is no such file, folder, glob or data set")
    return found


def _tables_in(folder: Path) -> list[Path]:
    return sorted(child for child in folder.rglob("*") if _suffix(child) in _TABLES)


def _suffix(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return (
        suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    )


_TABLES: dict[str, Opener] = {
    ".parquet": ParquetSource,
    ".pq": ParquetSource,
    ".csv": CsvSource,
    ".tsv": CsvSource,
    ".xlsx": open_excel,
    ".json": open_json,
    ".ndjson": open_lines,
    ".jsonl": open_lines,
}
