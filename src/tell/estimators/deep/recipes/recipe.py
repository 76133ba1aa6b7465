"""What a recipe is: a cluster layer and a list of stages, each one loop.

To add a recipe, subclass `Recipe` in a file of this folder and add it to the table in
`__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.optim import Optimizer

from tell.core.batches import Augment, Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Hook
from tell.core.objective import Objective
from tell.core.schedule import Rate, constant_rate
from tell.estimators.deep.model import DeepModel


@dataclass
class Task:
    """One run of a recipe: a model to train on rows from a seed."""

    model: DeepModel
    x: Tensor
    seed: int
    augment: Augment | None = None
    visible: bool = False


@dataclass
class Stage:
    """One loop of a recipe.

    `prepare` runs once before the first step; what it finds out must end up in the objective,
    because an interrupted stage goes on without it. `least_steps` are taken even after `max_time`:
    those without which the model knows nothing of what `prepare` found.
    """

    name: str
    objective: Objective
    batches: Batches
    optimizer: Optimizer
    epochs: int
    rate: Rate = constant_rate
    hooks: Sequence[Hook] = ()
    prepare: Callable[[], None] | None = None
    least_steps: int = 0


@dataclass(frozen=True)
class Recipe(ABC):
    """How a model is trained: its cluster layer, its restarts and its stages.

    Parameters
    ----------
    epochs : int or None
        Of the main stage; None leaves it to the recipe.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.
    """

    epochs: int | None
    n_init: int

    name: ClassVar[str]
    table_network: ClassVar[str]  # what encoder="auto" means for tables

    @property
    def minimised(self) -> tuple[str, ...]:
        """Terms that the last stage brings down, for the report; unknown unless a recipe says."""
        return ()

    @abstractmethod
    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the cluster layer."""

    @abstractmethod
    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stages; each is built after the one before has been trained."""
