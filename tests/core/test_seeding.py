"""Seeding and revival: distinct rows, no row without direction, draws by loss."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tell.core import assignment as module
from tell.core.assignment import Assignment, DenseRows, Totals, assign, totals
from tell.core.seeding import canonical_order, relocate, revive, seed_centers

GEOMETRIES = ["sphere", "euclidean"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def directions(angles: list[float], length: float = 2.0) -> Tensor:
    turned = torch.tensor(angles, dtype=torch.float64).deg2rad()
    return length * torch.stack([turned.cos(), turned.sin()], dim=1)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("how", ["k-means++", "random"])
def test_seeds_are_distinct_rows(how: str, geometry: str) -> None:
    x = torch.randn(12, 3, generator=generator(), dtype=torch.float64).repeat_interleave(20, dim=0)
    for seed in range(10):
        centers = seed_centers(DenseRows(x), 12, how, geometry, generator(seed))
        assert len(centers.unique(dim=0)) == 12
        rows = torch.nn.functional.normalize(x, dim=1) if geometry == "sphere" else x
        assert torch.cdist(centers, rows).amin(dim=1).max() < 1e-7


def test_the_same_generator_gives_the_same_seeds() -> None:
    x = torch.randn(200, 5, generator=generator())
    for how in ("k-means++", "random", "kaiming"):
        first, second, other = (
            seed_centers(DenseRows(x), 6, how, "sphere", generator(seed)) for seed in (3, 3, 4)
        )
        assert torch.equal(first, second)
        assert not torch.equal(first, other)


def test_kaiming_ignores_the_rows() -> None:
    first, second = (
        seed_centers(DenseRows(torch.full((9, 4), value)), 3, "kaiming", "sphere", generator())
        for value in (1.0, 2.0)
    )
    assert torch.equal(first, second)
    torch.testing.assert_close(first.norm(dim=1), torch.ones(3))
    flat = seed_centers(DenseRows(torch.ones(9, 4)), 3, "kaiming", "euclidean", generator())
    assert flat.abs().max() <= 0.5


@pytest.mark.parametrize("how", ["k-means++", "random"])
def test_rows_without_direction_are_no_seeds(how: str) -> None:
    x = torch.cat([directions([0, 90, 180]), torch.zeros(50, 2, dtype=torch.float64)])
    for seed in range(10):
        centers = seed_centers(DenseRows(x), 5, how, "sphere", generator(seed))
        torch.testing.assert_close(centers.norm(dim=1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize("how", ["k-means++", "random"])
def test_rows_without_weight_are_no_seeds(how: str) -> None:
    x = torch.arange(20.0)[:, None]
    weight = (torch.arange(20) % 2).float()
    for seed in range(10):
        centers = seed_centers(DenseRows(x, weight), 10, how, "euclidean", generator(seed))
        assert sorted(centers[:, 0].tolist()) == list(range(1, 20, 2))


def test_far_groups_all_get_a_seed() -> None:
    x = torch.randn(300, 2, generator=generator()) + 100 * torch.arange(6).repeat(50)[:, None]
    for seed in range(20):
        centers = seed_centers(DenseRows(x), 6, "k-means++", "euclidean", generator(seed))
        assert (centers[:, 0] / 100).round().unique().tolist() == list(range(6))


def test_order_depends_on_values_alone() -> None:
    x = torch.randn(100, 4, generator=generator())
    shuffled = x[torch.randperm(100, generator=generator(1))]
    orders = [canonical_order(DenseRows(part), generator(2)) for part in (x, shuffled)]
    assert torch.equal(x[orders[0]], shuffled[orders[1]])


def landed(x: Tensor, centers: Tensor, geometry: str) -> tuple[DenseRows, Assignment, Totals]:
    rows = DenseRows(x)
    nearest = assign(rows, centers, geometry)
    return rows, nearest, totals(rows, nearest.labels, len(centers), geometry)


def test_dead_centres_move_to_the_worst_served_rows() -> None:
    x = torch.tensor([[0.0], [1.0], [5.0], [9.0]])
    centers = torch.tensor([[0.0], [-50.0], [-60.0]])
    moved = revive(*landed(x, centers, "euclidean"), centers, "euclidean")
    assert moved == [1, 2]
    assert centers.tolist() == [[0.0], [9.0], [5.0]]


def test_nothing_is_revived_without_a_row_to_serve() -> None:
    x = torch.cat([directions([0, 90]), torch.zeros(3, 2, dtype=torch.float64)])
    centers = directions([0, 90, 200], length=1)
    assert revive(*landed(x, centers, "sphere"), centers, "sphere") == []


def test_relocation_moves_the_least_useful_centre_to_the_loss() -> None:
    x = torch.tensor([[0.0], [0.1], [10.0], [20.0]])
    centers = torch.tensor([[0.0], [0.1], [15.0]])
    trial = relocate(DenseRows(x), centers, 1, "euclidean", generator())
    assert trial[2].item() == 15.0
    assert {10.0, 20.0} & set(trial[:, 0].tolist())
    assert centers.tolist() == [[0.0], [pytest.approx(0.1)], [15.0]]  # only a trial


def test_relocation_never_holds_all_distances_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    most, products = [0], DenseRows.products

    def record(self: DenseRows, vectors: Tensor, start: int, stop: int) -> Tensor:
        most.append((stop - start) * len(vectors))
        return products(self, vectors, start, stop)

    x = torch.randn(3000, 4, generator=generator(), dtype=torch.float64)
    whole = relocate(DenseRows(x), x[:60].clone(), 3, "euclidean", generator())
    monkeypatch.setattr(module, "SCORES_IN_CACHE", 4096)
    monkeypatch.setattr(module, "rows_at_once", lambda n_clusters, n_features: 1024)
    monkeypatch.setattr(DenseRows, "products", record)
    trial = relocate(DenseRows(x), x[:60].clone(), 3, "euclidean", generator())
    assert torch.equal(trial, whole)
    assert 0 < max(most) < 3000 * 60 / 2
