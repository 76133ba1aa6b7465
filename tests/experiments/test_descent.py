"""Real runs of the layer alone, held against the theory."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from tell.experiments.descent import STEP_RULES, best_centers, descend, starting_layer


@pytest.fixture(scope="module")
def digits() -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(load_digits().data[:300]), dim=1)


@pytest.fixture(scope="module")
def reference(digits: torch.Tensor) -> torch.Tensor:
    return best_centers(digits, 10)


@pytest.mark.parametrize("temperature", [0.0, 0.1])
@pytest.mark.parametrize(
    ("rule", "eta"), [("fixed size", 0.2), ("fixed length", 0.1), ("decaying", 1.0)]
)
def test_recorded_runs_stay_below_epsilon_and_the_bound(
    digits: torch.Tensor, reference: torch.Tensor, rule: str, eta: float, temperature: float
) -> None:
    layer = starting_layer(digits, 10, "kaiming", temperature=temperature)
    run = descend(digits, layer, rule=rule, eta=eta, steps=60, reference=reference)
    assert max(run.gradient) <= run.epsilon
    assert max(run.gradient) <= run.gradient_limit
    assert bool((run.gap <= run.bound).all())
    assert float(run.bound[-1]) >= run.limit >= 0
    assert run.loss[-1] < run.loss[0]


def test_steps_follow_their_rule() -> None:
    assert [STEP_RULES["fixed size"](0.3)(t, 7.0) for t in (0, 9)] == [0.3, 0.3]
    assert STEP_RULES["fixed length"](0.3)(5, 2.0) == pytest.approx(0.15)
    assert STEP_RULES["decaying"](0.3)(8, 2.0) == pytest.approx(0.1)


def test_the_bound_breaks_in_a_poor_optimum() -> None:
    """One centre between two groups, the other behind: nothing ever moves, the claim falls on."""
    x = torch.eye(2, dtype=torch.float64).repeat(5, 1)
    layer = starting_layer(x, 2, "kaiming")
    layer.set_centers_(torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64))
    best = torch.eye(2, dtype=torch.float64)
    run = descend(x, layer, rule="fixed size", eta=0.2, steps=200, reference=best)
    assert run.best_loss == pytest.approx(0, abs=1e-12)
    assert float(run.gap[-1]) == pytest.approx(2 - 2**0.5)  # 2 − 2 cos 45°
    assert float(run.sharp_bound[-1]) < 0.3
    assert all(defect > 0 for defect in run.defect)  # concave: turned round in every step
    assert not run.verdict()["below_sharp_bound"]


def test_the_distance_is_that_to_the_nearest_numbering(
    digits: torch.Tensor, reference: torch.Tensor
) -> None:
    distances = [
        descend(
            digits,
            starting_layer(digits, 10, "rows"),
            rule="fixed size",
            eta=0.1,
            steps=2,
            reference=centers,
        ).distance
        for centers in (reference, reference.flip(0))
    ]
    assert distances[0] == pytest.approx(distances[1])
