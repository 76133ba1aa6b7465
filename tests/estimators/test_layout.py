"""The layout keeps groups of a graph together and apart from each other."""

from __future__ import annotations

import torch

from tell.estimators.deep.recipes.layout import Edges, lay_out


def two_cliques() -> Edges:
    pairs = [(i, j) for half in (0, 10) for i in range(half, half + 10) for j in range(half, i)]
    head, tail = torch.tensor(pairs).T
    return Edges(head, tail, torch.ones(len(pairs)))


def laid_out(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(20, 2, generator=generator)
    return lay_out(two_cliques(), start, epochs=60, generator=generator)


def test_cliques_separate() -> None:
    distance = torch.cdist(points := laid_out(0), points)
    within = max(distance[:10, :10].max(), distance[10:, 10:].max())
    assert within < distance[:10, 10:].min()


def test_same_seed_same_layout_and_every_epoch_is_reported() -> None:
    assert torch.equal(laid_out(1), laid_out(1))
    epochs: list[int] = []
    generator = torch.Generator().manual_seed(0)
    lay_out(two_cliques(), torch.randn(20, 2), epochs=3, generator=generator, report=epochs.append)
    assert epochs == [1, 2, 3]
