"""One pass over the rows: what is kept of a data set that may be larger than memory.

Sizes, sums, extremes and confusions are exact over all rows; what needs many rows at once
(margins, map, quality) works on a seeded sample that does not depend on the block size.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tell.contract import Labels, Reals
from tell.exceptions import InputError
from tell.explanations.explained_rows import Block, Rows, known_labels, label_texts
from tell.explanations.matrices import (
    cluster_sums,
    dense,
    empty_rows,
    extremes,
    whole_columns,
)
from tell.explanations.terms import Terms, learn_terms
from tell.explanations.view import Assigned, Floats, Ints, ModelView, assign
from tell.progress import progress

#: A member is borderline within a tenth of the way from the boundary to where its like lies.
BORDERLINE = 0.1
#: A mean that is this much smaller than the values it is made of is rounding: 0.
ROUNDING = 1e-12


class Moments:
    """Sums of rows and of squares per cluster, about a shift so that large means do not cancel.

    All of it is in the units of the table, and of real values alone: what fills a gap is no value.

    Attributes
    ----------
    sizes, distance, squared : (k,) rows, and sums of their distances to the own centre, squared too
    missing : (k, d) values that were filled
    low, high : (d,) the smallest and largest value of every column
    whole : (d,) which columns hold whole numbers only
    empty : number of rows that are all zeros
    """

    def __init__(self, k: int, shift: Floats) -> None:
        self.sizes = np.zeros(k, np.int64)
        self.distance, self.squared = np.zeros(k), np.zeros(k)
        self.missing = np.zeros((k, len(shift)), np.int64)
        self._unclear: list[tuple[Ints, Ints, Floats]] = []
        self._shift = shift
        self._sum, self._squares = np.zeros((k, len(shift))), np.zeros((k, len(shift)))
        self.low, self.high = np.full(len(shift), np.inf), np.full(len(shift), -np.inf)
        self.whole, self.empty = np.ones(len(shift), bool), 0

    def add(self, part: Assigned, terms: Terms) -> None:
        k = len(self.sizes)
        self.sizes += np.bincount(part.labels, minlength=k)
        self.distance += np.bincount(part.labels, part.distance, minlength=k)
        self.squared += np.bincount(part.labels, part.distance**2, minlength=k)
        # What is borderline follows from all rows: keep those that may be, few as a rule.
        few = (part.clearness < BORDERLINE) & (part.runner_up != part.labels)
        self._unclear.append((part.labels[few], part.runner_up[few], part.clearness[few]))
        self.empty += empty_rows(part.X)
        values, gaps = terms.shown(part.X), part.filled
        if gaps is None or not gaps.any():
            sums, squares = cluster_sums(values, part.labels, k, self._shift)
            low, high = extremes(values)
            whole = whole_columns(values)
        else:
            real = np.where(gaps, self._shift, values)
            sums, squares = cluster_sums(real, part.labels, k, self._shift)
            low, high = (np.where(gaps, at, values) for at in (np.inf, -np.inf))
            low, high = low.min(axis=0), high.max(axis=0)
            whole = whole_columns(np.where(gaps, 0.0, values))
            for j in np.unique(part.labels):
                self.missing[j] += gaps[part.labels == j].sum(axis=0)
        self._sum += sums
        self._squares += squares
        self.low, self.high = np.minimum(self.low, low), np.maximum(self.high, high)
        self.whole &= whole

    def mean_cosine(self) -> Floats:
        """Mean cosine (k,) of members to their centre on the sphere: ‖x − c‖² = 2 − 2 cos."""
        return 1 - self.squared / np.maximum(self.sizes, 1) / 2

    def confused(self, reach: Floats) -> Ints:
        """Borderline members (k, k) by own cluster and runner-up; `reach` as in `Scan`."""
        counts = np.zeros((len(reach), len(reach)), np.int64)
        for own, other, clearness in self._unclear:
            unclear = clearness < BORDERLINE * reach[own]
            np.add.at(counts, (own[unclear], other[unclear]), 1)
        return counts

    def mean(self) -> Floats:
        """Mean (k, d) of the members."""
        counts = self.sizes[:, None] - self.missing
        return self._rounded(self._shift + self._sum / np.maximum(counts, 1))

    def _rounded(self, mean: Floats) -> Floats:
        """Without the rounding that sums which cancel leave behind."""
        scale = np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(np.abs(mean) > ROUNDING * scale, mean, 0.0)

    def counts(self, inside: NDArray[np.bool_]) -> Ints:
        """Real values (d,) of the rows in the clusters marked `inside`."""
        return np.asarray(self.sizes[inside].sum() - self.missing[inside].sum(axis=0))

    def pooled(self, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Mean and variance (d,) of the rows in the clusters marked `inside`.

        NaN and 0 where all of them are missing.
        """
        found = self.counts(inside)
        count = np.maximum(found, 1)
        mean = self._sum[inside].sum(axis=0) / count
        variance = self._squares[inside].sum(axis=0) / count - mean**2
        shown = self._rounded(self._shift + mean)
        gone = (found == 0) & self.missing[inside].any(axis=0)
        return np.where(gone, np.nan, shown), np.maximum(variance, 0.0)

    def missing_share(self, inside: NDArray[np.bool_]) -> Floats:
        """Share (d,) of the rows in the clusters marked `inside` that have no value."""
        rows = max(int(self.sizes[inside].sum()), 1)
        return np.asarray(self.missing[inside].sum(axis=0) / rows)


@dataclass(frozen=True, eq=False)
class Scan:
    """All that one pass found. `nearest`, `unclear` and `farthest` hold a few rows per cluster.

    `reach` (k,) is how far along its centre the mean member of a cluster lies: 1 unless on the
    sphere, where it is the mean cosine. All clearness here is relative to it, and `confused` (k, k)
    counts the borderline members by own cluster and runner-up. `terms` are the columns of the
    table behind the features, in whose units the moments are.
    """

    terms: Terms

    n_rows: int
    moments: Moments
    reach: Floats
    confused: Ints
    nearest: Assigned
    unclear: Assigned
    farthest: Assigned
    sample: Assigned
    chosen: dict[int, Reals]
    chosen_filled: dict[int, NDArray[np.bool_]]  # which of their values stand for a gap
    labels: Ints | None
    y: Labels | None
    numbers: Ints | None  # of the rows with known labels
    all_labels: Ints  # of all rows, if they were asked for
    given: dict[int, int]  # clusters of the chosen rows, where they were given and not found

    def known_label(self, row: int) -> str | None:
        """The known label of the row with this number in the data."""
        if self.y is None or self.numbers is None:
            return None
        place = int(np.searchsorted(self.numbers, row))
        return label_texts(self.y[place : place + 1])[0]


class Collector:
    """Takes blocks of rows one after another and keeps what explanations need."""

    def __init__(
        self,
        view: ModelView,
        terms: Terms,
        *,
        chosen: Collection[int],
        few: int,
        sample_size: int,
        seed: int,
        keep_labels: bool = False,
        also: Callable[[Assigned], None] | None = None,
    ) -> None:
        self._view, self._terms, self._keep_labels = view, terms, keep_labels
        self._also = also
        self._all: list[Ints] = []
        self._chosen, self._few, self._sample_size = frozenset(chosen), few, sample_size
        self._random = np.random.default_rng(seed)
        self._keys = np.empty(0)
        self._moments: Moments | None = None
        self._kept: dict[str, Assigned] = {}
        self._wanted: dict[int, Reals] = {}
        self._wanted_filled: dict[int, NDArray[np.bool_]] = {}
        self._given: dict[int, int] = {}
        self._known: list[tuple[Ints, Labels, Ints]] = []
        self._last = -1  # number of the last row
        self.n_rows = 0

    def add(self, block: Block) -> None:
        """Take one block in."""
        part = assign(self._view, block)
        if self._moments is None:
            shift = np.zeros(block.X.shape[1])
            if isinstance(block.X, np.ndarray):
                shift = self._terms.shown(block.X).mean(axis=0, dtype=np.float64)
            self._moments = Moments(self._view.n_clusters, shift)
            self._kept = dict.fromkeys(("nearest", "unclear", "farthest", "sample"), part.take([]))
        self._moments.add(part, self._terms)
        if self._also is not None:
            self._also(part)
        if self._keep_labels:
            self._all.append(part.labels)
        for name in ("nearest", "unclear", "farthest"):
            few = _few_per_cluster(name, part, self._few)
            self._kept[name] = _few_per_cluster(name, self._kept[name].join(few), self._few)
        self._add_to_sample(part)
        for place in np.flatnonzero(np.isin(part.rows, list(self._chosen))):
            number = int(part.rows[place])
            self._wanted[number] = dense(block.X[[place]])[0]
            if block.given is not None:
                self._given[number] = int(part.labels[place])
            if block.filled is not None:
                self._wanted_filled[number] = block.filled[place]
        if part.y is not None:
            self._known.append((part.labels, part.y, part.rows))
        self._last = int(part.rows[-1])
        self.n_rows += len(part)

    def _add_to_sample(self, part: Assigned) -> None:
        """Keep the rows with the smallest random keys: a uniform sample without replacement."""
        keys = np.concatenate([self._keys, self._random.random(len(part))])
        best = np.argsort(keys, kind="stable")[: self._sample_size]
        self._keys, self._kept["sample"] = keys[best], self._kept["sample"].join(part).take(best)

    def _labelled(self) -> tuple[Ints, Labels, Ints] | tuple[None, None, None]:
        """Clusters, known labels and numbers of all rows; None where no row has a label."""
        if not self._known:
            return None, None, None
        labels, y, numbers = map(np.concatenate, zip(*self._known, strict=True))
        return (labels, y, numbers) if known_labels(y)[0].any() else (None, None, None)

    def result(self) -> Scan:
        """What was found in all blocks together."""
        if self._moments is None:
            raise InputError("X needs at least one row, got none; pass the rows to explain")
        for row in self._chosen - self._wanted.keys():
            raise InputError(
                f"rows needs numbers from 0 to {self._last}, got {row}; rows are counted from 0 "
                "in the order of the data, and those left out for a gap cannot be explained"
            )
        reach = np.ones(self._view.n_clusters)
        if self._view.on_sphere:
            reach = np.clip(self._moments.mean_cosine(), 1e-9, 1.0)
        kept = {name: part.relative_to(reach) for name, part in self._kept.items()}
        sample = kept.pop("sample")
        labels, y, numbers = self._labelled()
        return Scan(
            terms=self._terms,
            n_rows=self.n_rows,
            moments=self._moments,
            reach=reach,
            confused=self._moments.confused(reach),
            **kept,
            sample=sample.take(np.argsort(sample.rows)),
            chosen=self._wanted,
            chosen_filled=self._wanted_filled,
            labels=labels,
            y=y,
            numbers=numbers,
            all_labels=np.concatenate([np.empty(0, np.int64), *self._all]),
            given=self._given,
        )


def scan(
    view: ModelView,
    rows: Rows,
    terms: Terms | None = None,
    *,
    chosen: Collection[int] = (),
    few: int = 8,
    sample_size: int = 5000,
    seed: int = 0,
    visible: bool = False,
    keep_labels: bool = False,
    also: Callable[[Assigned], None] | None = None,
) -> Scan:
    """Read all rows once; keep a `few` of each kind per cluster, a sample, and the chosen rows.

    `also` sees every block of placed rows on the way.
    """
    collector = Collector(
        view,
        terms or learn_terms(rows.preparation, [str(f) for f in range(rows.n_features)]),
        chosen=chosen,
        few=few,
        sample_size=sample_size,
        seed=seed,
        keep_labels=keep_labels,
        also=also,
    )
    total = getattr(rows.source, "n_rows", None)
    with progress("explain", total, visible=visible) as bar:
        for block in rows.blocks():
            collector.add(block)
            bar.update(collector.n_rows)
    return collector.result()


def _few_per_cluster(name: str, part: Assigned, few: int) -> Assigned:
    """The first `few` rows of every cluster: nearest, least clear or farthest from the centre."""
    key = {"nearest": part.distance, "unclear": part.clearness, "farthest": -part.distance}[name]
    order = np.lexsort((part.rows, key, part.labels))
    labels = part.labels[order]
    place = np.arange(len(labels)) - np.searchsorted(labels, labels)
    return part.take(order[place < few])
