"""Where TELL begins: a start trains the networks and says which rows lie together.

`L_clu` only attracts, so that eq. 15 ends in the basin in which it begins. To add a start, subclass
`Start` in a file of this folder and add it to the table in `starts.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from tell.core.assignment import wide
from tell.core.batches import Batches, seeded_generator
from tell.core.layer import unit
from tell.core.objective import PAPER_WEIGHT
from tell.estimators.deep.recipes.recipe import AllRows, Stage, Task

BATCHES_OF_FEW_ROWS = 30
SMALLEST_BATCH = 32
MEASURED_ROWS = 10_000  # for the variance


@dataclass(frozen=True)
class Start(ABC):
    """What happens before eq. 15 is minimised."""

    name: ClassVar[str]
    # How long eq. 15 then takes, unless the user says it.
    tell_epochs: ClassVar[int] = 4
    # Adam's rate at the beginning of eq. 15, unless the user says it.
    tell_rate: ClassVar[float] = 3e-4
    # Part of that rate at which the labels settle.
    tell_gentle: ClassVar[float] = 0.1
    # λ: how many times the error of a decoder that knows nothing but the mean row is weighed by a
    # row at squared distance 1 from its centre. By the rows alone, so that `L_clu` of all runs can
    # be compared.
    tell_relative_weight: ClassVar[float] = 1.5
    # λ itself, where it does not follow from the rows.
    tell_weight: ClassVar[float | None] = None
    # Whether its partition is good enough for two views of a row to be told by it.
    takes_views: ClassVar[bool] = False
    # Whether eq. 15 is to keep to its clusters for an epoch, or may still look for others.
    keeps_clusters: ClassVar[bool] = False

    def shared(self, rows: AllRows) -> dict[str, Tensor]:
        """Compute, once per fit, what all its runs need."""
        return {}

    @abstractmethod
    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stages of the start."""

    def place_centers(self, task: Task) -> None:
        """Put the centres where eq. 15 shall begin: the mean directions of their rows."""
        to_mean_directions(task)


@dataclass(frozen=True)
class RandomStart(Start):
    """No start at all, as in the paper: random weights, random centres, λ = 0.01."""

    name: ClassVar[str] = "random"
    tell_epochs: ClassVar[int] = 100
    tell_weight: ClassVar[float | None] = PAPER_WEIGHT

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give none."""
        return iter(())

    def place_centers(self, task: Task) -> None:
        """Leave the centres as they were drawn."""


@torch.no_grad()
def to_mean_directions(task: Task) -> None:
    """Move every centre to the mean direction of its rows; one without rows stays."""
    model = task.model
    z = model.embed(task.x)
    sums = torch.zeros_like(model.layer.weight)
    sums.index_add_(0, model.assign(z).labels, z)
    there = sums.norm(dim=1, keepdim=True) > 0
    model.layer.set_centers_(torch.where(there, unit(sums), model.layer.centers))


def batches_in_memory(task: Task, batch_size: int) -> Batches:
    """Give out the rows that are in memory, for objectives that keep something for each."""
    size = batch_rows(task, batch_size)
    return Batches(
        task.x, size, drop_last=True, seed=task.seed, augment=task.augment, share=task.share
    )


def batch_rows(task: Task, most: int) -> int:
    """Rows of a batch: of few rows smaller ones, so that there are some."""
    return min(most, max(SMALLEST_BATCH, len(task.x) // BATCHES_OF_FEW_ROWS))


def variance(x: Tensor) -> float:
    """Return the mean variance of a pixel or column: `L_rec` of the best constant decoder.

    >>> variance(torch.tensor([[0.0, 1.0], [2.0, 1.0]]))
    0.5
    """
    order = torch.randperm(len(x), generator=seeded_generator(0))[:MEASURED_ROWS]
    rows = x[order.to(x.device)].flatten(1)
    return float(wide(rows).var(dim=0, correction=0).mean())
