"""Recorded runs of the layer alone, for holding the theory against what really happens."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import normalize

from tell.core.assignment import DenseRows
from tell.core.batches import Batch, Batches
from tell.core.engine import fit_centers
from tell.core.layer import ClusterLayer
from tell.core.loop import Loop
from tell.core.objective import Losses, Objective
from tell.core.theory import (
    convexity_defect,
    epsilon,
    fixed_length_limit,
    fixed_step_limit,
    gradient_limit,
    suboptimality_bound,
)

#: (step number from 0, length of the gradient) -> η_t, for a first step η.
STEP_RULES: dict[str, Callable[[float], Callable[[int, float], float]]] = {
    "fixed size": lambda eta: lambda t, length: eta,
    "fixed length": lambda eta: lambda t, length: eta / length,
    "decaying": lambda eta: lambda t, length: eta / math.sqrt(t + 1),
}


@dataclass(frozen=True)
class Descent:
    """What one run did, step by step, beside what the theory says of it.

    Attributes
    ----------
    rule, start, temperature : how it ran
    loss : mean loss before each step (T,)
    gradient : length of the gradient (T,)
    step : η_t (T,)
    defect : `convexity_defect` of each step (T,); above 0 the proof does not apply
    best_loss : smallest loss known for these rows: L*
    distance : ‖W_1 − W*‖
    epsilon, stated_epsilon : of theorem 1 as its proof has it and as it is stated, the largest over
        the run
    gradient_limit : a constant that does bound the gradient
    """

    rule: str
    start: str
    temperature: float
    loss: list[float]
    gradient: list[float]
    step: list[float]
    defect: list[float]
    best_loss: float
    distance: float
    epsilon: float
    stated_epsilon: float
    gradient_limit: float

    @property
    def gap(self) -> Tensor:
        """Best loss so far minus the best loss known (T,)."""
        return torch.tensor(self.loss, dtype=torch.float64).cummin(0).values - self.best_loss

    @property
    def bound(self) -> Tensor:
        """Theorem 2 with ε (T,): for the fixed length with the shortest steps that ε allows."""
        steps = torch.tensor(self.step)
        if self.rule == "fixed length":
            steps = steps * torch.tensor(self.gradient) / self.epsilon
        return suboptimality_bound(steps, self.epsilon, self.distance)

    @property
    def limit(self) -> float:
        """Where that bound goes for endlessly many steps: lemma 1, lemma 2, or 0."""
        if self.rule == "fixed size":
            return fixed_step_limit(self.step[0], self.epsilon)
        if self.rule == "fixed length":
            return fixed_length_limit(self.step[0] * self.gradient[0], self.epsilon)
        return 0.0

    @property
    def sharp_bound(self) -> Tensor:
        """Theorem 2 with the gradients that were really met: what it claims at its sharpest."""
        lengths = torch.tensor(self.gradient)
        return suboptimality_bound(torch.tensor(self.step), lengths, self.distance)

    def verdict(self) -> dict[str, Any]:
        """Say in numbers what held."""
        return {
            "rule": self.rule,
            "start": self.start,
            "temperature": self.temperature,
            "epsilon": self.epsilon,
            "stated_epsilon": self.stated_epsilon,
            "largest_gradient": max(self.gradient),
            "gradient_limit": self.gradient_limit,
            "gap": float(self.gap[-1]),
            "bound": float(self.bound[-1]),
            "limit": self.limit,
            "sharp_bound": float(self.sharp_bound[-1]),
            "below_bound": bool((self.gap <= self.bound).all()),
            "below_sharp_bound": bool((self.gap <= self.sharp_bound).all()),
            "not_convex": sum(d > 1e-6 for d in self.defect) / len(self.defect),
        }

    def curve(self, points: int = 60) -> dict[str, list[float]]:
        """The gap and both bounds at some steps, evenly spread on a logarithmic axis."""
        places = np.unique(np.geomspace(1, len(self.loss), points).round().astype(int))
        lines = {"gap": self.gap, "bound": self.bound, "sharp_bound": self.sharp_bound}
        found = {name: line[places - 1].tolist() for name, line in lines.items()}
        return {"step": places.tolist()} | {
            name: [float(f"{value:.6g}") for value in values] for name, values in found.items()
        }


class LayerAlone(Objective):
    """The layer's loss on fixed rows, with steps chosen by a rule and everything written down.

    The rule's η_t is put into the gradient, so that plain SGD with rate 1 makes the step.
    """

    def __init__(self, layer: ClusterLayer, rule: Callable[[int, float], float]) -> None:
        super().__init__()
        self.layer = layer
        self.rule = rule
        self.trace: list[tuple[float, float, float]] = []  # loss, gradient length, step
        self.path: list[tuple[Tensor, Tensor]] = []  # W_t, ∇L_t
        self.largest_score = torch.zeros(())  # |Wᵀx − 2|
        self.largest_product = torch.zeros(())  # |Wᵀx|
        self._loss = math.nan

    def losses(self, batch: Batch) -> Losses:
        """Return the clustering loss of every row."""
        out = self.layer(batch.x)
        self._loss = float(out.loss.detach().mean())
        scores = out.scores.detach()
        self.largest_score = torch.maximum(self.largest_score, scores.abs().max())
        self.largest_product = torch.maximum(self.largest_product, (scores + 2).abs().max())
        return Losses({"clustering": out.loss}, out.labels)

    def gradients_ready(self) -> None:
        """Write down W_t and ∇L_t, then turn the gradient into the rule's step."""
        gradient = self.layer.weight.grad
        if gradient is None:
            return
        length = float(gradient.norm())
        step = self.rule(len(self.trace), length)
        self.trace.append((self._loss, length, step))
        self.path.append((self.layer.weight.detach().clone(), gradient.clone()))
        gradient.mul_(step)

    @property
    def end(self) -> Tensor:
        """The centres (k, d) before the last step."""
        return self.path[-1][0] / 2


def starting_layer(
    x: Tensor, n_clusters: int, start: str, *, temperature: float = 0.0, seed: int = 0
) -> ClusterLayer:
    """Build the layer of a run: figure 2(b), because the rule alone decides on the step.

    It starts from random directions ("kaiming", the paper) or from random rows ("rows").
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layer = ClusterLayer(
            x.shape[1],
            n_clusters,
            temperature=temperature,
            normalize_gradient=False,
            dtype=x.dtype,
        )
        if start == "rows":
            layer.set_centers_(x[torch.randperm(len(x))[:n_clusters]])
    return layer


def descend(
    x: Tensor,
    layer: ClusterLayer,
    *,
    rule: str,
    eta: float,
    steps: int,
    reference: Tensor,
    start: str = "given",
) -> Descent:
    """Run the layer alone on rows x (n, d) and hold it against the theory.

    W* is the better of the centres `reference` (k, d) and the run's own end. `start` only says
    where the layer comes from.

    Examples
    --------
    >>> x = torch.tensor([[1.0, 0.1], [1.0, -0.1], [0.1, 1.0], [-0.1, 1.0]], dtype=torch.float64)
    >>> layer = starting_layer(x, 2, "rows")
    >>> run = descend(x, layer, rule="fixed size", eta=0.1, steps=20, reference=best_centers(x, 2))
    >>> run.verdict()["below_bound"]
    True
    """
    objective = walk(x, layer, rule=rule, eta=eta, steps=steps)
    return judged(x, objective, [reference, objective.end], rule=rule, start=start)


def walk(x: Tensor, layer: ClusterLayer, *, rule: str, eta: float, steps: int) -> LayerAlone:
    """Run the layer alone, with everything written down."""
    objective = LayerAlone(layer, STEP_RULES[rule](eta))
    sgd = torch.optim.SGD(objective.parameters(), lr=1.0)
    Loop(objective, Batches(x, len(x)), sgd, epochs=steps).run()
    return objective


def judged(
    x: Tensor, objective: LayerAlone, candidates: Sequence[Tensor], *, rule: str, start: str
) -> Descent:
    """Hold a run against the theory.

    W* is the best of the candidates (k, d), numbered so that it lies as near to W_1 as possible.
    """
    layer, first = objective.layer, objective.path[0][0]
    best_loss, centers = _best(x, layer, candidates)
    best_weight = _as_near_as_possible(2 * centers, first)
    loss, gradient, step = (list(column) for column in zip(*objective.trace, strict=True))
    return Descent(
        rule=rule,
        start=start,
        temperature=layer.temperature,
        loss=loss,
        gradient=gradient,
        step=step,
        defect=[
            convexity_defect(value, slope, weight, best_loss, best_weight)
            for value, (weight, slope) in zip(loss, objective.path, strict=True)
        ],
        best_loss=best_loss,
        distance=float((first - best_weight).norm()),
        epsilon=epsilon(objective.largest_score, layer.temperature),
        stated_epsilon=epsilon(objective.largest_product, layer.temperature),
        gradient_limit=gradient_limit(layer.n_clusters, layer.temperature),
    )


def best_centers(x: Tensor, n_clusters: int) -> Tensor:
    """Centres (k, d) of the smallest loss in ten restarts of the engine."""
    rows = DenseRows(normalize(x, dim=1))
    return fit_centers(rows, n_clusters, n_init=10, seed=0).centers.to(x.dtype)


@torch.no_grad()
def _best(x: Tensor, layer: ClusterLayer, candidates: Sequence[Tensor]) -> tuple[float, Tensor]:
    """The smallest loss of the layer's kind among sets of centres (k, d), and these centres."""

    def loss_of(centers: Tensor) -> float:
        layer.set_centers_(centers)
        return float(layer(x).loss.mean())

    return min(((loss_of(centers), centers) for centers in candidates), key=lambda pair: pair[0])


def _as_near_as_possible(weight: Tensor, to: Tensor) -> Tensor:
    """Renumber centres: every order of W* is an optimum, and the nearest gives the least bound."""
    rows, columns = linear_sum_assignment(torch.cdist(to, weight).square().numpy())
    return weight[torch.as_tensor(columns)[torch.as_tensor(rows).argsort()]]
