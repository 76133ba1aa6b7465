"""The default recipe: the paper's quality in minutes on ordinary hardware, without labels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn, optim

from tell.core.batches import Batches, seeded_generator
from tell.core.imprint import Imprint
from tell.core.layer import ClusterLayer
from tell.core.schedule import one_cycle_rate
from tell.estimators._deep_partition import find_partition
from tell.estimators._deep_run import Recipe, Stage, Task

FEWEST_EPOCHS = 6
FEWEST_STEPS = 600
MOST_GRAPH_ROWS = 100_000  # finding all neighbours takes the square of this


@dataclass(frozen=True)
class FastRecipe(Recipe):
    """Find a partition in the neighbour graph, imprint it, let the network correct it.

    Parameters
    ----------
    epochs : int, optional
        Default: 6, or more for few rows.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.
    batch_size : int
    learning_rate : float
        Of Adam, at the height of a cycle that starts and ends low.
    weight : float
        Of the cross-entropy to the partition, beside the reconstruction.
    temperature : float
        τ of eq. 7 in the cross-entropy.
    fixed : float
        Share of the training in which the partition stays as it was found.
    kept : float
        How much of the partition is left in the targets at the end, when the network's own
        assignments have been mixed into them.
    neighbours, layout_epochs : int
        Of the graph, and of its layout.
    """

    epochs: int | None = None
    n_init: int = 1
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight: float = 0.1
    temperature: float = 0.2
    fixed: float = 1 / 3
    kept: float = 0.25
    neighbours: int = 15
    layout_epochs: int = 100

    name: ClassVar[str] = "fast"
    table_network: ClassVar[str] = "mlp"

    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the cluster layer."""
        return ClusterLayer(embedding_dim, n_clusters)

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the one stage: its preparation finds the partition."""
        model = task.model
        x = self._sample(task)
        batches = Batches(x, self.batch_size, drop_last=True, seed=task.seed, augment=task.augment)
        epochs = self.epochs or max(FEWEST_EPOCHS, math.ceil(FEWEST_STEPS / batches.steps))
        fixed_epochs = math.ceil(self.fixed * epochs)
        objective = Imprint(
            model.encoder,
            model.layer,
            model.decoder,
            n_rows=len(x),
            weight=self.weight,
            temperature=self.temperature,
            memory=self.kept ** (1 / max(1, epochs - fixed_epochs)),
            fixed_epochs=fixed_epochs,
        )

        def prepare() -> None:
            partition = find_partition(
                x,
                model.layer.n_clusters,
                seed=task.seed,
                neighbours=self.neighbours,
                epochs=self.layout_epochs,
                visible=task.visible,
            )
            objective.targets.copy_(partition)
            # Centres at right angles: the network brings each cluster to its own.
            model.layer.set_centers_(nn.init.orthogonal_(torch.empty_like(model.layer.weight)))

        yield Stage(
            "imprint",
            objective,
            batches,
            optim.Adam(objective.parameters(), lr=self.learning_rate),
            epochs,
            one_cycle_rate,
            prepare=prepare,
        )

    def _sample(self, task: Task) -> torch.Tensor:
        if len(task.x) <= MOST_GRAPH_ROWS:
            return task.x
        order = torch.randperm(len(task.x), generator=seeded_generator(task.seed))
        return task.x[order[:MOST_GRAPH_ROWS].sort().values.to(task.x.device)]
