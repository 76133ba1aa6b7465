"""The paper's convergence theory as numbers: ε of theorem 1, the bound of theorem 2, both lemmas.

Everything is stated for the layer alone on fixed rows: full gradient steps
W_{t+1} = W_t − η_t ∇L(W_t) on the mean loss. What the proofs need and the layer does not give:

- **Theorem 1** states z = Wᵀx/τ and proves z = (Wᵀx − 2)/τ, for the loss of one cluster and its
  own score. With respect to W the chain rule adds a factor ‖x‖/τ, so either ε may be too small: a
  single centre has a gradient of length 1, while ε is τ for a row on it (the proof's) or for a row
  orthogonal to it (as stated). `gradient_limit` is a constant that does hold, for every τ.
- **Theorem 2** uses L* ≥ L_t + ⟨∇L_t, W* − W_t⟩, which is convexity. The hard loss is a minimum
  of linear functions and therefore concave: the inequality is turned round, strictly so wherever W*
  assigns rows otherwise than W_t. `convexity_defect` measures by how much. So the bound limits the
  distance to the best loss only as long as a run does not settle in a poor local optimum.
- **The sphere** is not in the recursion of the proof. Without it the loss has no minimum at all
  (figure 2a); with it every step ends with a projection onto a set that is not convex.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tell.exceptions import InputError, ParameterError


def epsilon(scores: Tensor, temperature: float) -> float:
    """Return ε = τ + 2τ max|z| of theorem 1.

    Parameters
    ----------
    scores : Tensor (n, k)
        τz: Wᵀx − 2 as in its proof (the `scores` of the layer on the sphere, minus the squared
        distances), or Wᵀx as it is stated.
    temperature : float
        τ; at 0 the limit is taken.

    Examples
    --------
    >>> epsilon(torch.tensor([[-0.5, -3.0]]), temperature=0.25)
    6.25
    """
    if not (temperature >= 0 and math.isfinite(temperature)):
        raise ParameterError(f"temperature must be at least 0 (0 = hard), got {temperature}")
    if not scores.numel():
        raise InputError("scores must hold at least one row and one centre, got none")
    return float(temperature + 2 * scores.abs().max())


def gradient_limit(n_clusters: int, temperature: float, longest_row: float = 1.0) -> float:
    """Return a length that ‖∇L(W)‖ never exceeds, whatever rows, centres and τ are.

    With p = I(x) and entropy H(p), the gradient of one row's loss with respect to W_i is
    −p_i (1 + ln p_i + H) x, because z_i − Σ_j p_j z_j = ln p_i + H. These factors add up to 1 and
    the negative ones to at least −H, so their absolute sum is at most 1 + 2H ≤ 1 + 2 ln k. At
    τ = 0 only the own centre has a gradient, −x.

    Examples
    --------
    >>> gradient_limit(10, temperature=0.0)
    1.0
    >>> round(gradient_limit(10, temperature=0.1), 2)
    5.61
    """
    if n_clusters < 1:
        raise ParameterError(f"n_clusters must be at least 1, got {n_clusters}")
    factor = 1.0 if temperature == 0 else 1 + 2 * math.log(n_clusters)
    return factor * longest_row


def suboptimality_bound(steps: Tensor, gradients: Tensor | float, distance: float) -> Tensor:
    """Return the bound of theorem 2 on (best loss so far − best loss) after each of T steps.

    (‖W_1 − W*‖² + Σ η_t² g_t²) / (2 Σ η_t), in which g_t is ε, the same for all steps as the paper
    writes it, or the gradient length of each step, which lemma 2 needs.

    Parameters
    ----------
    steps : Tensor (T,)
        η_1, …, η_T, all above 0.
    gradients : float or Tensor (T,)
    distance : float
        ‖W_1 − W*‖_F.

    Returns
    -------
    Tensor (T,), float64

    Examples
    --------
    >>> suboptimality_bound(torch.tensor([0.5, 0.25]), 2.0, distance=3.0).tolist()
    [10.0, 6.833333333333333]
    """
    eta = torch.as_tensor(steps, dtype=torch.float64)
    if eta.ndim != 1 or not bool((eta > 0).all()):
        raise InputError("steps must be a list of numbers above 0; leave out steps of length 0")
    lengths = torch.as_tensor(gradients, dtype=torch.float64)
    if lengths.shape not in (eta.shape, ()) or not bool(lengths.isfinite().all()):
        raise InputError(
            f"gradients must be one finite number or one for each of the {len(eta)} steps, got "
            f"shape {tuple(lengths.shape)}"
        )
    way = (eta * lengths).square().cumsum(0)
    return (distance**2 + way) / (2 * eta.cumsum(0))


def fixed_step_limit(step: float, epsilon: float) -> float:
    """Return ηε²/2: where the bound goes for the fixed step size η_t = η (lemma 1).

    >>> fixed_step_limit(0.1, epsilon=2.0)
    0.2
    """
    return step * epsilon**2 / 2


def fixed_length_limit(length: float, epsilon: float) -> float:
    """Return ηε/2: where the bound goes for the fixed step length η_t = η/‖∇L_t‖ (lemma 2).

    >>> fixed_length_limit(0.1, epsilon=2.0)
    0.1
    """
    return length * epsilon / 2


def convexity_defect(
    loss: float, gradient: Tensor, weight: Tensor, best_loss: float, best_weight: Tensor
) -> float:
    """Return L_t + ⟨∇L_t, W* − W_t⟩ − L*: above 0, the step breaks theorem 2's assumption.

    Parameters
    ----------
    loss, gradient, weight : L_t, ∇L_t (k, d) and W_t (k, d)
    best_loss, best_weight : L* and W* (k, d)

    Examples
    --------
    >>> convexity_defect(1.0, torch.tensor([[2.0]]), torch.tensor([[1.0]]), 0.0, torch.zeros(1, 1))
    -1.0
    """
    return loss + float((gradient * (best_weight - weight)).sum()) - best_loss
