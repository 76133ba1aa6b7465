"""The start for photographs: learn which rows are neighbours before looking for clusters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor, nn, optim

from tell.core.autoencoder import UnitLength
from tell.core.contrastive import TEMPERATURE, InstanceDiscrimination
from tell.core.evaluation import in_blocks
from tell.core.schedule import one_cycle_rate
from tell.estimators.deep.recipes.communities import GraphChoice
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.partition import find_graph
from tell.estimators.deep.recipes.recipe import AllRows, Stage, Task
from tell.estimators.deep.recipes.start import batches_of_pairs
from tell.exceptions import ParameterError

EPOCHS = 20
PROJECTED = 128
LEAST_STEPS = 300  # where few rows would give fewer


@dataclass(frozen=True)
class ContrastiveStart(GraphStart):
    """Learn to tell every row from all others, then go on as `GraphStart` in what was learned.

    Neighbours by pixels, or by their edges, are of the same kind for digits and clothes, and rarely
    for photographs. Here the encoder first learns to find a moved copy of a row among the copies of
    other rows (SimCLR); neighbours are then near in the features before its last layer. It needs
    augmentation, which says what may be done to a row. A fit whose `max_time` ends within it knows
    no clusters.

    Parameters
    ----------
    contrast_epochs : int, optional
        Of that learning. Default: 20, or more where few rows would give under 300 steps.
    contrast_batch : int
        Rows, each with two copies; smaller for few rows.
    contrast_rate : float
        Learning rate of Adam, at the height of a cycle that starts and ends low.
    contrast_temperature : float
        Of the cosines among copies: the smaller, the more the most similar rows count.
    epochs, batch_size, learning_rate, weight, temperature, memory, distil_steps, graph_rows
        As of `GraphStart`; `neighbours` and `layout_epochs` as well.

    Examples
    --------
    >>> from tell import DeepTELL
    >>> model = DeepTELL(10, start="contrastive", augment="crop, flip, jitter")
    """

    contrast_epochs: int | None = None
    contrast_batch: int = 512
    contrast_rate: float = 2e-3
    contrast_temperature: float = TEMPERATURE

    name: ClassVar[str] = "contrastive"
    learns_neighbours: ClassVar[bool] = True

    def shared(self, rows: AllRows) -> dict[str, Tensor]:
        """Find nothing: every run learns its own neighbours."""
        if rows.augment is None:
            raise ParameterError(
                "start='contrastive' must come with augmentation, by which it learns, got "
                "augment=None; pass augment='crop, flip, jitter' for photographs, or start='graph'"
            )
        return {}

    def count(self, shared: Mapping[str, Tensor], seed: int, most: int | None) -> GraphChoice:
        """Refuse: there are no neighbours before a model of a given size has been trained."""
        raise ParameterError(
            'n_clusters="auto" must come with neighbours that are known before the training, got '
            "start='contrastive'; pass the number, or start='graph'"
        )

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the learning of neighbours, then the stages of `GraphStart`."""
        yield self._contrast(task)
        # A run that goes on after an interruption passes here with the encoder as it was then.
        graph = find_graph(
            learned_features(task),
            task.model.layer.n_clusters,
            rows=self.graph_rows,
            neighbours=self.neighbours,
            seed=task.seed,
            visible=task.visible,
        )
        task.shared = graph._asdict()
        yield from super().stages(task)

    def _contrast(self, task: Task) -> Stage:
        itself = torch.arange(len(task.x), device=task.x.device)[:, None]
        batches = batches_of_pairs(task, self.contrast_batch, itself)
        learned = before_last(task.model.encoder)
        task.model.eval()
        width = in_blocks(learned, task.x[:2]).shape[1]
        # Rows are told apart in a projection, which may forget what the features should keep.
        projection = nn.Linear(width, PROJECTED, device=task.x.device)
        objective = InstanceDiscrimination(
            nn.Sequential(learned, projection), self.contrast_temperature
        )
        rule = optim.Adam(objective.parameters(), lr=self.contrast_rate, fused=True)
        epochs = self.contrast_epochs or max(EPOCHS, math.ceil(LEAST_STEPS / batches.steps))
        return Stage("contrast", objective, batches, rule, epochs, one_cycle_rate)


def learned_features(task: Task) -> Tensor:
    """Return unit vectors (n, f): what the encoder knows of each row before its last layer."""
    task.model.eval()
    return F.normalize(in_blocks(before_last(task.model.encoder), task.x), dim=1)


def before_last(encoder: nn.Module) -> nn.Module:
    """Return an encoder without its last linear layer: what it knows of a row, before few numbers.

    >>> before_last(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2), UnitLength()))
    Sequential(
      (0): Linear(in_features=4, out_features=3, bias=True)
      (1): ReLU()
    )
    """
    layers = list(encoder) if isinstance(encoder, nn.Sequential) else [encoder]
    if isinstance(layers[-1], UnitLength):
        layers = layers[:-1]
    if len(layers) > 1 and isinstance(layers[-1], nn.Linear):
        layers = layers[:-1]
    return nn.Sequential(*layers)
