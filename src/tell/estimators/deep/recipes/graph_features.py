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
SMALL_SIDE = 20  # smaller images are enlarged to it, so that a cell is a small part of them too
SMALLEST_SIDE = 4
CELL, STRIDE = 5, 3
COMPONENTS = 64
DECISIVE_ROWS = 20_000
BLOCK_ROWS = 4096


class GraphFeatures:
    """Turn images into unit vectors of their main edge directions; leave tables as they are.

    Parameters
    ----------
    x : Tensor (n, d) or (n, c, h, w)
        Rows that decide which directions are the main ones.

    Examples
    --------
    >>> images = torch.rand(100, 1, 28, 28)
    >>> GraphFeatures(images)(images[:3]).shape
    torch.Size([3, 64])
    >>> table = torch.rand(100, 3)
    >>> GraphFeatures(table)(table).shape
    torch.Size([100, 3])
    """

    components: PrincipalComponents | None = None

    def __init__(self, x: Tensor) -> None:
        if x.ndim == 4 and min(x.shape[2:]) >= SMALLEST_SIDE:
            some = x[:: math.ceil(len(x) / DECISIVE_ROWS)]
            self.components = PrincipalComponents(edge_directions(some), COMPONENTS)

    def __call__(self, x: Tensor) -> Tensor:
        """Return the vectors (n, f) whose distances make the neighbour graph."""
        if self.components is None:
            return x.flatten(1)
        parts = [self.components(edge_directions(part)) for part in x.split(BLOCK_ROWS)]
        return F.normalize(torch.cat(parts), dim=1)


def edge_directions(images: Tensor) -> Tensor:
    """Return how strongly the gradient points each way in each cell (n, f)."""
    images = _enlarged(images)
    right = images[:, :, 1:-1, 2:] - images[:, :, 1:-1, :-2]
    down = images[:, :, 2:, 1:-1] - images[:, :, :-2, 1:-1]
    length = torch.hypot(right, down).clamp_min(1e-8)
    angles = [2 * math.pi * turn / DIRECTIONS for turn in range(DIRECTIONS)]
    ways = [F.relu(right * math.cos(a) + down * math.sin(a)).square() / length for a in angles]
    return F.avg_pool2d(torch.cat(ways, dim=1), CELL, STRIDE).flatten(1)


def _enlarged(images: Tensor) -> Tensor:
    """Return images whose shorter side has at least 20 pixels: cells of 2 pixels are too rough.

    >>> _enlarged(torch.rand(1, 1, 8, 12)).shape
    torch.Size([1, 1, 20, 30])
    """
    smallest = min(images.shape[2:])
    if smallest >= SMALL_SIDE:
        return images
    size = [round(side * SMALL_SIDE / smallest) for side in images.shape[2:]]
    return F.interpolate(images, size=size, mode="bicubic", align_corners=False)


class PrincipalComponents:
    """The directions (f, at most count) of the largest variance of rows (n, f)."""

    def __init__(self, x: Tensor, count: int) -> None:
        self.mean = x.mean(0)
        x = x - self.mean
        self.directions = torch.linalg.eigh(x.T @ x).eigenvectors[:, -count:]

    def __call__(self, x: Tensor) -> Tensor:
        """Return rows in these directions."""
        return (x - self.mean) @ self.directions
