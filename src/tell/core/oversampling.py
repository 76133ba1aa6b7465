"""k-means‖ (Bahmani et al. 2012): seeds for so many clusters that a sample cannot show them.

Two passes: one draws several rows per cluster by their loss against a first few centres, one counts
how many rows each of them stands for. k-means++ then chooses k among these weighted candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tell.core.assignment import DenseRows, assign
from tell.core.layer import Geometry
from tell.core.seeding import as_centers, seed_centers, seedable

OVERSAMPLING = 4  # rows drawn per cluster


class Drawn(NamedTuple):
    """Rows with the smallest keys: those of the heaviest, with high probability."""

    x: Tensor  # (m, d)
    keys: Tensor  # (m,) in float64

    def first_of(self, other: Drawn, count: int) -> Drawn:
        """The `count` smallest keys of both: no matter how the rows were split."""
        x, keys = torch.cat([self.x, other.x]), torch.cat([self.keys, other.keys])
        order = torch.argsort(keys)[:count]
        return Drawn(x[order], keys[order])


def draw_by_loss(
    x: Tensor, start: int, centers: Tensor, geometry: Geometry, *, count: int, seed: int
) -> Drawn:
    """Draw rows of a block in proportion to their loss, without replacement.

    With keys −log(u)/w the `count` smallest are such a draw (Efraimidis and Spirakis 2006), and
    need not know the loss of other blocks. A block's random numbers depend on its first row alone.
    """
    rows = DenseRows(x)
    mass = assign(rows, centers, geometry).distances.double() * (seedable(rows, geometry) > 0)
    generator = torch.Generator().manual_seed((seed << 24) ^ start)
    draws = torch.empty(len(x), dtype=torch.float64).exponential_(generator=generator)
    keys = torch.where(mass > 0, draws / mass.clamp(min=1e-300), torch.inf)
    order = torch.argsort(keys)[:count]
    order = order[torch.isfinite(keys[order])]
    return Drawn(x[order], keys[order])


def choose_seeds(
    candidates: Tensor, weights: Tensor, k: int, geometry: Geometry, seed: int
) -> Tensor:
    """Choose k of the candidates (m, d) by k-means++, each with the weight of its rows: (k, d)."""
    generator = torch.Generator().manual_seed(seed)
    rows = DenseRows(candidates, weights.to(candidates))
    return seed_centers(rows, k, "k-means++", geometry, generator)


def first_centers(x: Tensor, count: int, geometry: Geometry, seed: int) -> Tensor:
    """The first few centres, that rows are drawn against: distinct rows of a sample (m, d)."""
    rows, generator = DenseRows(x), torch.Generator().manual_seed(seed)
    usable = torch.nonzero(seedable(rows, geometry) > 0)[:, 0]
    order = usable[torch.randperm(len(usable), generator=generator)[:count]]
    return as_centers(rows, order, geometry)
