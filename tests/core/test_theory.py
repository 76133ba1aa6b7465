"""Hand-computed values of the theorems, their limits, and where they fail."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tell.core.layer import ClusterLayer
from tell.core.theory import (
    convexity_defect,
    epsilon,
    fixed_length_limit,
    fixed_step_limit,
    gradient_limit,
    suboptimality_bound,
)
from tell.exceptions import InputError, ParameterError


def gradient(layer: ClusterLayer, x: torch.Tensor) -> torch.Tensor:
    (found,) = torch.autograd.grad(layer(x).loss.mean(), layer.weight)
    return found


def test_epsilon_by_hand() -> None:
    # z = (Wᵀx − 2)/τ = (−2, −8): ε = 0.5 + 2 · 0.5 · 8.
    assert epsilon(torch.tensor([[-1.0, -4.0]]), temperature=0.5) == 8.5
    assert epsilon(torch.tensor([[-1.0, -4.0]]), temperature=0.0) == 8.0


def test_epsilon_on_the_sphere_is_at_most_tau_plus_eight() -> None:
    torch.manual_seed(0)
    scores = ClusterLayer(6, 5)(torch.randn(100, 6)).scores.detach()
    assert epsilon(scores, 0.3) <= 0.3 + 8


def test_bad_input_is_named() -> None:
    with pytest.raises(ParameterError, match="temperature must be at least 0"):
        epsilon(torch.zeros(1, 1), -1.0)
    with pytest.raises(InputError, match="at least one row"):
        epsilon(torch.zeros(0, 3), 1.0)
    with pytest.raises(InputError, match="above 0"):
        suboptimality_bound(torch.tensor([0.1, 0.0]), 1.0, 1.0)
    for gradients in (torch.ones(3), torch.tensor([1.0, torch.nan])):
        with pytest.raises(InputError, match="one finite number or one for each of the 2 steps"):
            suboptimality_bound(torch.tensor([0.1, 0.1]), gradients, 1.0)
    with pytest.raises(ParameterError, match="n_clusters must be at least 1"):
        gradient_limit(0, 0.1)


def test_gradient_with_respect_to_z_stays_below_epsilon() -> None:
    """What the proof of theorem 1 bounds: the derivative of −τ Σ p_i z_i with respect to z."""
    torch.manual_seed(1)
    for temperature in (0.05, 0.5, 3.0):
        z = (10 * torch.randn(50, 4)).requires_grad_()
        loss = -temperature * (torch.softmax(z, dim=1) * z).sum(dim=1)
        (slope,) = torch.autograd.grad(loss.sum(), z)
        for row, length in zip(z.detach(), slope.norm(dim=1), strict=True):
            assert float(length) <= epsilon(row[None] * temperature, temperature)


@pytest.mark.parametrize(
    ("row", "shift"),
    [
        ([1.0, 0.0], 0.0),  # on its only centre: z = (Wᵀx − 2)/τ = 0, as the proof has it
        ([0.0, 1.0], 2.0),  # orthogonal to it: z = Wᵀx/τ = 0, as it is stated
    ],
)
def test_neither_epsilon_bounds_the_gradient_in_w(row: list[float], shift: float) -> None:
    """A single centre: ε = τ, but the gradient with respect to W is −x, of length 1."""
    layer = ClusterLayer(2, 1, temperature=0.1)
    layer.set_centers_(torch.tensor([[1.0, 0.0]]))
    x = torch.tensor([row])
    length = float(gradient(layer, x).norm())
    assert length == pytest.approx(1.0)
    assert epsilon(layer(x).scores.detach() + shift, 0.1) == pytest.approx(0.1, abs=1e-6) != length
    assert length <= gradient_limit(1, 0.1)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(1, 30),
    temperature=st.sampled_from([0.0, 1e-3, 0.03, 0.3, 2.0, 50.0]),
)
def test_gradient_limit_holds_for_any_rows_centres_and_temperature(
    seed: int, k: int, temperature: float
) -> None:
    torch.manual_seed(seed)
    layer = ClusterLayer(5, k, temperature=temperature, dtype=torch.float64)
    x = torch.randn(7, 5, dtype=torch.float64)
    assert float(gradient(layer, x).norm()) <= gradient_limit(k, temperature) + 1e-9


def test_bound_by_hand() -> None:
    # (3² + 2² (0.5² + 0.25²)) / (2 (0.5 + 0.25)) = 10.25 / 1.5.
    bound = suboptimality_bound(torch.tensor([0.5, 0.25]), 2.0, distance=3.0)
    assert bound.tolist() == pytest.approx([10.0, 10.25 / 1.5])


def test_lemma_1_is_the_limit_of_a_fixed_step_size() -> None:
    bound = suboptimality_bound(torch.full((200_000,), 0.1), 2.0, distance=5.0)
    assert float(bound[-1]) == pytest.approx(fixed_step_limit(0.1, 2.0), rel=1e-2)
    assert bool((bound.diff() < 0).all())


def test_lemma_2_is_the_limit_of_a_fixed_step_length() -> None:
    gradients = torch.full((200_000,), 2.0)  # the longest that ε = 2 allows
    bound = suboptimality_bound(0.1 / gradients, gradients, distance=5.0)
    assert float(bound[-1]) == pytest.approx(fixed_length_limit(0.1, 2.0), rel=2e-2)


def test_decaying_steps_have_no_radius() -> None:
    t = torch.arange(1, 1_000_000, dtype=torch.float64)
    bound = suboptimality_bound(1 / t.sqrt(), 2.0, distance=5.0)
    assert float(bound[-1]) < 0.05 < float(bound[1000])


def test_bound_holds_for_a_convex_function() -> None:
    """|w| with subgradient steps: convex, so theorem 2 must hold at every step."""
    w, steps, values = 3.0, [], []
    for t in range(500):
        values.append(abs(w))
        steps.append(0.5 / math.sqrt(t + 1))
        w -= steps[-1] * math.copysign(1.0, w)
    best = torch.tensor(values).cummin(0).values
    assert bool((best <= suboptimality_bound(torch.tensor(steps), 1.0, distance=3.0)).all())


def test_the_hard_loss_is_concave_in_w() -> None:
    """The inequality that theorem 2 takes from convexity is turned round, for any two weights."""
    torch.manual_seed(0)
    layer = ClusterLayer(4, 3, normalize_weight=False, dtype=torch.float64)
    x = torch.randn(40, 4, dtype=torch.float64)
    for _ in range(20):
        layer.set_centers_(torch.randn(3, 4, dtype=torch.float64))
        here, slope = layer.weight.detach().clone(), gradient(layer, x)
        loss = float(layer(x).loss.detach().mean())
        layer.set_centers_(torch.randn(3, 4, dtype=torch.float64))
        there, best = layer.weight.detach().clone(), float(layer(x).loss.detach().mean())
        assert convexity_defect(loss, slope, here, best, there) >= -1e-9
