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

BLOCK_ROWS = 4096


class Block(NamedTuple):
    """Consecutive rows: X (n, d), their known labels (n,) or None, the number of the first row."""

    X: NDArray[Any]
    y: NDArray[Any] | None
    start: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows and what is known about them before reading."""

    name: str
    n_features: int
    feature_names: tuple[str, ...] | None
    shape: tuple[int, ...] | None
    source: Any
    y: NDArray[Any] | None

    def blocks(self) -> Iterator[Block]:
        """All rows from the first, in blocks of at most `BLOCK_ROWS`."""
        chunks = _sparse_chunks(self.source) if sparse.issparse(self.source) else self._chunks()
        for start, X, labels in chunks:
            for low in range(0, len(X), BLOCK_ROWS):
                part = slice(low, low + BLOCK_ROWS)
                begin = start + low
                known = labels[part] if labels is not None else None
                if self.y is not None:
                    known = self.y[begin : begin + len(X[part])]
                yield Block(X[part], known, begin)

    def _chunks(self) -> Iterator[tuple[int, NDArray[Any], NDArray[Any] | None]]:
        for chunk in self.source.chunks():
            yield chunk.start, chunk.X, chunk.y


def open_rows(data: Any, y: Any = None) -> Rows:
    """Open anything that `tell` can read, or a sparse matrix, or a source that is already open."""
    known = None if y is None else np.asarray(y)
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
    )


def _sparse_chunks(matrix: Any) -> Iterator[tuple[int, NDArray[Any], None]]:
    for start in range(0, matrix.shape[0], BLOCK_ROWS):
        yield start, matrix[start : start + BLOCK_ROWS].toarray(), None


def _check_length(y: NDArray[Any] | None, n_rows: int | None) -> None:
    if y is not None and n_rows is not None and len(y) != n_rows:
        raise InputError(
            f"y needs one label per row ({n_rows}), got {len(y)}; pass the labels of the same rows"
        )
