"""Two models on the same rows: which clusters stayed, split, merged or moved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from tell.data.prepared_tables import in_columns_of
from tell.exceptions import InputError
from tell.explanations.explained_rows import Rows, open_rows
from tell.explanations.view import Assigned, Floats, Ints, ModelView, assign, view_model
from tell.explanations.words import percent

#: Two clusters are the same when each keeps at least this share of the other's rows.
SAME = 0.75
#: A part of a cluster counts as a piece of a split or merge from this share on.
PIECE = 0.2


@dataclass(frozen=True, eq=False)
class Fate:
    """What became of clusters: `kind` is stayed, split, merged, moved, new or gone."""

    kind: str
    old: tuple[int, ...]
    new: tuple[int, ...]
    kept: float
    summary: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """An old and a new model on the same rows.

    Attributes
    ----------
    agreement : adjusted Rand index of the two partitions
    overlap : (old k, new k) number of rows they share
    fates : one entry per event; every cluster of both models is in at least one
    """

    agreement: float
    overlap: Ints
    fates: tuple[Fate, ...]

    def count(self, kind: str) -> int:
        """Number of events of one kind."""
        return sum(fate.kind == kind for fate in self.fates)


def compare(old: object, new: object, X: object, *, X_old: object = None) -> Comparison:
    """Say what became of the clusters of `old` in `new`, judged by the rows of X (n, d).

    Models that were fitted to columns with names find them by name in a frame; `X_old` holds the
    same rows with the columns of `old`, where these are others than those of `new`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> X = np.array([[0.0], [0.2], [5.0], [5.2], [9.0], [9.2]])
    >>> coarse = KMeans(2, init=[[0.0], [7.0]], n_init=1).fit(X)
    >>> fine = KMeans(3, init=[[0.0], [5.0], [9.0]], n_init=1).fit(X)
    >>> for fate in compare(coarse, fine, X).fates:
    ...     print(fate.summary)
    cluster 0 stayed: now 0, 100 % of its rows kept
    cluster 1 split into 1 (50 %) and 2 (50 %)
    """
    first, second = view_model(old), view_model(new)
    seen = rows_of_both(old, new, X, X_old)
    for view, rows in zip((first, second), seen, strict=True):
        view.check_columns(rows.n_features)
    overlap = np.zeros((first.n_clusters, second.n_clusters), np.int64)
    for one, other in side_by_side(placed(first, seen[0]), placed(second, seen[1])):
        np.add.at(overlap, (one.labels, other.labels), 1)
    if not overlap.any():
        raise InputError("X needs at least one row, got none; pass the rows to compare on")
    return Comparison(_adjusted_rand(overlap), overlap, _fates(overlap))


def rows_of_both(old: object, new: object, X: object, X_old: object) -> tuple[Rows, Rows]:
    """The same rows, in the columns of either model."""
    earlier = open_rows(in_columns_of(old, X if X_old is None else X_old))
    return earlier, open_rows(in_columns_of(new, X))


def placed(view: ModelView, rows: Rows) -> Iterator[Assigned]:
    """All rows and their place among the centres, in blocks."""
    for block in rows.blocks():
        yield assign(view, block)


def side_by_side(
    old: Iterator[Assigned], new: Iterator[Assigned]
) -> Iterator[tuple[Assigned, Assigned]]:
    """The rows that both have seen: each may leave out others, in other blocks."""
    one, other = next(old, None), next(new, None)
    while one is not None and other is not None:
        _, here, there = np.intersect1d(
            one.rows, other.rows, assume_unique=True, return_indices=True
        )
        yield one.take(here), other.take(there)
        last = one.rows[-1], other.rows[-1]
        if last[0] <= last[1]:
            one = next(old, None)
        if last[1] <= last[0]:
            other = next(new, None)


class _Fates:
    """Collects events and remembers which clusters are accounted for."""

    def __init__(self, overlap: Ints) -> None:
        self.overlap = overlap
        self.of_old: Floats = overlap / np.maximum(overlap.sum(axis=1, keepdims=True), 1)
        self.of_new: Floats = overlap / np.maximum(overlap.sum(axis=0, keepdims=True), 1)
        self.old_open, self.new_open = (np.ones(n, bool) for n in overlap.shape)
        self.found: list[Fate] = []

    def note(self, kind: str, old: list[int], new: list[int], kept: float, text: str) -> None:
        self.found.append(Fate(kind, tuple(old), tuple(new), float(kept), text))
        self.old_open[old], self.new_open[new] = False, False

    def stayed(self) -> None:
        for i, j in np.argwhere((self.of_old >= SAME) & (self.of_new >= SAME)).tolist():
            kept = self.of_old[i, j]
            text = f"cluster {i} stayed: now {j}, {percent(kept)} of its rows kept"
            self.note("stayed", [i], [j], kept, text)

    def split(self) -> None:
        for i in np.flatnonzero(self.old_open).tolist():
            piece = (self.of_old[i] >= PIECE) & (self.of_new[i] >= SAME) & self.new_open
            into = np.flatnonzero(piece).tolist()
            if len(into) > 1:
                names = _list(f"{j} ({percent(self.of_old[i, j])})" for j in into)
                kept = self.of_old[i, into].sum()
                self.note("split", [i], into, kept, f"cluster {i} split into {names}")

    def merged(self) -> None:
        for j in np.flatnonzero(self.new_open).tolist():
            piece = (self.of_new[:, j] >= PIECE) & (self.of_old[:, j] >= SAME) & self.old_open
            sources = np.flatnonzero(piece).tolist()
            if len(sources) > 1:
                kept = self.of_new[sources, j].sum()
                self.note(
                    "merged", sources, [j], kept, f"clusters {_list(sources)} merged into {j}"
                )

    def left_over(self) -> None:
        for i in np.flatnonzero(self.old_open).tolist():
            j = int(np.argmax(self.of_old[i]))
            kept = self.of_old[i, j]
            if kept == 0:
                self.note("gone", [i], [], 0.0, f"cluster {i} has no rows in this data")
            else:
                text = f"cluster {i} moved: {percent(kept)} of its rows are now in {j}"
                self.note("moved", [i], [j], kept, text)
        for j in np.flatnonzero(self.new_open).tolist():
            i = int(np.argmax(self.of_new[:, j]))
            if self.of_new[i, j] >= SAME:  # nearly all its rows come from one, which lives on
                kept = self.of_old[i, j]
                text = f"cluster {j} split off from {i} ({percent(kept)} of its rows)"
                self.note("split", [i], [j], kept, text)
                continue
            empty = not self.overlap[:, j].any()
            text = "has no rows in this data" if empty else "is new: gathered from several old ones"
            self.note("new", [], [j], 0.0, f"cluster {j} {text}")


def _fates(overlap: Ints) -> tuple[Fate, ...]:
    """Stayed first, then splits and merges, then what is left."""
    fates = _Fates(overlap)
    fates.stayed()
    fates.split()
    fates.merged()
    fates.left_over()
    return tuple(fates.found)


def _list(items: Iterable[object]) -> str:
    words = [str(item) for item in items]
    return ", ".join(words[:-1]) + " and " + words[-1]


def _adjusted_rand(overlap: Ints) -> float:
    """Adjusted Rand index from the table of overlaps: no need to keep the labels of all rows."""

    def pairs(counts: Ints) -> Floats:
        counts = counts.astype(np.float64)
        return counts * (counts - 1) / 2

    both = float(pairs(overlap).sum())
    rows, columns = float(pairs(overlap.sum(1)).sum()), float(pairs(overlap.sum(0)).sum())
    everything = float(pairs(overlap.sum(keepdims=True)).sum())
    expected = rows * columns / everything if everything else 0.0
    most = (rows + columns) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)
