"""Real runs of the layer alone, held against the theory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

from tell.reproduce.descent import STEP_RULES, best_centers, descend, starting_layer
from tell.reproduce.spec import load_scale, load_spec
from tell.reproduce.verdicts import read_verdicts, record_descents, write_verdicts


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


def test_curves_are_some_of_the_steps(digits: torch.Tensor, reference: torch.Tensor) -> None:
    layer = starting_layer(digits, 10, "rows")
    run = descend(digits, layer, rule="fixed size", eta=0.1, steps=50, reference=reference)
    curve = run.curve(points=5)
    assert curve["step"] == [1, 3, 7, 19, 50]
    assert curve["gap"] == pytest.approx([float(run.gap[t - 1]) for t in curve["step"]], rel=1e-5)


def test_the_best_loss_is_that_of_all_runs() -> None:
    spec = load_spec("theory")
    runs = record_descents(spec, replace(load_scale("smoke"), descent_steps=30))
    for temperature in spec.descent["temperatures"]:
        same = [run for run in runs if run.temperature == temperature]
        assert len({run.best_loss for run in same}) == 1
        assert same[0].best_loss <= min(loss for run in same for loss in run.loss) + 1e-12


def test_verdicts_are_read_back_unless_settings_changed_or_damaged(tmp_path: Path) -> None:
    spec, scale = load_spec("theory"), replace(load_scale("smoke"), descent_steps=5)
    assert read_verdicts(tmp_path, spec, scale) == []
    runs = record_descents(spec, scale)
    write_verdicts(tmp_path, spec, scale, runs)
    assert [v["gap"] for v in read_verdicts(tmp_path, spec, scale)] == [
        pytest.approx(float(run.gap[-1])) for run in runs
    ]
    assert read_verdicts(tmp_path, spec, replace(scale, descent_steps=6)) == []
    (file,) = tmp_path.rglob("*.json")
    file.write_text(file.read_text()[:200])
    assert read_verdicts(tmp_path, spec, scale) == []


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
