"""The start without a graph: reconstruction first, then k-means++ on the embedding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from torch import optim

from tell.core.assignment import DenseRows
from tell.core.engine import fit_centers
from tell.core.objective import Reconstruction
from tell.core.schedule import cosine_rate
from tell.estimators.deep.recipes.recipe import Stage, Task, check_counts
from tell.estimators.deep.recipes.start import Start, batch_rows

RECONSTRUCT_EPOCHS = 40  # k-means on MNIST: 70 percent after 10, 80 after 40
RECONSTRUCT_STEPS = 1000


@dataclass(frozen=True)
class KMeansStart(Start):
    """Learn to reconstruct, then cluster the embedding by k-means++ and closed-form steps.

    Without a decoder there is nothing to learn: the embedding is that of the encoder as it is,
    such as a pre-trained one.

    Parameters
    ----------
    epochs : int, optional
        Of reconstruction. Default: 40, or more where few rows would give under 1,000 steps.
    seedings : int
        Draws of k-means++, of which the one that ends at the smallest clustering loss is kept.
    batch_size : int
        Smaller for few rows.
    learning_rate : float
        Of Adam, lowered to zero along a cosine.
    """

    epochs: int | None = None
    seedings: int = 10
    batch_size: int = 256
    learning_rate: float = 1e-3

    name: ClassVar[str] = "k-means++"
    tell_epochs: ClassVar[int] = 50
    # Its partition is a rough one: a faster rate and less weight leave more room to mend it.
    tell_rate: ClassVar[float] = 1e-3
    tell_gentle: ClassVar[float] = 0.03
    tell_relative_weight: ClassVar[float] = 0.45

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "seedings", "batch_size")

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the stage of reconstruction, if there is a decoder."""
        if task.model.decoder is None:
            return
        batches = task.batches(batch_rows(task, self.batch_size))
        objective = Reconstruction(task.model.encoder, task.model.decoder)
        optimizer = optim.Adam(objective.parameters(), lr=self.learning_rate, fused=True)
        epochs = self.epochs or max(
            RECONSTRUCT_EPOCHS, math.ceil(RECONSTRUCT_STEPS / batches.steps)
        )
        yield Stage("reconstruct", objective, batches, optimizer, epochs, cosine_rate)

    def place_centers(self, task: Task) -> None:
        """Put the centres where the best of several seedings ends."""
        rows = DenseRows(task.model.embed(task.x).cpu())
        found = fit_centers(rows, task.model.layer.n_clusters, n_init=self.seedings, seed=task.seed)
        task.model.layer.set_centers_(found.centers.to(task.model.layer.weight))
