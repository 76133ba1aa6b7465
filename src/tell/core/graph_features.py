"""Features in which the neighbours of an image are more often of its kind than in pixels.

A shifted stroke shares few pixels with itself but most of its gradient's directions, if these are
pooled over small cells (Dalal & Triggs, 2005).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor

DIRECTIONS = 8
SMALL_SIDE = 20  # below it, cells of 2 instead of 5 pixels
SMALLEST_SIDE = 4
COMPONENTS = 64


@torch.no_grad()
def graph_features(x: Tensor) -> Tensor:
    """Return the vectors (n, f) whose distances make the neighbour graph.

    Parameters
    ----------
    x : Tensor (n, d) or (n, c, h, w)
        Images become unit vectors of their main edge directions; tables stay as they are.

    Examples
    --------
    >>> graph_features(torch.rand(100, 1, 28, 28)).shape
    torch.Size([100, 64])
    >>> graph_features(torch.rand(100, 3)).shape
    torch.Size([100, 3])
    """
    if x.ndim != 4 or min(x.shape[2:]) < SMALLEST_SIDE:
        return x.flatten(1)
    return F.normalize(principal_components(edge_directions(x), COMPONENTS), dim=1)


def edge_directions(images: Tensor) -> Tensor:
    """Return how strongly the gradient points each way in each cell (n, f)."""
    right = images[:, :, 1:-1, 2:] - images[:, :, 1:-1, :-2]
    down = images[:, :, 2:, 1:-1] - images[:, :, :-2, 1:-1]
    length = torch.hypot(right, down).clamp_min(1e-8)
    angles = [2 * math.pi * turn / DIRECTIONS for turn in range(DIRECTIONS)]
    ways = [F.relu(right * math.cos(a) + down * math.sin(a)).square() / length for a in angles]
    cell, stride = (2, 2) if min(images.shape[2:]) < SMALL_SIDE else (5, 3)
    return F.avg_pool2d(torch.cat(ways, dim=1), cell, stride).flatten(1)


def principal_components(x: Tensor, count: int) -> Tensor:
    """Return the rows in the directions of their largest variance (n, at most count)."""
    x = x - x.mean(0)
    directions = torch.linalg.eigh(x.T @ x).eigenvectors
    return x @ directions[:, -count:]
