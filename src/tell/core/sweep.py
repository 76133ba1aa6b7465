"""One solution for every number of clusters in a range, each started from its neighbours'.

On the way up a centre is added where it lowers the loss most; on the way down the least useful one
is given up. Of the two solutions for a number the one with the smaller loss is kept: a way up may
cut a group in two early, and a way down mends that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tell.core.assignment import DenseRows, Totals
from tell.core.engine import step_to
from tell.core.layer import Geometry
from tell.core.seeding import CANDIDATES, draw, first_largest, in_steps, seedable

TOL = 1e-3  # of a descent: neighbours are compared, and their losses differ by far more
MAX_ITER = 30
OVERSEEDED, ROUNDS = 1.5, 4  # times the largest number that a way down alone begins with


class Solution(NamedTuple):
    """Centres, the nearest of each row, and the mean squared distance to it."""

    centers: Tensor  # (k, d)
    labels: Tensor  # (n,)
    loss: float


def sweep(x: Tensor, ks: Sequence[int], geometry: Geometry, seed: int = 0) -> dict[int, Solution]:
    """Cluster rows (n, d) with each of the numbers `ks`, which ascend from 1.

    On the sphere the rows have unit length, or none.
    """
    generator = torch.Generator().manual_seed(seed)
    now = _Partition(x, ks[-1], geometry)
    found: dict[int, Solution] = {}
    for k in ks:
        now.grow(k - len(now.centers), generator)
        found[k] = now.settle()
    for k in reversed(ks[:-1]):
        if k > 1:
            now.shrink(len(now.centers) - k)
            trial = now.settle()
            if trial.loss <= found[k].loss * (1 + 1e-6):  # the same one, perhaps, but for rounding
                found[k] = trial
            else:
                now.become(found[k])
    return found


def losses(x: Tensor, ks: Sequence[int], geometry: Geometry, seed: int = 0) -> list[float]:
    """The losses of rows (n, d) with each of the numbers `ks`, by the way down alone.

    It begins with more centres than needed, drawn in a few rounds. For rows without groups, none of
    which can be missed, it ends within a percent of a sweep, for less than half of its cost.
    """
    generator = torch.Generator().manual_seed(seed)
    most = min(len(x), math.ceil(OVERSEEDED * ks[-1]))
    now = _Partition(x, most, geometry)
    for left in range(ROUNDS, 0, -1):
        now.scatter((most - len(now.centers)) // left, generator)
    found = []
    for k in reversed(ks):
        now.shrink(len(now.centers) - k)
        found.append(now.settle().loss)
    return found[::-1]


def scores(x: Tensor, centers: Tensor, geometry: Geometry) -> Tensor:
    """Wᵀx + b/2, one row per centre: (k, n). The largest is that of the nearest centre (Eq. 6)."""
    products = centers @ x.T
    if geometry == "euclidean":
        products -= centers.square().sum(dim=1, keepdim=True) / 2
    return products


class _Partition:
    """A solution that gains and loses centres, and then settles where that has changed it.

    A centre moves only if it gained or lost rows, so only the scores of such centres are computed
    anew: a step costs what has changed, not the number of centres.
    """

    def __init__(self, x: Tensor, most: int, geometry: Geometry) -> None:
        self.x, self.geometry = x, geometry
        self.weights = seedable(DenseRows(x), geometry)
        squares = x.square().sum(dim=1)
        self.offset = squares if geometry == "euclidean" else torch.full_like(squares, 2)  # Eq. 12
        n, d = x.shape
        self._room = (
            x.new_empty(most, d),
            x.new_empty(most, n),
            x.new_empty(most, d),
            torch.empty(most, dtype=torch.long),
            torch.empty(most, dtype=torch.bool),
        )
        first = self.weights.argmax()[None]
        self.become(Solution(x[first], torch.zeros(n, dtype=torch.long), torch.inf))

    def _resize(self, k: int) -> None:
        """Look at the first k places of the room that there is."""
        self.centers, self.scores, self.sums, self.counts, self.stale = (p[:k] for p in self._room)

    def become(self, other: Solution) -> None:
        """Take the place of another solution for the same rows."""
        self._resize(len(other.centers))
        self.centers.copy_(other.centers)
        self.labels = other.labels.clone()
        self.scores.copy_(scores(self.x, self.centers, self.geometry))
        self.best = self.scores.gather(0, self.labels[None])[0]  # (n,) score of the own centre
        self.sums.zero_().index_add_(0, self.labels, self.x)
        self.counts.copy_(torch.bincount(self.labels, minlength=len(self.centers)))
        self.stale.fill_(True)  # whether a centre gained or lost rows since it was placed

    def distances(self) -> Tensor:
        """Squared distance (n,) of each row to its centre."""
        return (self.offset - 2 * self.best).clamp_(min=0)

    def grow(self, count: int, generator: torch.Generator) -> None:
        """Add centres, each where it lowers the loss most."""
        for _ in range(count):
            drawn = self._draw(CANDIDATES, generator)
            gain = (scores(self.x, self.x[drawn], self.geometry) - self.best).clamp_(min=0)
            self._add(drawn[first_largest(gain.sum(dim=1))][None])

    def scatter(self, count: int, generator: torch.Generator) -> None:
        """Add centres at once where the loss is."""
        self._add(self._draw(count, generator))

    def _draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Positions of rows, drawn by their loss."""
        return draw(self.distances() * self.weights, self.weights, count, generator)

    def _add(self, index: Tensor) -> None:
        """Make rows centres."""
        k = len(self.centers)
        self._resize(k + len(index))
        self.sums[k:], self.counts[k:] = 0, 0
        self._place(torch.arange(k, k + len(index)), self.x[index])

    def shrink(self, count: int) -> None:
        """Give centres up, each the one whose loss the others can bear best."""
        for _ in range(count):
            useless, last = int(in_steps(self._use()).argmin()), len(self.centers) - 1
            alone = (self.labels == useless).nonzero()[:, 0]
            for part in (self.centers, self.scores, self.sums, self.counts, self.stale):
                part[useless] = part[last]
            self.labels[self.labels == last] = useless
            self._resize(last)
            self._join(alone)

    def _use(self) -> Tensor:
        """What the loss would lose with each centre, up to a factor: (k,)."""
        second = self.scores.scatter(0, self.labels[None], -torch.inf).amax(dim=0)
        use = self.best.new_zeros(len(self.centers))
        return use.index_add_(0, self.labels, self.best - second)

    def settle(self) -> Solution:
        """Step until the loss falls by less than a share of itself."""
        self._revive()
        loss = float(self.distances().mean())
        for _ in range(MAX_ITER):
            self._step()
            revived = self._revive()
            before, loss = loss, float(self.distances().mean())
            if not revived and before - loss <= TOL * before:
                break
        return Solution(self.centers.clone(), self.labels.clone(), loss)

    def _step(self) -> None:
        moved = self.stale.nonzero()[:, 0]
        part = Totals(self.sums[moved], self.counts[moved])
        self._place(moved, step_to(part, self.centers[moved], self.geometry))

    def _place(self, which: Tensor, centers: Tensor) -> None:
        """Put some centres somewhere else, and then every row to the nearest."""
        self.centers[which] = centers
        self.scores[which] = scores(self.x, centers, self.geometry)
        self.stale[which] = False
        own = self.scores.gather(0, self.labels[None])[0]
        self.best = self.scores.amax(dim=0)
        left = (own < self.best).nonzero()[:, 0]  # a row leaves its centre only for a nearer one
        if len(left):
            old = self.labels[left]
            self.sums.index_add_(0, old, self.x[left], alpha=-1)
            self.counts -= torch.bincount(old, minlength=len(self.counts))
            self.stale[old] = True
            self._join(left)

    def _join(self, index: Tensor) -> None:
        """Give rows that belong to no centre to the nearest."""
        self.best[index], new = self.scores[:, index].max(dim=0)
        self.labels[index] = new
        self.sums.index_add_(0, new, self.x[index])
        self.counts += torch.bincount(new, minlength=len(self.counts))
        self.stale[new] = True

    def _revive(self) -> bool:
        """Move centres without rows onto the worst-served ones; nothing moves without loss."""
        any_moved = False
        for dead in (self.counts == 0).nonzero():
            distances = self.distances() * self.weights
            worst = distances.argmax()
            if distances[worst] <= 32 * torch.finfo(self.x.dtype).eps * self.offset[worst]:
                break
            self._place(dead, self.x[worst][None])
            any_moved = True
        return any_moved
