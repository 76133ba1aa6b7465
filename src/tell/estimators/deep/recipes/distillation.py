"""Hand a partition over to a network that then improves it.

`L_clu` alone only attracts: it cannot move a partition that was found elsewhere into the layer. The
soft assignment of eq. 7 with a temperature above 0 also separates, so its cross-entropy to the
partition does. A network learns what most rows have in common before it learns their errors, so
once it has, the targets may follow its own assignment, and rows that stay uncertain count less
(self-adaptive training, Huang et al., 2020).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor, nn, optim

from tell.core.batches import Batch, Batches
from tell.core.layer import ClusterLayer
from tell.core.objective import Losses, Objective, squared_error
from tell.core.schedule import PartOf, one_cycle_rate
from tell.estimators.deep.model import DeepModel
from tell.estimators.deep.recipes.recipe import Stage, Task, check_counts
from tell.estimators.deep.recipes.start import Start, batches_in_memory

DISTIL_EPOCHS = 1
REFINE_EPOCHS = 3
REFINE_EPOCHS_AUGMENTED = 6


class Distillation(Objective):
    """`L_rec` + weight · cross-entropy of the soft assignment to targets that may adapt.

    Parameters
    ----------
    encoder : nn.Module
    layer : ClusterLayer
    decoder : nn.Module or None
    targets : Tensor (n, k)
        The partition; rows sum to one. It is kept as it is, not copied.
    adapting : bool
        Mix the network's assignment into a row's target whenever the row is seen.
    weight : float
        Of the cross-entropy.
    temperature : float
        τ of eq. 7.
    memory : float
        How much of a target stays when it adapts.
    decoded : float
        Share of each batch that is decoded: reconstruction needs fewer rows than clustering.

    Examples
    --------
    >>> layer = ClusterLayer(2, 2)
    >>> layer.set_centers_(torch.eye(2))
    >>> objective = Distillation(nn.Identity(), layer, None, torch.tensor([[1.0, 0.0]]))
    >>> near = objective.losses(Batch(torch.tensor([[1.0, 0.1]]), torch.tensor([0])))
    >>> far = objective.losses(Batch(torch.tensor([[0.1, 1.0]]), torch.tensor([0])))
    >>> bool(near.terms["distil"] < far.terms["distil"])
    True
    """

    targets: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        layer: ClusterLayer,
        decoder: nn.Module | None,
        targets: Tensor,
        *,
        adapting: bool = False,
        weight: float = 0.1,
        temperature: float = 0.2,
        memory: float = 0.7,
        decoded: float = 0.25,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.layer = layer
        self.decoder = decoder
        self.weight = weight
        self.temperature = temperature
        self.memory = memory
        self.decoded = decoded
        self.adapting = adapting
        self.register_buffer("targets", targets)

    def losses(self, batch: Batch) -> Losses:
        """Return the losses of the rows, moved ones if there are any."""
        x = batch.x if batch.moved is None else batch.moved
        z = self.encoder(x)
        out = self.layer(z)
        terms = {"clustering": out.loss}
        if self.decoder is not None:
            share = max(2, round(self.decoded * len(x)))  # batch statistics need two
            terms["reconstruction"] = squared_error(x[:share], self.decoder(z[:share]))
        log_assignment = torch.log_softmax(out.scores / self.temperature, dim=1)  # eq. 7
        target = self._target(batch.row, log_assignment)
        certainty = target.max(dim=1).values
        cross_entropy = -(target * log_assignment).sum(dim=1)
        terms["distil"] = cross_entropy * certainty / certainty.mean()
        return Losses(terms, out.labels)

    @torch.no_grad()
    def _target(self, row: Tensor, log_assignment: Tensor) -> Tensor:
        target = self.targets[row]
        if self.adapting:
            target = torch.lerp(log_assignment.exp(), target, self.memory)
            self.targets[row] = target
        return target

    def weights(self) -> dict[str, float]:
        """The clustering loss is reported, not minimised: the cross-entropy does its work."""
        return {"distil": self.weight, "clustering": 0.0}

    def centers(self) -> Tensor:
        """Return the layer's centres (k, p)."""
        return self.layer.centers


@dataclass(frozen=True)
class DistilledStart(Start):
    """Teach the networks a partition by distillation; then let them correct it.

    Subclasses say where the partition comes from.
    """

    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float = 3e-3
    weight: float = 0.1
    temperature: float = 0.2
    memory: float = 0.7
    distil_steps: int = 150

    takes_views: ClassVar[bool] = True
    keeps_clusters: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "batch_size")
        check_counts(self, "distil_steps", least=0)

    @abstractmethod
    def partition(self, task: Task) -> Tensor:
        """Return the soft partition (n, k) that the networks are to learn."""

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the distillation of the partition and its refinement."""
        batches = batches_in_memory(task, self.batch_size)
        targets = torch.zeros(len(task.x), task.model.layer.n_clusters, device=task.x.device)
        refine_epochs = self.epochs or (REFINE_EPOCHS_AUGMENTED if task.augment else REFINE_EPOCHS)
        distil_epochs = max(DISTIL_EPOCHS, math.ceil(self.distil_steps / batches.steps))
        handover = distil_epochs / (distil_epochs + refine_epochs)

        def prepare() -> None:
            targets.copy_(self.partition(task))
            layer = task.model.layer
            # Centres at right angles, if there is room: the network brings a cluster to each.
            layer.set_centers_(nn.init.orthogonal_(torch.empty_like(layer.weight)))

        distil = self._objective(task.model, targets, adapting=False)
        rate = PartOf(one_cycle_rate, 0.0, handover)
        stage = self._stage("distil", distil, batches, distil_epochs, rate)
        yield replace(stage, prepare=prepare, least_steps=self.distil_steps)

        refine = self._objective(task.model, targets, adapting=True)
        rate = PartOf(one_cycle_rate, handover, 1.0)
        yield self._stage("refine", refine, batches, refine_epochs, rate)

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

    def _stage(
        self, name: str, objective: Distillation, batches: Batches, epochs: int, rate: PartOf
    ) -> Stage:
        optimizer = optim.Adam(objective.parameters(), lr=self.learning_rate, fused=True)
        return Stage(name, objective, batches, optimizer, epochs, rate)
