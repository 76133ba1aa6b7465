"""What the paper's theory promises for this model: theorem 2's bound, with its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tell.core.theory import epsilon, fixed_length_limit, suboptimality_bound
from tell.explanations.view import Floats, ModelView

#: The paper moves every row of W, of length 2, by a tenth of its length per step.
STEP_PER_ROW = 0.2
#: Two rows of W are at most this far apart: opposite unit vectors, doubled.
FARTHEST_ROWS = 4.0


@dataclass(frozen=True, eq=False)
class Guarantee:
    """Theorem 2 for gradient steps of the paper's fixed length, from the worst possible start.

    Attributes
    ----------
    epsilon : ε of theorem 1 on the sampled rows
    step_length : length of one step of all centres together
    bound : best loss so far minus best loss is at most this, after each step
    limit : where the bound goes (lemma 2)
    """

    epsilon: float
    step_length: float
    bound: tuple[float, ...]
    limit: float


def guarantee(view: ModelView, Z: Floats, n_steps: int) -> Guarantee | None:
    """Theorem 2 for a model on the sphere and its layer rows (n, p); None where it says nothing.

    The proof speaks about the layer alone on fixed rows, so not about a deep model, and it takes
    the loss for convex, which holds only while no assignment changes.
    """
    if view.kind != "tell" or not view.on_sphere or n_steps < 1:
        return None
    rows = math.sqrt(view.n_clusters)
    scores = torch.from_numpy(-view.squared_distances(Z))
    found = epsilon(scores, view.temperature)
    if found == 0:  # every row lies on its centre: there is nothing left to gain
        return None
    length = STEP_PER_ROW * rows
    steps = torch.full((n_steps,), length / found, dtype=torch.float64)
    bound = suboptimality_bound(steps, found, distance=FARTHEST_ROWS * rows)
    return Guarantee(found, length, tuple(bound.tolist()), fixed_length_limit(length, found))
