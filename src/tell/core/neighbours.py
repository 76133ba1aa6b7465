"""Nearest neighbours and how strongly they belong together."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

SCORES_PER_BLOCK = 1 << 27  # half a gigabyte of float32
BISECTIONS = 40


class Neighbours(NamedTuple):
    """The nearest other rows of every row, the nearest first."""

    row: Tensor  # (n, k) row numbers
    distance: Tensor  # (n, k) euclidean distances


@torch.no_grad()
def nearest_neighbours(x: Tensor, k: int) -> Neighbours:
    """Find the k nearest other rows of every row of x (n, d), exactly.

    Examples
    --------
    >>> found = nearest_neighbours(torch.tensor([[0.0], [1.0], [5.0]]), 1)
    >>> found.row.flatten().tolist(), found.distance.flatten().tolist()
    ([1, 0, 1], [1.0, 1.0, 4.0])
    """
    n = len(x)
    x = x - x.mean(0)  # float32 distances would drown in a common offset
    squares = x.square().sum(1)
    rows, distances = [], []
    for start in range(0, n, block := max(1, SCORES_PER_BLOCK // n)):
        part = x[start : start + block]
        # |x_i - x_j|² without |x_i|², which does not change the order.
        scores = torch.addmm(squares, part, x.T, alpha=-2)
        own = torch.arange(len(part), device=x.device)
        scores[own, own + start] = torch.inf
        nearest = scores.topk(k, largest=False)
        rows.append(nearest.indices)
        squared = nearest.values + squares[start : start + block, None]
        distances.append(squared.clamp_min(0).sqrt())
    return Neighbours(torch.cat(rows), torch.cat(distances))


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
