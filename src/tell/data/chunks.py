"""What every source gives: checked chunks of rows, as precise as the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import InputError, ParameterError

if TYPE_CHECKING:
    from tell.data.preparation import Preparation

FloatArray = NDArray[np.floating[Any]]
_CHUNK_BYTES = 32 << 20
_BLOCK_BYTES = 512 << 10

Block = Callable[[], "Iterator[Chunk]"]


@dataclass(frozen=True)
class Chunk:
    """Rows of a source in their order.

    Attributes
    ----------
    X : ndarray of shape (rows, n_features), of the source's dtype, C-contiguous, finite
    y : ndarray of shape (rows,) or None
        The label column; it is used for scoring only.
    start : int
        Number of the first row, counting from 0.
    kept : ndarray of shape (rows,) or None
        Numbers of all rows, where some between them were left out.
    filled : ndarray of bool of the shape of X, or None
        Which values stand for a gap of the table; None where none can.
    """

    X: FloatArray
    y: NDArray[Any] | None
    start: int
    kept: NDArray[np.int64] | None = None
    filled: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.X)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each row in its source, counting from 0."""
        return np.arange(self.start, self.start + len(self)) if self.kept is None else self.kept

    def part(self, first: int, last: int, *, start: int = 0) -> Chunk:
        """Cut rows out, without copying."""
        y, filled = (None if of is None else of[first:last] for of in (self.y, self.filled))
        return Chunk(self.X[first:last], y, start, filled=filled)


def precision(*kinds: Any) -> np.dtype[Any]:
    """Return the type in which numbers of these types are clustered.

    float32 where it holds every value of all of them exactly (float32, float16, whole numbers of 8
    and 16 bits, truth values), float64 for all others: half the memory where nothing is lost.

    >>> precision(np.uint8, np.float32), precision(np.float32, np.int32)
    (dtype('float32'), dtype('float64'))
    """
    return min(np.result_type(np.float32, *kinds), np.dtype(np.float64))


def join(chunks: list[Chunk]) -> Chunk:
    """Put chunks behind each other."""
    if len(chunks) == 1:
        return chunks[0]
    labels = [chunk.y for chunk in chunks if chunk.y is not None]
    filled = [chunk.filled for chunk in chunks if chunk.filled is not None]
    return Chunk(
        np.concatenate([chunk.X for chunk in chunks]),
        np.concatenate(labels) if labels else None,
        chunks[0].start,
        filled=np.concatenate(filled) if filled else None,
    )


class Source(ABC):
    """Rows from anywhere, read in chunks of bounded size.

    Attributes
    ----------
    name : str
        What error messages call it: a file, a data set or a type.
    shape : tuple of int
        Shape of one sample: ``(n_features,)`` or, for images, ``(channels, height, width)``.
    feature_names : list of str or None
    n_rows : int or None
        None where only reading to the end would tell.
    rereadable : bool
        False for streams, which can be read once.
    dtype : numpy dtype
        In which rows are given: see `precision`.
    labelled : bool
        Whether the rows come with known classes.
    in_memory : bool
        Whether `matrix` gives all rows without reading or copying them.
    distributed : bool
        Whether the rows lie on a cluster, where workers read them.
    """

    rereadable: bool = True
    labelled: bool = False
    in_memory: bool = False
    distributed: bool = False
    # How the columns of a table became these features, where that was learned.
    preparation: Preparation | None = None
    # Most bytes of one chunk. What reads and converts it needs a few times as much.
    chunk_bytes: int = _CHUNK_BYTES

    def __init__(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        chunk_rows: int = 65536,
        feature_names: list[str] | None = None,
        n_rows: int | None = None,
        dtype: Any = np.float32,
    ) -> None:
        self.name = name
        self.shape = shape
        self.feature_names = feature_names
        self.n_rows = n_rows
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._most_rows = chunk_rows
        self._begun = False

    @property
    def n_features(self) -> int:
        """Number of columns of `Chunk.X`."""
        return prod(self.shape)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row as the user has it: (height, width) of grey images in an array."""
        return self.shape

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * self.n_features

    @property
    def chunk_rows(self) -> int:
        """Most rows in one chunk: as asked for, but never more than `chunk_bytes` hold."""
        return max(1, min(self._most_rows, self.chunk_bytes // self.row_bytes))

    def chunks(self) -> Iterator[Chunk]:
        """Read from the first row to the last; a stream allows this once."""
        if self._begun and not self.rereadable:
            raise InputError(
                f"{self.name} is a stream and can be read only once, but a second pass was asked "
                "for; write it to a file first, or use partial_fit (tell update), which needs "
                "one pass"
            )
        self._begun = True
        return self._rows()

    @abstractmethod
    def _rows(self) -> Iterator[Chunk]: ...

    def between(self, first: int, last: int | None) -> Iterator[Chunk]:
        """Read rows first … last (None: to the end), counted as they come; for shards.

        Whoever can start in the middle does; others read what lies before as well.
        """
        seen = 0
        for chunk in self.chunks():
            begin, end = max(first - seen, 0), len(chunk) if last is None else last - seen
            if begin < min(end, len(chunk)):
                yield chunk.part(begin, end, start=max(first, seen))
            seen += len(chunk)
            if last is not None and seen >= last:
                return

    def blocks(self) -> list[Block]:
        """Give parts that can be read in any order, for shuffled reading; a stream is one."""
        return [self.chunks]

    @property
    def block_rows(self) -> int:
        """Most rows in one chunk of a block: so few that many blocks can be read side by side."""
        return max(1, min(self.chunk_rows, _BLOCK_BYTES // self.row_bytes))

    @property
    def open_blocks(self) -> int:
        """How many blocks may be read side by side with little memory."""
        return 64

    def matrix(self) -> Any:
        """Give all rows (n, d) at once: an array, or a CSR matrix where that is in memory."""
        return self.read().X

    def as_stored(self) -> Source:
        """Give the same rows with bytes left as bytes, for those who scale them by 255."""
        return self

    def classes(self) -> NDArray[Any] | None:
        """Read the known classes (n,) of all rows; None where there are none."""
        if not self.labelled:
            return None
        return np.concatenate([chunk.y for chunk in self.chunks() if chunk.y is not None])

    def read(self, max_rows: int | None = None) -> Chunk:
        """Read everything, or the first `max_rows` rows, into memory."""
        if max_rows is not None and max_rows < 1:
            raise ParameterError(f"max_rows must be at least 1, got {max_rows}; pass None for all")
        parts: list[Chunk] = []
        missing = max_rows
        for chunk in self.chunks():
            parts.append(chunk if missing is None else chunk.part(0, missing, start=chunk.start))
            if missing is not None:
                missing -= len(parts[-1])
                if missing == 0:
                    break
        if not parts:
            raise no_rows(self.name)
        return join(parts)


def no_rows(name: str) -> InputError:
    """Build the error for an empty source."""
    return InputError(f"{name} needs at least one row, got none; check that the file is complete")


def finite(X: FloatArray, *, name: str, start: int, columns: Sequence[str] | None) -> FloatArray:
    """Return `X`, or say which row and column holds the first value that is not finite."""
    # A finite sum proves finite summands in one pass without a temporary array; an infinite one
    # may be mere overflow, so only then every value is looked at.
    with np.errstate(over="ignore", invalid="ignore"):
        total = X.sum()
    if np.isfinite(total):
        return X
    bad = np.argwhere(~np.isfinite(X))
    if len(bad) == 0:
        return X
    row, column = (int(position) for position in bad[0])
    label = repr(columns[column]) if columns is not None else str(column)
    kind = "missing (NaN)" if np.isnan(X[row, column]) else f"infinite, or too large for {X.dtype}"
    raise InputError(
        f"{name}: values must be finite, but row {start + row}, column {label} (rows counting "
        f"from 0) is {kind}; correct it, or let gaps be filled (prepare=True, --prepare)"
    )


@dataclass(frozen=True)
class Choice:
    """Which columns are features, in which order, and which one is the label.

    With `by_name`, `columns` holds for data whose columns have names; other data is taken as it
    comes.
    """

    columns: Sequence[str | int] | None = None
    drop: Sequence[str | int] | None = None
    label: str | int | None = None
    by_name: bool = False

    def __post_init__(self) -> None:
        for option in ("columns", "drop"):
            if isinstance(getattr(self, option), str):
                raise ParameterError(
                    f"{option} must be a list of column names, got the text "
                    f"{getattr(self, option)!r}; write [{getattr(self, option)!r}]"
                )

    @property
    def is_default(self) -> bool:
        """Whether every column is a feature."""
        return self.columns is None and self.drop is None and self.label is None

    def without_names(self) -> Choice:
        """Return the choice among columns that have no names."""
        return replace(self, columns=None, by_name=False) if self.by_name else self

    def features(self, available: Sequence[str], name: str) -> list[str]:
        """Return the chosen features of a table that has the columns `available`."""
        found = set(available)  # tables may have tens of thousands of columns
        if len(found) < len(available):
            twice = next(column for column, times in Counter(available).items() if times > 1)
            raise InputError(f"{name}: column names must be unique, {twice!r} stands twice; rename")
        left_out = {str(column) for column in self.drop or []}
        if self.label is not None:
            left_out.add(str(self.label))
        wanted = [str(column) for column in (available if self.columns is None else self.columns)]
        missing = [column for column in chain(wanted, sorted(left_out)) if column not in found]
        if missing:
            raise _missing_columns(missing, available, name)
        chosen = [column for column in wanted if column not in left_out]
        if not chosen:
            raise InputError(f"{name}: no column is left to cluster; choose at least one")
        if len(set(chosen)) < len(chosen):
            raise ParameterError(f"columns must be different ones, got {chosen}; name each once")
        return chosen


def _missing_columns(missing: list[str], available: Sequence[str], name: str) -> InputError:
    shown = ", ".join(map(repr, available[:12])) + (", …" if len(available) > 12 else "")
    lacking = ", ".join(map(repr, missing[:12])) + (", …" if len(missing) > 12 else "")
    return InputError(f"{name}: there is no column {lacking}; it has {shown}")
