"""Rows to explain, in small blocks with their known labels, from any source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tell.contract import Ints, Labels
from tell.data.arrays import SparseSource
from tell.data.sources import Source, open_source
from tell.exceptions import InputError
from tell.explanations.matrices import Matrix

if TYPE_CHECKING:
    from tell.data.preparation import Preparation


BLOCK_ROWS = 4096
#: Rows, their labels, their numbers, and which of their values stand for a gap.
_Part = tuple[Matrix, NDArray[Any] | None, NDArray[np.int64], NDArray[np.bool_] | None]


class Block(NamedTuple):
    """Rows X (n, d), their known labels (n,) or None, and their numbers in the data (n,).

    `given` (n,) are the clusters of the rows, where they were given and not found by a model, and
    `filled` (n, d) marks values that stand for a gap of the table.
    """

    X: Matrix
    y: NDArray[Any] | None
    numbers: NDArray[np.int64]
    given: Ints | None = None
    filled: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """A source, known labels that came beside it, and clusters that were given for its rows."""

    source: Source
    y: NDArray[Any] | None
    given: Ints | None = None

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
    def preparation(self) -> Preparation | None:
        """How the columns of a table became these features, where that was learned."""
        return self.source.preparation

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one image; None where rows are no images."""
        return tuple(self.source.shape) if len(self.source.shape) > 1 else None

    def blocks(self) -> Iterator[Block]:
        """All rows from the first, in blocks of at most `BLOCK_ROWS`."""
        for X, y, numbers, filled in self._chunks():
            labels = y if self.y is None else self.y[numbers]
            for low in range(0, len(numbers), BLOCK_ROWS):
                part = slice(low, low + BLOCK_ROWS)
                known = None if labels is None else labels[part]
                given = None if self.given is None else self.given[numbers[part]]
                gaps = None if filled is None else filled[part]
                yield Block(X[part], known, numbers[part], given, gaps)

    def _chunks(self) -> Iterator[_Part]:
        if not isinstance(self.source, SparseSource):
            for chunk in self.source.chunks():
                filled = chunk.filled
                if filled is None and self.preparation is not None:
                    filled = np.zeros(chunk.X.shape, bool)  # all blocks alike
                yield chunk.X, chunk.y, chunk.numbers, filled
            return
        X = self.source.matrix()  # it is in memory, and stays sparse
        if not np.isfinite(X.data).all():
            next(iter(self.source.chunks()))  # says which row and column is not finite
        yield X, self.source.classes(), np.arange(X.shape[0]), None


def open_rows(data: Any, y: Any = None, given: Ints | None = None) -> Rows:
    """Open anything that `tell` can read, or a source that is already open."""
    source, known = open_source(data), None if y is None else as_labels(y)
    if known is not None and source.n_rows not in (None, len(known)):
        raise InputError(
            f"y needs one label per row ({source.n_rows}), got {len(known)}; pass the labels of "
            "the same rows"
        )
    if given is not None and source.n_rows != len(given):
        raise InputError(
            f"labels need one cluster per row ({source.n_rows}), got {len(given)}; pass the labels "
            "of the same rows"
        )
    return Rows(source, known, given)


def as_labels(y: Iterable[object]) -> Labels:
    """Labels (n,) in which a gap is None, NaN or an empty text, as `has_class` knows it.

    >>> as_labels(["a", float("nan")]).tolist()  # a plain array would hold the text "nan"
    ['a', None]
    """
    from tell.metrics import has_class

    labels = np.asarray(y)
    if labels.dtype.kind in "US" and not isinstance(y, np.ndarray):
        labels = np.asarray(list(y), object)
    if labels.dtype == object:
        labels = labels.copy()
        labels[~has_class(labels)] = None
    return labels


def label_texts(y: Labels) -> list[str | None]:
    """Labels (n,) as texts; None where a row has none.

    >>> label_texts(np.array(["cat", "", None], object))
    ['cat', None, None]
    """
    from tell.metrics import has_class

    return [str(value) if known else None for value, known in zip(y, has_class(y), strict=True)]


def known_labels(y: Labels) -> tuple[NDArray[np.bool_], Labels]:
    """Which rows have a label (n,), and these labels, such that they can be sorted and counted."""
    from tell.metrics import has_class

    known = has_class(y)
    labels = y[known]
    return known, labels.astype(str) if labels.dtype == object else labels


def main_label(y: Labels) -> tuple[str | None, float | None]:
    """The most frequent label and its share of the rows that have one.

    >>> main_label(np.array(["a", "b", "a", ""]))
    ('a', 0.6666666666666666)
    """
    labels = known_labels(y)[1]
    if not len(labels):
        return None, None
    values, counts = np.unique(labels, return_counts=True)
    best = int(np.argmax(counts))
    return str(values[best]), float(counts[best] / counts.sum())
