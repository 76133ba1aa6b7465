"""Rows that lie far from all others: they hide groups, whatever these are."""

from __future__ import annotations

import torch
from torch import Tensor

#: An outlier may have a few companions: what counts is the distance to this neighbour.
NEIGHBOUR = 5
#: Rows whose distances to all others are held at a time.
BLOCK = 512


def farthest_out(x: Tensor, share: float) -> Tensor:
    """Positions of the share of the rows (n, d) that lies farthest from its neighbours, in order.

    >>> farthest_out(torch.tensor([[0.0], [0.1], [9.0], [0.2], [0.3], [0.4], [0.5]]), 0.15)
    tensor([2])
    """
    n = len(x)
    nearest = min(NEIGHBOUR + 1, n)  # the first is the row itself
    apart = [torch.cdist(block, x).kthvalue(nearest, dim=1).values for block in x.split(BLOCK)]
    return torch.cat(apart).topk(int(share * n)).indices.sort().values
