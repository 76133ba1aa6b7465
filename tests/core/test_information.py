"""Mutual information of two views: by hand, by numerical gradients, and what it likes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mutual_info_score
from torch import nn

from tell.core.batches import Batch, Batches
from tell.core.information import InvariantInformation, information, joint
from tell.core.layer import ClusterLayer
from tell.core.loop import Loop
from tell.exceptions import InputError


def assignments(rows: int, k: int, seed: int) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.softmax(2 * torch.randn(rows, k, dtype=torch.float64), dim=1)


def test_the_value_by_hand() -> None:
    first = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], dtype=torch.float64)
    second = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.5, 0.5]], dtype=torch.float64)
    both = joint(first, second)
    # Rows give (0,0), (1,1), (0,1) and a quarter of each; (0,1) is shared with (1,0).
    by_hand = [[1.25 / 4, 0.75 / 4], [0.75 / 4, 1.25 / 4]]
    assert both.tolist() == pytest.approx([pytest.approx(line) for line in by_hand])
    same, other = math.log(1.25 / 4 / 0.25), math.log(0.75 / 4 / 0.25)
    expected = [same, same, other, (same + other) / 2]
    assert information(first, second).tolist() == pytest.approx(expected)


def test_certain_labels_have_the_mutual_information_of_their_table() -> None:
    random = np.random.default_rng(0)
    one = random.integers(0, 3, 500)
    other = np.where(random.random(500) < 0.8, one, random.integers(0, 3, 500))
    first, second = np.r_[one, other], np.r_[other, one]  # the joint is symmetric
    a, b = (nn.functional.one_hot(torch.from_numpy(part), 3).double() for part in (first, second))
    assert float(information(a, b).mean()) == pytest.approx(mutual_info_score(first, second))


@given(st.integers(2, 5), st.integers(0, 10_000))
def test_it_is_between_nothing_and_log_k(k: int, seed: int) -> None:
    value = float(information(assignments(20, k, seed), assignments(20, k, seed + 1)).mean())
    assert -1e-12 <= value <= math.log(k) + 1e-12


@pytest.mark.parametrize(
    ("prior", "balance"), [(None, 1.0), ([0.2, 0.5, 0.3], 1.0), ([0.2, 0.5, 0.3], 5.0)]
)
def test_its_gradient_is_that_of_finite_differences(
    prior: list[float] | None, balance: float
) -> None:
    expected = None if prior is None else torch.tensor(prior, dtype=torch.float64)
    views = (assignments(6, 3, 0).requires_grad_(), assignments(6, 3, 1).requires_grad_())

    def loss(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return information(first, second, expected, balance=balance).mean()

    assert torch.autograd.gradcheck(loss, views)


def test_a_certain_assignment_has_a_finite_gradient() -> None:
    first = torch.eye(3).requires_grad_()
    information(first, torch.eye(3)).mean().backward()
    assert bool(first.grad.isfinite().all())


def test_an_equal_prior_is_none() -> None:
    first, second = assignments(9, 4, 0), assignments(9, 4, 1)
    equal = torch.full((4,), 0.25, dtype=torch.float64)
    torch.testing.assert_close(information(first, second, equal), information(first, second))


def test_with_a_prior_its_sizes_are_the_best_ones() -> None:
    prior = torch.tensor([0.75, 0.25], dtype=torch.float64)

    def value(sizes: list[int], expected: torch.Tensor | None) -> float:
        labels = torch.repeat_interleave(torch.arange(2), torch.tensor(sizes))
        certain = nn.functional.one_hot(labels, 2).double()
        return float(information(certain, certain, expected).mean())

    assert value([6, 2], prior) == pytest.approx(math.log(2))  # -KL(m ‖ prior) is 0
    by_hand = math.log(2) - 0.5 * math.log(0.5 / 0.75) - 0.5 * math.log(0.5 / 0.25)
    assert value([4, 4], prior) == pytest.approx(by_hand)
    assert value([6, 2], prior) > value([4, 4], prior)
    assert value([6, 2], None) < value([4, 4], None)


def test_balance_weighs_the_sizes_by_hand() -> None:
    first, second = assignments(9, 3, 0), assignments(9, 3, 1)
    prior = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    size = (first + second).mean(0) / 2
    divergence = float((size * (size / prior).log()).sum())
    one, five = (float(information(first, second, prior, balance=b).mean()) for b in (1.0, 5.0))
    assert five == pytest.approx(one - 4 * divergence)


def test_with_balance_uncertain_rows_do_not_share_one_cluster() -> None:
    # Of eight clusters of 40 rows, seven eighths of the rows get any label in their second view.
    kind = torch.arange(8).repeat_interleave(40)
    unsure = torch.arange(320) % 8 != 0
    any_label = torch.arange(320) // 8 % 8
    second = torch.where(unsure, any_label[torch.randperm(320)], kind)
    gathered = torch.where(unsure, 0, kind)  # both views in the first cluster
    prior = torch.full((8,), 1 / 8, dtype=torch.float64)

    def value(one: torch.Tensor, other: torch.Tensor, balance: float) -> float:
        a, b = (nn.functional.one_hot(part, 8).double() for part in (one, other))
        return float(information(a, b, prior, balance=balance).mean())

    assert value(gathered, gathered, 1.0) > value(kind, second, 1.0)
    assert value(gathered, gathered, 5.0) < value(kind, second, 5.0)


# --- the objective ------------------------------------------------------------------------------


def on_the_axes(decoder: nn.Module | None = None) -> InvariantInformation:
    layer = ClusterLayer(2, 2)
    layer.set_centers_(torch.eye(2))
    return InvariantInformation(nn.Identity(), layer, decoder, weight=3.0, temperature=0.5)


def test_terms_and_weights_by_hand() -> None:
    x = torch.eye(2).repeat(4, 1)
    losses = on_the_axes(nn.Linear(2, 2)).losses(Batch(x, torch.arange(8), partner=x))
    near, far = 1 / (1 + math.exp(-4)), math.exp(-4) / (1 + math.exp(-4))  # eq. 7, τ = 0.5
    same, other = near**2 + far**2, 2 * near * far
    by_hand = same * math.log(2 * same) + other * math.log(2 * other)
    assert losses.terms["views"].tolist() == pytest.approx([-by_hand] * 8, rel=1e-4)
    assert losses.terms["clustering"].tolist() == pytest.approx([0] * 8, abs=1e-6)
    assert losses.terms["reconstruction"].shape == (2,)  # a quarter of the rows
    assert losses.labels.tolist() == [0, 1] * 4
    total = on_the_axes().weighted_sum(on_the_axes().losses(Batch(x, torch.arange(8), partner=x)))
    assert total.item() == pytest.approx(-3 * by_hand, rel=1e-4)


def test_moved_rows_are_the_first_view() -> None:
    x, row = torch.eye(2), torch.arange(2)
    still = on_the_axes().losses(Batch(x, row, partner=x))
    moved = on_the_axes().losses(Batch(x, row, moved=x.flip(0), partner=x.flip(0)))
    assert moved.labels.tolist() == still.labels.flip(0).tolist()


def test_rows_without_a_partner_are_refused() -> None:
    with pytest.raises(InputError, match="partners="):
        on_the_axes().losses(Batch(torch.eye(2), torch.arange(2)))


def test_a_network_learns_from_pairs_alone() -> None:
    """Four groups, no labels: rows of a group are each other's views."""
    torch.manual_seed(1)
    x = torch.randn(400, 4)
    group = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    same = [torch.nonzero(group == number).flatten() for number in range(4)]
    partners = torch.stack([same[g][torch.randint(len(same[g]), (5,))] for g in group])
    encoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 4))
    objective = InvariantInformation(encoder, ClusterLayer(4, 4))
    objective.layer.set_centers_(torch.eye(4))
    rule = torch.optim.Adam(objective.parameters(), lr=1e-2)
    history = Loop(objective, Batches(x, 200, partners=partners), rule, epochs=40).run()
    assert history[-1]["views"] < -1.1 < history[0]["views"]  # log 4 is 1.39
    assert history[-1]["clustering"] < 0.3 * history[0]["clustering"]  # without having a weight
    labels = objective.layer(encoder(x)).labels
    purity = sum(int(torch.bincount(group[labels == c]).max()) for c in labels.unique()) / 400
    assert purity > 0.95
