"""One worker's part of the rows, and all that it is ever asked for.

A call brings everything it needs and changes nothing but caches, so that a worker that died can be
started afresh and asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.core.assignment import DenseRows, assign, nearest
from tell.core.layer import Geometry
from tell.core.oversampling import Drawn, draw_by_loss
from tell.core.radii import Radii
from tell.core.sums import Extent, Sums, block_rows, cut, each_block, no_sums, sums_of
from tell.data.chunks import Source


@dataclass(frozen=True)
class Task:
    """What all workers are sent for a pass: its size does not depend on the number of rows."""

    centers: Tensor  # (k, d)
    geometry: Geometry
    extent: Extent
    scale: Callable[[Any], Any]  # from rows as they are read to rows as they are clustered
    live: Tensor | None = None  # (m,) places of the centres that take rows, where not all do


class Survey(NamedTuple):
    """What the first reading of a shard finds."""

    sample: NDArray[Any]  # the rows that were asked for, in their order
    moments: list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]
    # of each block: rows, column means, sums of squared deviations


class Shard:
    """Rows first … last of a source; `first` is the beginning of a block.

    Parameters
    ----------
    last : int or None
        None: to the end.
    cache : int
        Bytes of rows to keep between passes, if all of them fit.
    threads : int or None
        Blocks worked on at a time; None: as many as torch has threads.
    """

    def __init__(
        self,
        source: Source,
        first: int = 0,
        last: int | None = None,
        *,
        cache: int = 0,
        threads: int | None = None,
    ) -> None:
        self._source, self.first, self.last = source, first, last
        fits = last is not None and (last - first) * source.row_bytes <= cache
        self._kept: list[Tensor] | None = [] if fits else None
        self._threads = threads or torch.get_num_threads()
        self.done = 0  # rows that the present call is through with
        self._labels = np.empty(0, np.int32)
        self._labelled: Tensor | None = None  # the centres that the labels are for

    def _blocks(self) -> Iterator[Tensor]:
        """Blocks of rows as they were read."""
        if self._kept:
            yield from self._kept
            return
        kept: list[Tensor] = []
        parts = (torch.from_numpy(_writable(X)) for X in self._arrays())
        for block in cut(parts, block_rows(self._source.n_features)):
            if self._kept is not None:
                kept.append(block)
            yield block
        if self._kept is not None:
            self._kept = kept

    def _arrays(self) -> Iterator[NDArray[Any]]:
        whole = self.first == 0 and self.last is None
        chunks = self._source.chunks() if whole else self._source.between(self.first, self.last)
        return (chunk.X for chunk in chunks)

    def _each(self, work: Callable[[Tensor, int], Any]) -> Iterator[Any]:
        return each_block(self._counted(), work, self.first, self._threads)

    def _counted(self) -> Iterator[Tensor]:
        self.done = 0
        for block in self._blocks():
            yield block
            self.done += len(block)

    def survey(self, wanted: NDArray[np.int64]) -> Survey:
        """Take the rows with these numbers, in ascending order, and measure the columns."""
        d = self._source.n_features
        found, moments = [np.empty((0, d), self._source.dtype)], []
        for rows, moment in self._each(partial(_survey, wanted)):
            found.append(rows)
            moments.append(moment)
        return Survey(np.concatenate(found), moments)

    def sums(self, task: Task) -> Sums:
        """What the rows add up to for the task's centres."""
        units = task.extent.units(task.centers, task.geometry)
        total, self._labelled = no_sums(task.centers, units), None
        seen = 0
        for part, labels in self._each(partial(_sums, task, units)):
            total = total + part
            seen = self._write(labels, seen)
        self._labels, self._labelled = self._labels[:seen], task.centers
        return total

    def labels(self, task: Task) -> NDArray[np.int32]:
        """The cluster of each row, -1 for one with gaps; those of the last pass if they hold."""
        if self._labelled is None or not torch.equal(self._labelled, task.centers):
            self._labelled, seen = None, 0
            for labels in self._each(partial(_labels, task)):
                seen = self._write(labels, seen)
            self._labels, self._labelled = self._labels[:seen], task.centers
        return self._labels

    def _write(self, labels: NDArray[np.int32], at: int) -> int:
        """Keep the labels of rows `at` …, and return where the next ones go."""
        end = at + len(labels)
        if end > len(self._labels):
            known = self._source.n_rows if self.last is None else self.last - self.first
            size = max(end, known or 2 * end)
            self._labels = np.concatenate(
                [self._labels, np.empty(size - len(self._labels), np.int32)]
            )
        self._labels[at:end] = labels
        return end

    def write_labels(self, task: Task, folder: str) -> NDArray[np.int64]:
        """Write a Parquet file of labels, named by its first row; return the clusters' sizes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        labels = self.labels(task)
        path = Path(folder) / f"rows-{self.first:012d}.parquet"
        part = path.with_suffix(".part")
        pq.write_table(pa.table({"cluster": labels}), part)
        part.replace(path)
        return np.bincount(labels + 1, minlength=len(task.centers) + 1)

    def radii(self, task: Task, empty: Radii) -> Radii:
        """How far the rows lie from their centres."""
        for labels, distances in self._each(partial(_distances, task)):
            empty = empty.after(labels, distances, None, 1.0)
        return empty

    def draw(self, task: Task, count: int, seed: int) -> Drawn:
        """Draw rows by their loss against the task's centres."""
        none = task.centers.new_zeros(0, task.centers.shape[1])
        drawn = Drawn(none, torch.zeros(0, dtype=torch.float64))
        for part in self._each(partial(_draw, task, count, seed)):
            drawn = drawn.first_of(part, count)
        return drawn


def _writable(X: NDArray[Any]) -> NDArray[Any]:
    return X if X.flags.writeable else X.copy()  # torch warns of memory that it might write to


def _scaled(task: Task, block: Tensor) -> Tensor:
    """The block as it is clustered, in memory of its own."""
    moved = torch.from_numpy(task.scale(block.numpy())).to(task.centers.dtype)
    return moved if moved.data_ptr() == block.data_ptr() else torch.empty_like(moved).copy_(moved)


def _sums(task: Task, units: Tensor, block: Tensor, start: int) -> tuple[Sums, NDArray[np.int32]]:
    sums, labels = sums_of(_scaled(task, block), start, task.centers, task.geometry, units)
    return sums, labels.numpy().astype(np.int32)


def _labels(task: Task, block: Tensor, start: int) -> NDArray[np.int32]:
    labels = np.full(len(block), -1, np.int32)
    whole = ~torch.isnan(block).any(dim=1)
    block = block if whole.all() else block[whole]
    centers = task.centers if task.live is None else task.centers[task.live]
    found = nearest(DenseRows(_scaled(task, block)), centers, task.geometry)[0]
    labels[whole.numpy()] = (found if task.live is None else task.live[found]).numpy()
    return labels


def _distances(task: Task, block: Tensor, start: int) -> tuple[Tensor, Tensor]:
    return assign(DenseRows(_scaled(task, block)), task.centers, task.geometry)


def _draw(task: Task, count: int, seed: int, block: Tensor, start: int) -> Drawn:
    return draw_by_loss(
        _scaled(task, block), start, task.centers, task.geometry, count=count, seed=seed
    )


def _survey(wanted: NDArray[np.int64], block: Tensor, start: int) -> tuple[NDArray[Any], Any]:
    X = block.numpy()
    here = wanted[np.searchsorted(wanted, start) : np.searchsorted(wanted, start + len(X))]
    mean = X.mean(axis=0, dtype=np.float64)
    squares = np.square(X - mean).sum(axis=0)
    return X[here - start], (len(X), mean, squares)


def split(n_rows: int, n_features: int, shards: int) -> list[tuple[int, int]]:
    """Row ranges as equal as blocks allow, each begins where a block does; fewer if blocks are few.

    Where blocks do not go round, the last range has one more: the last block is the short one.

    >>> split(200_000, 8, 3)
    [(0, 65536), (65536, 131072), (131072, 200000)]
    """
    size = block_rows(n_features)
    blocks = -(-n_rows // size)
    shards = min(shards, blocks)
    bounds = [number * blocks // shards * size for number in range(shards + 1)]
    return [(a, min(b, n_rows)) for a, b in pairwise(bounds)]
