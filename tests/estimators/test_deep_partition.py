"""The partition from the neighbour graph: better than k-means, whole in degenerate cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, make_blobs

from tell.estimators.deep.recipes.neighbours import nearest_neighbours
from tell.estimators.deep.recipes.partition import (
    find_graph,
    find_partition,
    mixture,
    neighbour_graph,
)
from tell.metrics import accuracy


def partition(x: torch.Tensor, k: int, epochs: int = 100) -> torch.Tensor:
    graph = find_graph(x, k, rows=len(x), neighbours=15, seed=0)
    return find_partition(x, graph, k, seed=0, epochs=epochs)


def test_digits_are_found_from_their_neighbours() -> None:
    digits = load_digits()
    found = partition(torch.from_numpy(digits.images).float() / 16, 10)
    torch.testing.assert_close(found.sum(1), torch.ones(len(found)))
    assert accuracy(digits.target, found.argmax(1).numpy()) > 0.86  # k-means has 0.79


def test_rows_outside_the_graph_follow_their_neighbours() -> None:
    digits = load_digits()
    x = torch.from_numpy(digits.images).float()[:, None] / 16
    graph = find_graph(x, 10, rows=900, neighbours=15, seed=0)
    assert graph.others.shape == (len(x) - 900, 15)
    found = find_partition(x, graph, 10, seed=0, epochs=100)
    inside = graph.rows
    torch.testing.assert_close(found[inside], partition(x[inside], 10))
    torch.testing.assert_close(found.sum(1), torch.ones(len(found)))
    outside = np.setdiff1d(np.arange(len(x)), inside.numpy())
    own = accuracy(digits.target[inside], found[inside].argmax(1).numpy())
    others = accuracy(digits.target[outside], found[outside].argmax(1).numpy())
    assert others > own - 0.02


def test_one_graph_gives_other_partitions_for_other_seeds() -> None:
    x = torch.from_numpy(load_digits().images[:400]).float() / 16
    graph = find_graph(x, 10, rows=400, neighbours=15, seed=0)
    first, again, other = (
        find_partition(x, graph, 10, seed=seed, epochs=20).argmax(1) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_graph_is_symmetric_and_bounded() -> None:
    graph = neighbour_graph(nearest_neighbours(torch.randn(60, 3), 5))
    assert abs(graph - graph.T).max() < 1e-6
    assert 0 < graph.data.max() <= 1 + 1e-6
    assert graph.diagonal().max() == 0


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(40, 3),
        torch.randn(12, 3),
        torch.randn(4, 3),
        torch.randn(6, 3).repeat(20, 1),
        torch.cat([torch.zeros(50, 2), torch.ones(50, 2) * 1e6]),
        torch.arange(40.0)[:, None],
    ],
)
def test_degenerate_rows_still_give_a_partition(x: torch.Tensor) -> None:
    found = partition(x, 4, epochs=5)
    assert found.shape == (len(x), 4)
    torch.testing.assert_close(found.sum(1), torch.ones(len(x)))


def test_a_few_equal_rows_are_no_cluster() -> None:
    """A component for them alone is the likeliest of all: as narrow as is allowed."""
    random = np.random.default_rng(0)
    middles = ([0, 0, 0, 0], [4, 0, 0, 0], [0, 4, 0, 0])
    groups = [random.normal(middle, 1, (200, 4)) for middle in middles]
    points = np.concatenate([*groups, np.tile([0, 0, 10.0, 0], (3, 1))])
    found = mixture(points, 3, seed=0).argmax(1).numpy()
    assert np.bincount(found, minlength=3).min() > 150


def test_the_likeliest_mixture_finds_elongated_groups() -> None:
    rng = np.random.default_rng(0)
    sticks = [rng.normal([0, 3 * i], [1.0, 0.2], size=(200, 2)) for i in range(3)]
    found = mixture(np.concatenate(sticks), 3, seed=0).argmax(1).numpy()
    assert accuracy(np.repeat(range(3), 200), found) > 0.99


@pytest.mark.parametrize("seed", range(4))
def test_groups_that_nothing_connects_are_the_clusters_however_uneven(seed: int) -> None:
    sizes = [1000, 300, 100, 50]
    rows, y = make_blobs(sizes, n_features=8, cluster_std=1.0, random_state=3)
    x = torch.from_numpy(rows).float()
    graph = find_graph(x, 4, rows=2000, neighbours=15, seed=seed)
    found = find_partition(x, graph, 4, seed=seed, epochs=5)
    assert found.max(dim=1).values.min() == 1
    assert accuracy(y, found.argmax(dim=1).numpy()) == 1
    # More clusters than pieces: some must be divided, which is for the mixture.
    assert len(find_partition(x, graph, 5, seed=seed, epochs=5).argmax(dim=1).unique()) == 5
