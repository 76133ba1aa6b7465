"""The default recipe: the paper's quality in minutes on ordinary hardware, without labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn, optim

from tell.core.batches import Batches, seeded_generator
from tell.core.layer import ClusterLayer
from tell.core.schedule import PartOf, one_cycle_rate
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.recipes.distillation import Distillation
from tell.estimators.deep.recipes.partition import find_partition
from tell.estimators.deep.recipes.recipe import Recipe, Stage, Task

DISTIL_EPOCHS = 1
REFINE_EPOCHS = 3
REFINE_EPOCHS_AUGMENTED = 6
BATCHES_OF_FEW_ROWS = 30
SMALLEST_BATCH = 32


@dataclass(frozen=True)
class FastRecipe(Recipe):
    """Find a partition in the neighbour graph, distil it, let the network correct it.

    Parameters
    ----------
    epochs : int, optional
        Over all rows, after the distil. Default: 3, or 6 with augmentation.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.
    batch_size : int
        Smaller for few rows.
    learning_rate : float
        Of Adam, at the height of a cycle that starts and ends low.
    weight : float
        Of the cross-entropy to the partition, beside the reconstruction.
    temperature : float
        τ of eq. 7 in the cross-entropy.
    memory : float
        How much of a row's target stays when the network's own assignment is mixed into it.
    distil_steps : int
        At least so many before the refinement, where few rows would give fewer; `max_time` does
        not cut them, because the network knows the partition only by them.
    graph_rows : int
        Rows that the partition is found from; the others follow their neighbours among these.
    neighbours, layout_epochs : int
        Of the graph, and of its layout.
    """

    epochs: int | None = None
    n_init: int = 1
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight: float = 0.1
    temperature: float = 0.2
    memory: float = 0.7
    distil_steps: int = 150
    graph_rows: int = 100_000
    neighbours: int = 15
    layout_epochs: int = 100

    name: ClassVar[str] = "fast"
    table_network: ClassVar[str] = "mlp"

    @property
    def minimised(self) -> tuple[str, ...]:
        """The terms of `Distillation`, in which the clustering loss is only watched."""
        return "reconstruction", "distil"

    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the cluster layer."""
        return ClusterLayer(embedding_dim, n_clusters)

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the distil of the graph's partition and its refinement."""
        batches = self._batches(task)
        targets = torch.zeros(len(task.x), task.model.layer.n_clusters, device=task.x.device)
        refine_epochs = self.epochs or (REFINE_EPOCHS_AUGMENTED if task.augment else REFINE_EPOCHS)
        distil_epochs = max(DISTIL_EPOCHS, math.ceil(self.distil_steps / batches.steps))
        handover = distil_epochs / (distil_epochs + refine_epochs)

        distil = self._objective(task.model, targets, adapting=False)
        rate = PartOf(one_cycle_rate, 0.0, handover)
        find = self._finder(task, targets)
        stage = self._stage("distil", distil, batches, distil_epochs, rate)
        yield replace(stage, prepare=find, least_steps=self.distil_steps)

        refine = self._objective(task.model, targets, adapting=True)
        rate = PartOf(one_cycle_rate, handover, 1.0)
        yield self._stage("refine", refine, batches, refine_epochs, rate)

    def _batches(self, task: Task) -> Batches:
        size = min(self.batch_size, max(SMALLEST_BATCH, len(task.x) // BATCHES_OF_FEW_ROWS))
        return Batches(task.x, size, drop_last=True, seed=task.seed, augment=task.augment)

    def _objective(self, model: DeepModel, targets: Tensor, *, adapting: bool) -> Distillation:
        return Distillation(
            model.encoder,
            model.layer,
            model.decoder,
            targets,
            adapting=adapting,
            weight=self.weight,
            temperature=self.temperature,
            memory=self.memory,
        )

    def _finder(self, task: Task, targets: Tensor) -> Callable[[], None]:
        def find() -> None:
            layer = task.model.layer
            order = torch.randperm(len(task.x), generator=seeded_generator(task.seed))
            partition = find_partition(
                task.x,
                layer.n_clusters,
                graph_rows=order[: self.graph_rows].sort().values,
                seed=task.seed,
                neighbours=self.neighbours,
                epochs=self.layout_epochs,
                augment=task.augment,
                visible=task.visible,
            )
            targets.copy_(partition)
            # Centres at right angles, if there is room: the network brings a cluster to each.
            layer.set_centers_(nn.init.orthogonal_(torch.empty_like(layer.weight)))

        return find

    def _stage(
        self,
        name: str,
        objective: Distillation,
        batches: Batches,
        epochs: int,
        rate: PartOf,
    ) -> Stage:
        optimizer = optim.Adam(objective.parameters(), lr=self.learning_rate, fused=True)
        return Stage(name, objective, batches, optimizer, epochs, rate)
