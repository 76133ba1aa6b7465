"""Rows to explain, in small blocks with their known labels, from any source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tell.data.sources import Source, open_source
from tell.data.table_preparation import is_table, open_prepared
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
    """A source, and labels that were given beside it."""

    source: Source
    y: NDArray[Any] | None

    @property
    def name(self) -> str:
        return str(self.source.name)

    @property
    def n_features(self) -> int:
        return self.source.n_features

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        names = self.source.feature_names
        return None if names is None else tuple(map(str, names))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one image; None where rows are no images."""
        return tuple(self.source.shape) if len(self.source.shape) > 1 else None

    def blocks(self) -> Iterator[Block]:
        """All rows from the first, in blocks of at most `BLOCK_ROWS`."""
        for chunk in self.source.chunks():
            labels = chunk.y if self.y is None else self.y[chunk.numbers]
            for low in range(0, len(chunk), BLOCK_ROWS):
                part = slice(low, low + BLOCK_ROWS)
                known = None if labels is None else labels[part]
                yield Block(chunk.X[part], known, chunk.numbers[part])


def in_columns_of(model: Any, data: Any) -> Any:
    """Give a table the model's columns, by name and in its order; leave anything else as it is.

    A table is read through the model's preparation, if it has one.
    """
    learned = getattr(model, "preparation_", None)
    if learned is not None and is_table(data, learned):
        return open_prepared(data, learned)
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is None or not hasattr(data, "columns") or not hasattr(data, "to_numpy"):
        return data
    found, needed = [str(name) for name in data.columns], [str(name) for name in wanted]
    there = set(found)
    if missing := [name for name in needed if name not in there]:
        raise InputError(f"X needs the columns {needed} as in fit, got none called {missing[0]!r}")
    return data if found == needed else data[list(wanted)]


def open_rows(data: Any, y: Any = None) -> Rows:
    """Open anything that `tell` can read, or a source that is already open."""
    source, known = open_source(data), None if y is None else as_labels(y)
    if known is not None and source.n_rows not in (None, len(known)):
        raise InputError(
            f"y needs one label per row ({source.n_rows}), got {len(known)}; pass the labels of "
            "the same rows"
        )
    return Rows(source, known)
