"""Distillation: hand-computed loss, targets that adapt on time, a partition that arrives."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from tell.core.batches import Batch, Batches
from tell.core.layer import ClusterLayer
from tell.core.loop import Loop
from tell.estimators.deep.recipes.distillation import Distillation


def on_the_axes(**options: Any) -> Distillation:
    layer = ClusterLayer(2, 2)
    layer.set_centers_(torch.eye(2))
    targets = torch.tensor([[1.0, 0.0], [0.4, 0.6]])
    return Distillation(nn.Identity(), layer, None, targets, temperature=0.5, **options)


def test_cross_entropy_by_hand() -> None:
    objective = on_the_axes()
    losses = objective.losses(Batch(torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.arange(2)))
    # Squared distances of (1, 0) to the centres are 0 and 2; eq. 7 with τ = 0.5.
    near, far = 1 / (1 + math.exp(-4)), math.exp(-4) / (1 + math.exp(-4))
    by_hand = [-math.log(near), -(0.4 * math.log(near) + 0.6 * math.log(far))]
    certainty = [1.0, 0.6]
    expected = [c * w / 0.8 for c, w in zip(by_hand, certainty, strict=True)]
    assert losses.terms["distil"].tolist() == pytest.approx(expected, rel=1e-4)
    total = objective.weighted_sum(losses)
    assert total.item() == pytest.approx(0.1 * sum(expected) / 2, rel=1e-4)


def test_targets_adapt_if_they_may() -> None:
    batch = Batch(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    objective = on_the_axes()
    objective.losses(batch)
    assert objective.targets[1].tolist() == pytest.approx([0.4, 0.6])
    objective = on_the_axes(adapting=True, memory=0.7)
    objective.losses(batch)
    near = 1 / (1 + math.exp(-4))
    assert objective.targets[1].tolist() == pytest.approx([0.28 + 0.3 * near, 0.72 - 0.3 * near])
    assert objective.targets[0].tolist() == [1.0, 0.0]


def test_a_partition_arrives_in_the_layer() -> None:
    torch.manual_seed(0)
    x = torch.randn(200, 4)
    wanted = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    encoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 4))
    targets = nn.functional.one_hot(wanted, 4).float()
    objective = Distillation(encoder, ClusterLayer(4, 4), None, targets)
    optimizer = torch.optim.Adam(objective.parameters(), lr=1e-2)
    history = Loop(objective, Batches(x, 50), optimizer, epochs=60).run()
    labels = objective.layer(encoder(x)).labels
    assert (labels == wanted).float().mean() > 0.95
    assert history[-1]["distil"] < 0.3 * history[0]["distil"]
