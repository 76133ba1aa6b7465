"""A few coordinates in which neighbours lie together and strangers apart.

The forces are those of UMAP (McInnes et al., 2018) for a minimal distance of 0: edges of a
neighbour graph attract in proportion to their weight, random pairs repel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

# 1 / (1 + A d^(2B)) is the smooth curve nearest to exp(-d).
A, B = 1.929, 0.7915
STRONGEST = 4.0
MOVES_PER_EPOCH = 20


class Edges(NamedTuple):
    """An undirected graph: each edge once."""

    head: Tensor  # (m,) row numbers
    tail: Tensor  # (m,)
    weight: Tensor  # (m,) in (0, 1]


@torch.no_grad()
def lay_out(
    edges: Edges,
    start: Tensor,
    *,
    epochs: int,
    generator: torch.Generator,
    strangers: int = 5,
    report: Callable[[int], None] = lambda epoch: None,
) -> Tensor:
    """Move points from `start` (n, d) until edges are short and other pairs are not.

    Parameters
    ----------
    edges : Edges
    start : Tensor (n, d)
    epochs : int
        In each, every edge pulls with the probability of its weight; the step falls to 0.
    generator : torch.Generator
    strangers : int
        Random points that push against each end of a pulling edge.
    report : callable (epoch)

    Examples
    --------
    >>> pairs = Edges(torch.tensor([0, 2]), torch.tensor([1, 3]), torch.ones(2))
    >>> g = torch.Generator().manual_seed(0)
    >>> y = lay_out(pairs, torch.randn(4, 2, generator=g), epochs=50, generator=g)
    >>> bool((y[0] - y[1]).norm() < (y[0] - y[2]).norm())
    True
    """
    points = start.clone()
    for epoch in range(epochs):
        step = 1 - epoch / epochs
        pulls = torch.rand(len(edges.weight), generator=generator) < edges.weight
        chosen = pulls.nonzero().squeeze(1)
        chosen = chosen[torch.randperm(len(chosen), generator=generator)]
        for part in chosen.chunk(MOVES_PER_EPOCH):
            one, other = edges.head[part], edges.tail[part]
            ends, friends = torch.cat([one, other]), torch.cat([other, one])
            force = _pull(points[ends] - points[friends])
            drawn = torch.randint(len(points), (len(ends), strangers), generator=generator)
            force += _push(points[ends, None] - points[drawn]).sum(1)
            points.index_add_(0, ends, force, alpha=step)
        report(epoch + 1)
    return points


def _pull(way: Tensor) -> Tensor:
    squared = way.square().sum(-1, keepdim=True)
    slope = -2 * A * B * squared.clamp_min(1e-12) ** (B - 1) / (1 + A * squared**B)
    return (slope * way).clamp_(-STRONGEST, STRONGEST)


def _push(way: Tensor) -> Tensor:
    squared = way.square().sum(-1, keepdim=True)
    slope = 2 * B / ((0.001 + squared) * (1 + A * squared**B))
    return (slope * way).clamp_(-STRONGEST, STRONGEST)
