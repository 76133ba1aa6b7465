"""Losses per sample, who feels them, and the printed normalisation."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tell.core.batches import Batch
from tell.core.layer import ClusterLayer
from tell.core.objective import Clustering, squared_error, table_loss
from tell.core.schedule import Always, ByBatch, ByEpoch, Feels, constant_rate, cosine_rate
from tell.exceptions import InputError


def linear_objective(alternation: object) -> Clustering:
    torch.manual_seed(0)
    return Clustering(nn.Linear(3, 2), ClusterLayer(2, 2), alternation=alternation)


@pytest.mark.parametrize(
    ("alternation", "epoch", "step", "expected"),
    [
        (ByEpoch(), 0, 1, Feels(True, False)),
        (ByEpoch(), 1, 0, Feels(False, True)),
        (ByBatch(), 1, 0, Feels(True, False)),
        (ByBatch(), 0, 1, Feels(False, True)),
        (Always(), 5, 5, Feels(True, True)),
        (Always(encoder=False), 5, 5, Feels(True, False)),
    ],
)
def test_only_those_who_feel_the_loss_get_a_gradient(alternation, epoch, step, expected) -> None:
    objective = linear_objective(alternation)
    objective.begin_step(epoch, step)
    assert objective.feels == expected
    losses = objective.losses(Batch(torch.randn(5, 3), torch.arange(5)))
    objective.weighted_sum(losses).backward()
    objective.gradients_ready()
    weight = objective.encoder.weight
    assert (weight.grad is not None and bool(weight.grad.any())) == expected.encoder
    assert bool(objective.layer.weight.grad.any()) == expected.centers


def test_losses_are_per_sample_and_weighted_once() -> None:
    objective = linear_objective(Always())
    losses = objective.losses(Batch(torch.randn(5, 3), torch.arange(5)))
    assert losses.terms["clustering"].shape == (5,)
    expected = 0.01 / 2 * losses.terms["clustering"].mean()
    assert torch.equal(objective.weighted_sum(losses), expected)


def test_moved_rows_are_pulled_to_the_centre_of_the_clean_ones() -> None:
    layer = ClusterLayer(2, 2)
    layer.set_centers_(torch.eye(2))
    objective = Clustering(nn.Identity(), layer, alternation=Always())
    clean, moved = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    losses = objective.losses(Batch(clean, torch.arange(1), moved))
    assert losses.labels.tolist() == [0]
    assert losses.terms["clustering"].item() == pytest.approx(2.0)  # |e_1 - e_0|²


def test_squared_error_is_a_mean_over_pixels() -> None:
    assert squared_error(torch.zeros(2, 1, 2, 2), torch.full((2, 1, 2, 2), 3.0)).tolist() == [9, 9]


def test_table_loss_of_perfect_clusters() -> None:
    assert table_loss(0.0, 10) == pytest.approx(0.018)
    assert table_loss(2.0, 10) == pytest.approx(0.02)


def test_rates_start_full() -> None:
    assert constant_rate(0.7) == cosine_rate(0.0) == 1.0
    assert cosine_rate(0.5) == pytest.approx(0.5)


def test_squared_error_does_not_broadcast() -> None:
    x = torch.rand(3, 1, 2, 2)
    usual = squared_error(x, torch.zeros(3, 1, 2, 2))
    for shape in ((3, 2, 2), (3, 4)):
        assert torch.equal(squared_error(x, torch.zeros(shape)), usual)
    for shape in ((3, 3), (1, 1, 2, 2), (6, 2), (3, 1)):
        with pytest.raises(InputError, match="reconstruction"):
            squared_error(x, torch.zeros(shape))
