"""The adversarial view: by hand, by finite differences, and what it must leave alone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tell.core.adversarial import adversarial
from tell.core.batches import Batch, Batches
from tell.core.information import InvariantInformation, information
from tell.core.layer import ClusterLayer
from tell.core.loop import Hook, Loop
from tell.core.objective import Losses

TEMPERATURE = 0.5


def network() -> tuple[nn.Module, ClusterLayer]:
    torch.manual_seed(3)
    encoder = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    return encoder, ClusterLayer(3, 3, dtype=torch.float64)


def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return (p * (p.log() - q.log())).sum(1)


def test_the_direction_is_that_of_finite_differences_at_the_probe() -> None:
    encoder, layer = network()
    x = torch.randn(5, 4, dtype=torch.float64)
    radius = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5], dtype=torch.float64)

    def assignment(rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return torch.softmax(layer(encoder(rows)).scores / TEMPERATURE, dim=1)

    torch.manual_seed(0)
    moved = adversarial(x, lambda rows: layer(encoder(rows)).scores, radius, TEMPERATURE)
    torch.manual_seed(0)
    drawn = torch.randn_like(x)
    probe = x + radius[:, None] * drawn / drawn.norm(dim=1, keepdim=True)
    slope, step = torch.zeros_like(x), 1e-5
    for column in range(4):
        way = torch.zeros_like(x)
        way[:, column] = step
        more, less = (divergence(assignment(x), assignment(probe + s * way)) for s in (1, -1))
        slope[:, column] = (more - less) / (2 * step)
    by_hand = x + radius[:, None] * slope / slope.norm(dim=1, keepdim=True)
    torch.testing.assert_close(moved, by_hand, rtol=1e-6, atol=1e-7)


def test_it_changes_the_assignment_more_than_chance_does() -> None:
    encoder, layer = network()
    x, radius = torch.randn(300, 4, dtype=torch.float64), torch.full((300,), 0.2)
    far = adversarial(x, lambda rows: layer(encoder(rows)).scores, radius, TEMPERATURE)
    torch.testing.assert_close((far - x).norm(dim=1), radius.double())
    ways = torch.randn_like(x)
    anywhere = x + 0.2 * ways / ways.norm(dim=1, keepdim=True)
    with torch.no_grad():
        at, there, elsewhere = (
            torch.softmax(layer(encoder(rows)).scores / TEMPERATURE, dim=1)
            for rows in (x, far, anywhere)
        )
    assert divergence(at, there).mean() > 2 * divergence(at, elsewhere).mean()


def test_a_row_whose_assignment_never_changes_is_moved_anywhere() -> None:
    x = torch.zeros(6, 1, 2, 2)
    radius = torch.arange(6.0)
    moved = adversarial(x, lambda rows: rows.flatten(1)[:, :2] * 0, radius, TEMPERATURE)
    torch.testing.assert_close(moved.flatten(1).norm(dim=1), radius)


def test_the_second_view_alone_is_moved_and_nothing_else_is_touched() -> None:
    torch.manual_seed(1)
    encoder = nn.Sequential(nn.Linear(3, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 2))
    layer = ClusterLayer(2, 2)
    radius = torch.tensor([9.0, 0.5, 9.0, 0.25, 0.125])
    objective = InvariantInformation(encoder, layer, radius=radius).train()
    partner, row = torch.randn(3, 3), torch.tensor([1, 3, 4])
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    second = objective._second(partner, row)
    torch.testing.assert_close((second - partner).norm(dim=1), radius[row])
    assert not second.requires_grad
    assert all(module.training for module in objective.modules())
    assert all(parameter.grad is None for parameter in objective.parameters())
    for name, value in objective.state_dict().items():  # batch statistics are among them
        assert torch.equal(value, before[name]), name


def test_the_loss_is_the_information_of_the_row_and_its_moved_copy() -> None:
    encoder, layer = network()
    x, row = torch.randn(4, 4, dtype=torch.float64), torch.arange(4)
    radius = torch.full((4,), 0.3, dtype=torch.float64)
    objective = InvariantInformation(encoder, layer, temperature=TEMPERATURE, radius=radius)
    torch.manual_seed(5)
    value = objective.losses(Batch(x, row, partner=x)).terms["views"]
    torch.manual_seed(5)
    moved = adversarial(x, lambda rows: layer(encoder(rows)).scores, radius, TEMPERATURE)
    first, second = (
        torch.softmax(layer(encoder(rows)).scores / TEMPERATURE, dim=1) for rows in (x, moved)
    )
    torch.testing.assert_close(value, -information(first, second, objective.prior))


def test_without_a_radius_nothing_is_drawn_or_kept() -> None:
    encoder, layer = network()
    objective = InvariantInformation(encoder, layer)
    state = torch.get_rng_state()
    x = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    objective.losses(Batch(x, torch.arange(2), partner=x))
    assert torch.equal(torch.get_rng_state(), state)
    assert "radius" not in objective.state_dict()  # checkpoints of earlier versions have none


class Interrupt(Hook):
    """Ends a loop in the middle of its second epoch."""

    def on_step_end(self, loop: Loop, losses: Losses) -> None:
        if loop.position == (1, 2):
            raise KeyboardInterrupt


def loop(checkpoint: Path | None = None, hooks: tuple[Hook, ...] = ()) -> Loop:
    torch.manual_seed(7)
    x = torch.randn(40, 4)
    encoder = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))
    objective = InvariantInformation(encoder, ClusterLayer(3, 3), radius=0.3 * x.norm(dim=1))
    batches = Batches(x, 8, partners=torch.arange(40)[:, None])
    rule = torch.optim.Adam(objective.parameters(), lr=1e-2)
    options = {"epochs": 3, "checkpoint": checkpoint, "checkpoint_seconds": 0.0}
    return Loop(objective, batches, rule, hooks=hooks, **options)


def test_an_interrupted_loop_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, file = loop(), tmp_path / "state"
    whole.run()
    with pytest.raises(KeyboardInterrupt):
        loop(file, (Interrupt(),)).run()
    resumed = loop(file)
    torch.manual_seed(99)  # another process has drawn other numbers by then
    resumed.run()
    assert resumed.history[-1]["views"] == whole.history[-1]["views"]
    state = resumed.objective.state_dict()
    for name, value in whole.objective.state_dict().items():
        assert torch.equal(state[name], value), name


def test_compiled_or_not_the_loss_is_the_same() -> None:
    encoder, layer = network()
    x, row = torch.randn(6, 4, dtype=torch.float64), torch.arange(6)
    objective = InvariantInformation(encoder, layer, radius=torch.full((6,), 0.3))
    batch = Batch(x, row, partner=x)
    found = []
    for losses in (objective.losses, torch.compile(objective.losses, backend="eager")):
        torch.manual_seed(0)
        found.append(losses(batch).terms["views"])
    torch.testing.assert_close(*found)
