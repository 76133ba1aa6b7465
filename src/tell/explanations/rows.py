"""Rows to explain, in blocks: arrays, sparse matrices, frames, files, named sets and streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tell.data.sources import open_source
from tell.exceptions import InputError
from tell.explanations.labels import as_labels

BLOCK_ROWS = 4096


class Block(NamedTuple):
    """Rows X (n, d), their known labels (n,) or None, and their numbers in the data (n,)."""

    X: NDArray[Any]
    y: NDArray[Any] | None
    numbers: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows and what is known about them before reading."""

    name: str
    n_features: int
    feature_names: tuple[str, ...] | None
    shape: tuple[int, ...] | None
    source: Any
    y: NDArray[Any] | None
    exact: NDArray[np.float64] | None = None  # the rows, where a source would round them

    def blocks(self) -> Iterator[Block]:
        """All rows from the first, in blocks of at most `BLOCK_ROWS`."""
        chunks = _sparse_chunks(self.source) if sparse.issparse(self.source) else self._chunks()
        for numbers, X, labels in chunks:
            for low in range(0, len(X), BLOCK_ROWS):
                part = slice(low, low + BLOCK_ROWS)
                known = labels[part] if labels is not None else None
                if self.y is not None:
                    known = self.y[numbers[part]]
                yield Block(X[part], known, numbers[part])

    def _chunks(self) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], NDArray[Any] | None]]:
        for chunk in self.source.chunks():
            exact = chunk.X if self.exact is None else self.exact[chunk.numbers]
            yield chunk.numbers, exact, chunk.y


def in_columns_of(model: Any, data: Any) -> Any:
    """Give a frame the model's columns, by name and in its order; leave anything else as it is."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None or not hasattr(data, "columns") or not hasattr(data, "to_numpy"):
        return data
    found, needed = [str(name) for name in data.columns], [str(name) for name in wanted]
    if missing := [name for name in needed if name not in found]:
        raise InputError(f"X needs the columns {needed} as in fit, got none called {missing[0]!r}")
    return data if found == needed else data[list(wanted)]


def open_rows(data: Any, y: Any = None) -> Rows:
    """Open anything that `tell` can read, or a sparse matrix, or a source that is already open."""
    known = None if y is None else as_labels(y)
    if sparse.issparse(data):
        rows = Rows("array", data.shape[1], None, None, data.tocsr(), known)
        _check_length(known, data.shape[0])
        return rows
    source = open_source(data)
    names = source.feature_names
    shape = tuple(source.shape)
    _check_length(known, source.n_rows)
    return Rows(
        name=str(source.name),
        n_features=int(source.n_features),
        feature_names=None if names is None else tuple(map(str, names)),
        shape=shape if len(shape) > 1 else None,
        source=source,
        y=known,
        exact=_exact(data, source.n_features),
    )


def _exact(data: Any, n_features: int) -> NDArray[np.float64] | None:
    """The rows of an array or frame in double precision, which sources round to single."""
    if not isinstance(data, np.ndarray) and hasattr(data, "to_numpy"):
        data = data.to_numpy()
    if not isinstance(data, np.ndarray) or data.dtype != np.float64 or data.ndim != 2:
        return None
    return data if data.shape[1] == n_features else None


def _sparse_chunks(matrix: Any) -> Iterator[tuple[NDArray[np.int64], NDArray[Any], None]]:
    for start in range(0, matrix.shape[0], BLOCK_ROWS):
        part = matrix[start : start + BLOCK_ROWS].toarray()
        yield np.arange(start, start + len(part)), part, None


def _check_length(y: NDArray[Any] | None, n_rows: int | None) -> None:
    if y is not None and n_rows is not None and len(y) != n_rows:
        raise InputError(
            f"y needs one label per row ({n_rows}), got {len(y)}; pass the labels of the same rows"
        )
