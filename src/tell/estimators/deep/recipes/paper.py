"""The paper's procedure with the details of the authors' program (section 4.1, tables 4 to 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import nn, optim

from tell.core.batches import Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Record
from tell.core.objective import PAPER_WEIGHT, Clustering, Objective, Reconstruction
from tell.core.schedule import ALTERNATIONS, Alternation, Always
from tell.estimators.deep.recipes.recipe import Recipe, Stage, Task, check_counts
from tell.exceptions import ParameterError


@dataclass(frozen=True)
class PaperRecipe(Recipe):
    """End to end from random weights, as published.

    Parameters
    ----------
    epochs : int
        Of every stage.
    n_init : int
        Runs; the one with the smallest clustering loss is kept.
    batch_size : int
        The last, incomplete batch of an epoch is dropped.
    optimizer : {"adadelta", "adam"}
        With its default settings (table 6).
    normalize_gradient : bool
        Scale each centre's gradient to 10 % of its length; False is the ablation of table 6.
    alternation : {"epoch", "batch", "always"}
        Who feels the clustering loss: centres and encoder in turn, or both in every step.
    idle_centers : {"decay", "skip"}
        What the optimiser does for the centres on the encoder's turn: see
        `tell.core.objective.Clustering`.
    two_stage : bool
        Learn the features by reconstruction alone, fix them, then move the centres only
        (tables 4 and 5).
    weight : float
        λ, in the means of the authors' program.

    Examples
    --------
    >>> PaperRecipe(optimizer="adam", normalize_gradient=False).epochs
    3000
    """

    epochs: int = 3000
    n_init: int = 5
    batch_size: int = 256
    optimizer: str = "adadelta"
    normalize_gradient: bool = True
    alternation: str = "epoch"
    idle_centers: str = "decay"
    two_stage: bool = False
    weight: float = PAPER_WEIGHT

    name: ClassVar[str] = "paper"
    table_network: ClassVar[str] = "fcn"

    def __post_init__(self) -> None:
        check_counts(self, "epochs", "n_init", "batch_size")
        choices = {
            "optimizer": ("adadelta", "adam"),
            "alternation": tuple(ALTERNATIONS),
            "idle_centers": ("decay", "skip"),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                raise ParameterError(
                    f"{name}={value!r} must be one of {', '.join(map(repr, allowed))}; pass one"
                )

    @property
    def minimised(self) -> tuple[str, ...]:
        """Eq. 15, or with two stages the clustering loss of features that are fixed by then."""
        return ("clustering",) if self.two_stage else ("reconstruction", "clustering")

    def weight_of(self, history: Sequence[Record]) -> float:
        """λ as it was given."""
        return self.weight

    def layer(self, embedding_dim: int, n_clusters: int) -> ClusterLayer:
        """Build the layer at the scale that the optimiser needs."""
        # Adadelta's ε of 1e-6 swamps gradients of size 0.2α, so its first steps are about plain
        # gradient descent of rate 1. Adam's step does not depend on the gradient's size: scaled
        # weights would be thrown about by it.
        alpha = 0.001 if self.optimizer == "adadelta" else 1.0
        return ClusterLayer(
            embedding_dim, n_clusters, alpha=alpha, normalize_gradient=self.normalize_gradient
        )

    def stages(self, task: Task) -> Iterator[Stage]:
        """Give the one stage of the paper, or the two of its ablation."""
        encoder, decoder, layer = task.model.encoder, task.model.decoder, task.model.layer
        batches = task.batches(self.batch_size)
        if not self.two_stage:
            alternation = ALTERNATIONS[self.alternation]()
            yield self._stage(
                "train", self._clustering(encoder, layer, decoder, alternation), batches
            )
            return
        if decoder is not None:
            yield self._stage("features", Reconstruction(encoder, decoder), batches)
        fixed = task.batches(self.batch_size, embedded=True)
        centers_only = Always(encoder=False)
        yield self._stage(
            "centers", self._clustering(nn.Identity(), layer, None, centers_only), fixed
        )

    def _clustering(
        self,
        encoder: nn.Module,
        layer: ClusterLayer,
        decoder: nn.Module | None,
        alternation: Alternation,
    ) -> Clustering:
        return Clustering(
            encoder,
            layer,
            decoder,
            alternation=alternation,
            weight=self.weight,
            idle_centers=self.idle_centers,
        )

    def _stage(self, name: str, objective: Objective, batches: Batches) -> Stage:
        weights = objective.parameters()
        rule: optim.Optimizer
        if self.optimizer == "adadelta":
            rule = optim.Adadelta(weights)
        else:
            rule = optim.Adam(weights, fused=True)
        return Stage(name, objective, batches, rule, self.epochs)
