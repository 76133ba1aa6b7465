"""Small random movements of images, for whole batches at once."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor

from tell.core.batches import Augment
from tell.exceptions import ParameterError


class Affine:
    """Rotate, shift, scale and shear every image by its own random amount.

    Parameters
    ----------
    degrees : float
        Rotations are uniform in ± this.
    shift : float
        Shifts are uniform in ± this share of the side.
    scale : float
        Scalings are uniform in 1 ± this.
    shear : float
        Shears are uniform in ± this tangent.

    Examples
    --------
    >>> images = torch.rand(2, 1, 8, 8)
    >>> moved = Affine()(images, torch.Generator().manual_seed(0))
    >>> moved.shape, bool((moved != images).any())
    (torch.Size([2, 1, 8, 8]), True)
    """

    def __init__(
        self, degrees: float = 10.0, shift: float = 0.1, scale: float = 0.1, shear: float = 0.0
    ) -> None:
        self.degrees = degrees
        self.shift = shift
        self.scale = scale
        self.shear = shear

    def __repr__(self) -> str:
        return (
            f"Affine(degrees={self.degrees}, shift={self.shift}, scale={self.scale}, "
            f"shear={self.shear})"
        )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return moved copies of the images (b, c, h, w); what was outside is zero."""
        grid = F.affine_grid(self.matrices(x, generator), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, padding_mode="zeros", align_corners=False)

    def matrices(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return one random 2×3 matrix per image (b, 2, 3)."""
        uniform = 2 * torch.rand(6, len(x), generator=generator, device=x.device) - 1
        angle = uniform[0] * math.radians(self.degrees)
        size = 1 + uniform[1] * self.scale
        cos, sin = torch.cos(angle) / size, torch.sin(angle) / size
        shear = uniform[2] * self.shear
        # The grid spans [-1, 1]: a share of the side is twice that in its units.
        right, down = 2 * self.shift * uniform[3], 2 * self.shift * uniform[4]
        top = torch.stack([cos, shear * cos - sin, right], dim=1)
        bottom = torch.stack([sin, shear * sin + cos, down], dim=1)
        return torch.stack([top, bottom], dim=1).to(x.dtype)


def resolve_augment(augment: str | Augment | None, shape: tuple[int, ...]) -> Augment | None:
    """Turn the option `augment` into a callable (x, generator) -> x, or None.

    >>> resolve_augment("affine", (1, 8, 8))
    Affine(degrees=10.0, shift=0.1, scale=0.1, shear=0.0)
    """
    if augment is None or callable(augment):
        return augment
    if augment != "affine":
        raise ParameterError(
            f"augment={augment!r} must be None, 'affine' or a callable (x, generator) -> x; "
            "pass one of these"
        )
    if len(shape) != 3:
        raise ParameterError(
            f"augment='affine' needs images (n, h, w) or (n, c, h, w), got rows of shape {shape}; "
            "reshape X or pass a callable"
        )
    return Affine()
