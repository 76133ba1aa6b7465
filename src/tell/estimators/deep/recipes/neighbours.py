"""Nearest neighbours and how strongly they belong together."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

SCORES_PER_BLOCK = 1 << 24  # 64 MB of float32
BISECTIONS = 40
CARRIED_ROWS = 1 << 16


class Neighbours(NamedTuple):
    """The nearest other rows of every row, the nearest first."""

    row: Tensor  # (n, k) row numbers
    distance: Tensor  # (n, k) euclidean distances


@torch.no_grad()
def nearest_neighbours(
    x: Tensor,
    k: int,
    report: Callable[[float], None] = lambda done: None,
) -> Neighbours:
    """Find the k nearest other rows of every row of x (n, d), exactly.

    Parameters
    ----------
    x : Tensor (n, d)
    k : int
    report : callable (done)
        Told the share of the rows that is done.

    Examples
    --------
    >>> found = nearest_neighbours(torch.tensor([[0.0], [1.0], [5.0]]), 1)
    >>> found.row.flatten().tolist(), found.distance.flatten().tolist()
    ([1, 0, 1], [1.0, 1.0, 4.0])
    """
    n, x = len(x), x - x.mean(0)  # float32 distances would drown in a common offset
    squares = x.square().sum(1)
    rows, distances = [], []
    for start in range(0, n, block := max(1, SCORES_PER_BLOCK // n)):
        part = x[start : start + block]
        scores = _scores(part, x, squares)
        own = torch.arange(len(part), device=x.device)
        scores[own, own + start] = torch.inf
        nearest = scores.topk(k, largest=False)
        rows.append(nearest.indices)
        squared = nearest.values + squares[start : start + block, None]
        distances.append(squared.clamp_min(0).sqrt())
        report(min(1.0, (start + block) / n))
    return Neighbours(torch.cat(rows), torch.cat(distances))


@torch.no_grad()
def nearest_known(known: Tensor, x: Tensor, k: int) -> Tensor:
    """Find the k nearest known rows (m, d) of every row of x (n, d): their positions (n, k).

    >>> nearest_known(torch.tensor([[0.0], [1.0]]), torch.tensor([[0.1], [0.8]]), 1).tolist()
    [[0], [1]]
    """
    center = known.mean(0)  # as above
    known, x = known - center, x - center
    squares = known.square().sum(1)
    parts = x.split(max(1, SCORES_PER_BLOCK // len(known)))
    return torch.cat([_scores(part, known, squares).topk(k, largest=False)[1] for part in parts])


def carry(targets: Tensor, nearest: Tensor) -> Tensor:
    """Give every row the mean target (m, c) of its nearest known rows (n, k): (n, c).

    >>> carry(torch.eye(2), torch.tensor([[0], [1], [0]])).tolist()
    [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """
    return torch.cat([targets[part.long()].mean(1) for part in nearest.split(CARRIED_ROWS)])


def _scores(part: Tensor, rows: Tensor, squares: Tensor) -> Tensor:
    """|p_i - r_j|² without |p_i|², which does not change the order: (len(part), len(rows))."""
    return torch.addmm(squares, part, rows.T, alpha=-2)


@torch.no_grad()
def memberships(distance: Tensor) -> Tensor:
    """Turn distances to neighbours (n, k) into degrees of belonging in (0, 1].

    As in UMAP's graph: the nearest neighbour belongs fully, further ones fall off exponentially at
    a rate of the row's own, chosen so that its degrees add up to log2(k).

    >>> memberships(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).sum().round(decimals=3)
    tensor(2.)
    """
    beyond = distance - distance[:, :1]
    target = math.log2(distance.shape[1])
    low, high = torch.zeros_like(distance[:, :1]), torch.full_like(distance[:, :1], torch.inf)
    width = torch.ones_like(low)
    for _ in range(BISECTIONS):
        wide = torch.exp(-beyond / width).sum(1, keepdim=True) > target
        high = torch.where(wide, width, high)
        low = torch.where(wide, low, width)
        width = torch.where(high.isinf(), width * 2, (low + high) / 2)
    # Where many neighbours are equally near no width is small enough: keep it sensible.
    smallest = (1e-3 * distance.mean()).clamp_min(torch.finfo(distance.dtype).tiny)
    return torch.exp(-beyond / torch.maximum(width, smallest))
