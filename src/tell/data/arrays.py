"""Arrays and sparse matrices in memory, memory-mapped .npy files and .npz archives, in chunks."""

from __future__ import annotations

import copy
import math
import mmap
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tell.data.chunks import (
    Block,
    Choice,
    Chunk,
    FloatArray,
    Source,
    finite,
    no_rows,
    precision,
)
from tell.data.limits import check_size, decoding
from tell.exceptions import InputError

_DATA_KEYS = ("X", "x", "data", "features", "images")
_LABEL_KEYS = ("y", "labels", "label", "target", "targets")


class ArraySource(Source):
    """An array of shape (rows, …), in memory or memory-mapped; more than 2 dimensions are images.

    Parameters
    ----------
    scale : float, default=1.0
        Every value is divided by it: 255 brings 8-bit images to [0, 1], in float32.
    """

    def __init__(
        self,
        array: NDArray[Any],
        *,
        y: NDArray[Any] | None = None,
        name: str = "array",
        choice: Choice | None = None,
        shape: tuple[int, ...] | None = None,
        scale: float = 1.0,
        chunk_rows: int = 65536,
    ) -> None:
        sample = sample_shape(array.shape, array.dtype, name) if shape is None else shape
        self._array, self._y, self._scale = array, y, scale
        self._row_shape = array.shape[1:] if shape is None else shape
        choice = (choice or Choice()).without_names()
        self._positions, label = _positions(choice, sample, name)
        if label is not None:
            self._y = array[:, label]
        if self._positions is not None:
            sample = self._row_shape = (len(self._positions),)
        self.labelled = self._y is not None
        self.in_memory = not isinstance(array, np.memmap)
        dtype = np.float32 if scale != 1.0 else precision(array.dtype)
        super().__init__(name, sample, chunk_rows=chunk_rows, n_rows=len(array), dtype=dtype)

    def _rows(self) -> Iterator[Chunk]:
        for start in range(0, len(self._array), self.chunk_rows):
            yield self._chunk(start, self.chunk_rows)
            _forget_pages(self._array)

    def _chunk(self, start: int, count: int) -> Chunk:
        rows = slice(start, start + count)
        X = self._numbers(rows)
        finite(X, name=self.name, start=start, columns=None)
        return Chunk(X, None if self._y is None else np.asarray(self._y[rows]), start)

    def _numbers(self, rows: slice) -> NDArray[Any]:
        part = np.asarray(self._array[rows])
        if self._positions is not None:
            part = part[:, self._positions]
        X = as_numbers(part.reshape(len(part), -1), self.dtype, self.name)
        return X if self._scale == 1.0 else X / np.float32(self._scale)

    def matrix(self) -> NDArray[Any]:
        """Give all rows (n, d): the array itself, if it is in memory and of `dtype`.

        Whether its values are finite is left to the caller then.
        """
        return self._numbers(slice(None)) if self.in_memory else self.read().X

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self._row_shape

    def as_stored(self) -> Source:
        """Give the same rows in the array's own type, unless they are to be divided."""
        if self._scale != 1.0:
            return self
        stored = copy.copy(self)
        stored.dtype = self._array.dtype
        return stored

    def classes(self) -> NDArray[Any] | None:
        return None if self._y is None else np.asarray(self._y)

    def between(self, first: int, last: int | None) -> Iterator[Chunk]:
        last = len(self._array) if last is None else min(last, len(self._array))
        for start in range(first, last, self.chunk_rows):
            yield self._chunk(start, min(self.chunk_rows, last - start))
            _forget_pages(self._array)

    def __getstate__(self) -> dict[str, Any]:
        """For another process: a mapped file is mapped there again, not sent."""
        array: Any = self._array
        if not isinstance(getattr(array, "base", None), mmap.mmap):  # in memory, or part of a map
            return dict(vars(self))
        order = "C" if array.flags.c_contiguous else "F"
        where = (str(array.filename), array.dtype, "r", array.offset, array.shape, order)
        return vars(self) | {"_array": None, "_mapped": where}

    def __setstate__(self, state: dict[str, Any]) -> None:
        where = state.pop("_mapped", None)
        vars(self).update(state)
        if where is not None:
            self._array = np.memmap(*where)

    def blocks(self) -> list[Block]:
        rows = self.block_rows
        return [partial(self._block, at, rows) for at in range(0, len(self._array), rows)]

    def _block(self, start: int, rows: int) -> Iterator[Chunk]:
        yield self._chunk(start, rows)


def sample_shape(shape: tuple[int, ...], dtype: np.dtype[Any], name: str) -> tuple[int, ...]:
    """Return the shape of one row of an array, or say why it cannot be rows."""
    if dtype.kind not in "biuf":
        raise InputError(
            f"{name}: values must be real numbers, got dtype {dtype}; encode or drop such columns"
        )
    if len(shape) < 2:
        raise InputError(
            f"{name}: rows and columns are needed, got shape {shape}; "
            "use .reshape(-1, 1) for one column or .reshape(1, -1) for one row"
        )
    if shape[0] == 0:
        raise no_rows(name)
    if 0 in shape:
        raise InputError(f"{name}: at least one column is needed, got shape {shape}")
    # Grey images come without a channel axis: (rows, height, width).
    return (1, *shape[1:]) if len(shape) == 3 else shape[1:]


def _positions(
    choice: Choice, sample: tuple[int, ...], name: str
) -> tuple[list[int] | None, int | None]:
    if choice.is_default:
        return None, None
    if len(sample) > 1:
        raise InputError(f"{name}: columns cannot be chosen in images of shape {sample}")
    features = choice.features([str(position) for position in range(sample[0])], name)
    return list(map(int, features)), None if choice.label is None else int(choice.label)


def _forget_pages(array: NDArray[Any]) -> None:
    """Give the pages of a mapped file back: the system would count them as ours until it is full.

    A map of the mode "c" keeps in its pages what was written to it.
    """
    if (
        isinstance(array, np.memmap)
        and array.mode in ("r", "r+")
        and hasattr(mmap, "MADV_DONTNEED")
    ):
        mapped: Any = array._mmap  # type: ignore[attr-defined]
        mapped.madvise(mmap.MADV_DONTNEED)


class SparseSource(Source):
    """A scipy sparse matrix in memory: `matrix` gives CSR, chunks are dense."""

    in_memory = True

    def __init__(self, matrix: Any, choice: Choice, chunk_rows: int) -> None:
        name = "sparse matrix"
        sample = sample_shape(matrix.shape, matrix.dtype, name)
        positions, label = _positions(choice.without_names(), sample, name)
        csr = matrix.tocsr()
        self._y = None if label is None else csr[:, [label]].toarray()[:, 0]
        self._csr = csr if positions is None else csr[:, positions]
        self.labelled = label is not None
        super().__init__(
            name,
            (self._csr.shape[1],),
            chunk_rows=chunk_rows,
            n_rows=csr.shape[0],
            dtype=precision(csr.dtype),
        )

    def matrix(self) -> Any:
        return self._csr.astype(self.dtype, copy=False)

    def _rows(self) -> Iterator[Chunk]:
        for start in range(0, self._csr.shape[0], self.chunk_rows):
            rows = slice(start, start + self.chunk_rows)
            X = as_numbers(self._csr[rows].toarray(), self.dtype, self.name)
            finite(X, name=self.name, start=start, columns=None)
            yield Chunk(X, None if self._y is None else self._y[rows], start)

    def classes(self) -> NDArray[Any] | None:
        return self._y


def as_numbers(array: NDArray[Any], dtype: np.dtype[Any], name: str) -> FloatArray:
    """Convert to a C-contiguous array of `dtype`."""
    try:
        # Values beyond it become infinite here and are reported with row and column.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.ascontiguousarray(array, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: values must be numbers ({error}); encode or drop text") from None


def open_npy(path: Path, choice: Choice, chunk_rows: int) -> Source:
    """Open a .npy file memory-mapped, so that only the chunk being read is in memory."""
    with decoding(str(path), ".npy"):
        array = np.lib.format.open_memmap(path, mode="r")
    return ArraySource(array, name=str(path), choice=choice, chunk_rows=chunk_rows)


class NpzSource(Source):
    """The data array (and label array) of an .npz archive, decompressed chunk by chunk."""

    def __init__(self, path: Path, choice: Choice, chunk_rows: int) -> None:
        choice = choice.without_names()
        if choice.columns is not None or choice.drop is not None:
            raise InputError(f"{path}: columns cannot be chosen in an .npz; save the chosen ones")
        self._path = path
        with _members(path) as archive:
            self._key = _find_key(archive, _DATA_KEYS, path)
            self._label = _label_key(archive, choice.label, path)
            with archive.open(f"{self._key}.npy") as member:
                shape, fortran, dtype = _npy_header(member, path)
        self._shape, self._by_columns, self._dtype = shape, fortran, dtype
        self.labelled = self._label is not None
        sample = sample_shape(shape, dtype, str(path))
        super().__init__(
            str(path), sample, chunk_rows=chunk_rows, n_rows=shape[0], dtype=precision(dtype)
        )

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self._shape[1:]

    def as_stored(self) -> Source:
        stored = copy.copy(self)
        stored.dtype = self._dtype
        return stored

    def classes(self) -> NDArray[Any] | None:
        return self._labels()

    def _rows(self) -> Iterator[Chunk]:
        y = self._labels()
        with _members(self._path) as archive, archive.open(f"{self._key}.npy") as member:
            _npy_header(member, self._path)
            start = 0
            for part in self._parts(member):
                X = as_numbers(part, self.dtype, self.name)
                finite(X, name=self.name, start=start, columns=None)
                yield Chunk(X, None if y is None else y[start : start + len(X)], start)
                start += len(X)

    def _parts(self, member: IO[bytes]) -> Iterator[NDArray[Any]]:
        """Give rows chunk by chunk. What is stored by columns has none before all is read."""
        rows, row_bytes = self._shape[0], self._dtype.itemsize * self.n_features
        if self._by_columns:
            raw = _read_exactly(member, rows * row_bytes, self._path)
            whole = np.frombuffer(raw, self._dtype).reshape(self._shape, order="F")
            for start in range(0, rows, self.chunk_rows):
                part = whole[start : start + self.chunk_rows]
                yield part.reshape(len(part), -1)
            return
        for start in range(0, rows, self.chunk_rows):
            count = min(self.chunk_rows, rows - start)
            raw = _read_exactly(member, count * row_bytes, self._path)
            yield np.frombuffer(raw, self._dtype).reshape(count, -1)

    def _labels(self) -> NDArray[Any] | None:
        if self._label is None:
            return None
        with _members(self._path) as archive, archive.open(f"{self._label}.npy") as member:
            shape, _, dtype = _npy_header(member, self._path)
            if dtype.kind not in "biufSU":
                raise InputError(f"{self._path}: labels {self._label!r} must be numbers or texts")
            size = math.prod(shape) * dtype.itemsize
            check_size(size, f"the label array {self._label!r}", str(self._path))
            y = np.frombuffer(_read_exactly(member, size, self._path), dtype).reshape(shape)
        if y.shape != (self.n_rows,):
            raise InputError(
                f"{self._path}: {self._label!r} must hold one label per row, that is shape "
                f"({self.n_rows},), got {y.shape}"
            )
        return np.asarray(y)


@contextmanager
def _members(path: Path) -> Iterator[zipfile.ZipFile]:
    with decoding(str(path), ".npz"), zipfile.ZipFile(path) as archive:
        yield archive


def _find_key(archive: zipfile.ZipFile, known: tuple[str, ...], path: Path) -> str:
    keys = [name.removesuffix(".npy") for name in archive.namelist()]
    if len(keys) == 1:
        return keys[0]
    for key in known:
        if key in keys:
            return key
    raise InputError(f"{path}: one array must be called {', '.join(known)}, got {', '.join(keys)}")


def _label_key(archive: zipfile.ZipFile, asked: str | int | None, path: Path) -> str | None:
    keys = [name.removesuffix(".npy") for name in archive.namelist()]
    if asked is None:
        return next((key for key in _LABEL_KEYS if key in keys), None)
    if asked not in keys:
        raise InputError(f"{path}: there is no label array {asked!r}; it has {', '.join(keys)}")
    return str(asked)


def _npy_header(member: IO[bytes], path: Path) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read(member)
    row = math.prod(shape if fortran else shape[1:]) * dtype.itemsize
    check_size(row, "an array stored by columns" if fortran else "a row", str(path))
    return shape, fortran, dtype


def _read_exactly(member: IO[bytes], size: int, path: Path) -> bytes:
    raw = member.read(size)
    if len(raw) < size:
        raise InputError(f"{path} ends before its last row; write it again")
    return raw
