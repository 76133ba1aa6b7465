"""What a step needs of any set of rows, as one small object that does not depend on their order.

Rows are cut into blocks by their number. Each block is summed alone, in one thread, and written
down in whole multiples of a unit that is the same for all: whole numbers can be added in any order
without rounding. So one array, chunks of a file and shards on many machines give the same centres
to the bit, however the rows were split.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from tell.core.assignment import DenseRows, Totals, assign, totals
from tell.core.evaluation import one_thread
from tell.core.layer import Geometry
from tell.core.seeding import seedable
from tell.exceptions import InputError

BLOCK_ROWS = 1 << 16  # of few columns; float32 adds up no more without losing much
BLOCK_NUMBERS = 1 << 22  # of many columns: 16 MB
WORST = 64  # rows, worst served first, that a dead centre may move to
BITS = 61  # of a whole number: a sum stays below 2^62
COUNT, LENGTH, LOSS, SQUARE = range(-4, 0)  # columns of `Sums.exact` behind the d sums

Result = TypeVar("Result")


def block_rows(n_features: int) -> int:
    """Rows of a block: a power of two that depends on the number of columns alone."""
    most = max(1, BLOCK_NUMBERS // max(1, n_features))
    return min(BLOCK_ROWS, 1 << (most.bit_length() - 1))


@dataclass(frozen=True)
class Extent:
    """How many rows there are, and the mean square of each of their columns.

    It bounds what any part of the rows can add up to: Σ|x| ≤ n √(mean x²).
    """

    rows: float
    squares: Tensor  # (d,) in float64, in the clustered space

    def units(self, centers: Tensor, geometry: Geometry) -> Tensor:
        """A power of two for each column of `Sums.exact`, such that no sum overflows: (d + 4,)."""
        reach = float(self.squares.sum())
        loss = 4.0
        if geometry == "euclidean":  # ‖x − c‖² ≤ 2 ‖x‖² + 2 ‖c‖²
            loss = 2 * (reach + float(centers.double().square().sum(dim=1).max()))
        sums = torch.ones_like(self.squares) if geometry == "sphere" else self.squares.sqrt()
        rest = torch.tensor([1.0, math.sqrt(reach), loss, loss * loss * self.rows])
        bounds = 2 * self.rows * torch.cat([sums, rest.double()])
        return torch.exp2(torch.log2(bounds.clamp(min=1e-250)).ceil() - BITS)


class Worst(NamedTuple):
    """The rows that are served worst, the worst first; of equal ones the first in the data."""

    x: Tensor  # (m, d)
    loss: Tensor  # (m,)
    at: Tensor  # (m,) number of the row

    def best_of(self, other: Worst) -> Worst:
        """The worst of both."""
        x, loss, at = (torch.cat(pair) for pair in zip(self, other, strict=True))
        order = torch.argsort(at)
        order = order[torch.argsort(-loss[order], stable=True)][:WORST]
        return Worst(x[order], loss[order], at[order])


@dataclass(frozen=True)
class Sums:
    """What some rows add up to in each of k clusters, in whole multiples of units.

    Attributes
    ----------
    exact : Tensor of shape (k, d + 4), of whole numbers
        Sums of the rows, then count, sum of lengths, sum of losses and of their squares.
    units : Tensor of shape (d + 4,)
    worst : Worst
    """

    exact: Tensor
    units: Tensor
    worst: Worst

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.exact + other.exact, self.units, self.worst.best_of(other.worst))

    def _column(self, number: int) -> Tensor:
        return self.exact[:, number].double() * self.units[number]

    @property
    def totals(self) -> Totals:
        """Sums (k, d) and counts (k,), in float64."""
        return Totals(self.exact[:, :COUNT].double() * self.units[:COUNT], self._column(COUNT))

    @property
    def lengths(self) -> Tensor:
        """Sum (k,) of the rows' lengths."""
        return self._column(LENGTH)

    @property
    def cluster_losses(self) -> Tensor:
        """Sum (k,) of the rows' losses."""
        return self._column(LOSS)

    @property
    def rows(self) -> float:
        """How many rows there are."""
        return float(self.exact[:, COUNT].sum()) * float(self.units[COUNT])

    @property
    def loss(self) -> float:
        """Mean loss of a row."""
        return float(self.exact[:, LOSS].sum()) * float(self.units[LOSS]) / self.rows

    @property
    def loss_squares(self) -> float:
        """Sum of the rows' squared losses."""
        return float(self.exact[:, SQUARE].sum()) * float(self.units[SQUARE])


def no_sums(centers: Tensor, units: Tensor) -> Sums:
    """What no rows add up to."""
    k, d = centers.shape
    none = Worst(centers.new_zeros(0, d), centers.new_zeros(0), torch.zeros(0, dtype=torch.long))
    return Sums(torch.zeros(k, d + 4, dtype=torch.long), units, none)


def sums_of(
    x: Tensor, start: int, centers: Tensor, geometry: Geometry, units: Tensor
) -> tuple[Sums, Tensor]:
    """The sums of one block, whose first row has the number `start`, and the rows' labels."""
    rows, k = DenseRows(x), len(centers)
    labels, distances = assign(rows, centers, geometry)
    part = totals(rows, labels, k, geometry)
    loss = distances.double()
    columns = [
        torch.bincount(labels, numbers, minlength=k)[:, None]
        for numbers in (rows.length.double(), loss, loss.square())
    ]
    values = torch.cat([part.sums.double(), part.counts.double()[:, None], *columns], dim=1)
    if not torch.isfinite(values).all():
        raise InputError("rows must have a length that is a finite number; scale the values down")
    exact = torch.round(values / units).long()
    wanted = distances * (seedable(rows, geometry) > 0)
    worst = torch.argsort(-wanted, stable=True)[:WORST]
    return Sums(exact, units, Worst(x[worst], wanted[worst], worst + start)), labels


def cut(parts: Iterable[Tensor], rows: int) -> Iterator[Tensor]:
    """Put parts (m, d) behind each other and cut them into blocks of so many rows.

    Every block is a tensor of its own: where it lies in memory must not change its products.
    """
    block, filled = None, 0
    for part in parts:
        at = 0
        while at < len(part):
            if block is None:
                block, filled = part.new_empty(rows, part.shape[1]), 0
            take = min(rows - filled, len(part) - at)
            block[filled : filled + take] = part[at : at + take]
            filled, at = filled + take, at + take
            if filled == rows:
                yield block
                block = None
    if block is not None:
        yield block[:filled].clone()


def each_block(
    blocks: Iterable[Tensor], work: Callable[[Tensor, int], Result], start: int, threads: int
) -> Iterator[Result]:
    """Give work(block, number of its first row) for all blocks in order, some at a time.

    A block is worked on by one thread, so that results do not depend on how many there are.
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    with one_thread(), pool:
        for block in blocks:
            waiting.append(pool.submit(work, block, start))
            start += len(block)
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
