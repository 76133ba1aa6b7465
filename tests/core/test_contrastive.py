"""Telling rows apart by two moved copies: by hand, by numerical gradients, and what is learned."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tell.core.batches import Batch, Batches
from tell.core.contrastive import InstanceDiscrimination, contrast
from tell.core.loop import Loop
from tell.exceptions import InputError


def test_the_value_by_hand() -> None:
    first = np.array([[1.0, 0.0], [0.0, 2.0]])
    second = np.array([[0.6, 0.8], [0.0, 1.0]])
    views = np.concatenate([first / [[1], [2]], second])
    cosines = views @ views.T / 0.5

    def cross_entropy(view: int, partner: int) -> float:
        others = [cosines[view, other] for other in range(4) if other != view]
        return float(np.log(np.exp(others).sum()) - cosines[view, partner])

    expected = [
        (cross_entropy(0, 2) + cross_entropy(2, 0)) / 2,
        (cross_entropy(1, 3) + cross_entropy(3, 1)) / 2,
    ]
    found = contrast(torch.from_numpy(first), torch.from_numpy(second), temperature=0.5)
    assert found.tolist() == pytest.approx(expected, rel=1e-6)


@given(st.integers(2, 20), st.integers(1, 5), st.integers(0, 10_000))
def test_lengths_and_the_order_of_views_do_not_matter(b: int, p: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    first, second = torch.randn(2, b, p, generator=draw)
    found = contrast(first, second)
    assert bool((found >= 0).all())
    assert torch.allclose(found, contrast(3 * second, first), atol=1e-4)


def test_views_that_are_all_alike_cost_a_blind_choice() -> None:
    same = torch.ones(8, 3)
    assert contrast(same, same).tolist() == pytest.approx([math.log(15)] * 8)


def test_its_gradient_is_that_of_finite_differences() -> None:
    torch.manual_seed(0)
    first, second = (torch.randn(4, 3, dtype=torch.float32) for _ in range(2))
    first.requires_grad_()
    contrast(first, second, 0.5).mean().backward()
    assert first.grad is not None
    step = 1e-2
    for index in ((0, 0), (2, 1), (3, 2)):
        moved = [first.detach().clone() for _ in range(2)]
        moved[0][index] += step
        moved[1][index] -= step
        up, down = (float(contrast(value, second, 0.5).mean()) for value in moved)
        assert float(first.grad[index]) == pytest.approx((up - down) / (2 * step), abs=1e-3)


def test_rows_without_copies_are_refused() -> None:
    objective = InstanceDiscrimination(nn.Identity())
    with pytest.raises(InputError, match="must move rows"):
        objective.losses(Batch(torch.ones(2, 2), torch.arange(2)))


def test_it_learns_what_copies_share() -> None:
    torch.manual_seed(0)
    kind = torch.arange(256) % 4
    # Two columns say what a row is, as angles; six more change from copy to copy.
    angle = kind * math.pi / 2
    x = torch.cat([torch.stack([angle.cos(), angle.sin()], 1), torch.zeros(256, 6)], dim=1)

    def shake(rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        noise = torch.randn(rows[:, 2:].shape, generator=generator)
        return torch.cat([rows[:, :2], 3 * noise], dim=1)

    network = nn.Linear(8, 2, bias=False)
    batches = Batches(x, 64, seed=0, augment=shake, partners=torch.arange(256)[:, None])
    objective = InstanceDiscrimination(network)
    rule = torch.optim.Adam(objective.parameters(), lr=0.02)
    history = Loop(objective, batches, rule, epochs=30).run()
    assert history[-1]["contrast"] < history[0]["contrast"] - 0.5
    weight = network.weight.detach().abs()
    assert weight[:, 2:].max() < 0.1 * weight[:, :2].max()
