"""Small random movements of images, for whole batches at once.

A movement is a callable (images (b, c, h, w), generator) -> images; `Compose` joins several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

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


class Crop:
    """Cut a window out of every image and bring it back to the full size.

    Parameters
    ----------
    least : float
        Sides of the window are uniform between this share of the image's and all of it.

    Examples
    --------
    >>> images = torch.rand(2, 3, 8, 8)
    >>> Crop(least=1.0)(images, torch.Generator()).allclose(images, atol=1e-6)
    True
    """

    def __init__(self, least: float = 0.6) -> None:
        _check(0 < least <= 1, "least", "above 0 and at most 1", least)
        self.least = least

    def __repr__(self) -> str:
        return f"Crop(least={self.least})"

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the windows of the images (b, c, h, w)."""
        uniform = torch.rand(3, len(x), generator=generator, device=x.device)
        side = self.least + (1 - self.least) * uniform[0]
        # In a grid that spans [-1, 1] such a window fits with its middle within ±(1 - side).
        right, down = (1 - side) * (2 * uniform[1:] - 1)
        zero = torch.zeros_like(side)
        rows = [torch.stack([side, zero, right], 1), torch.stack([zero, side, down], 1)]
        grid = F.affine_grid(torch.stack(rows, 1).to(x.dtype), list(x.shape), align_corners=False)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


class Elastic:
    """Bend every image: neighbouring pixels move alike, far ones do not.

    Parameters
    ----------
    strength : float
        Standard deviation of the way of a pixel, as a share of the side.
    cells : int
        Ways are drawn on a grid of so many points a side and are smooth between them.

    Examples
    --------
    >>> images = torch.rand(2, 1, 8, 8)
    >>> Elastic()(images, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 1, 8, 8])
    """

    def __init__(self, strength: float = 0.03, cells: int = 4) -> None:
        _check(strength >= 0, "strength", "at least 0", strength)
        _check(cells >= 2, "cells", "at least 2", cells)
        self.strength = strength
        self.cells = cells

    def __repr__(self) -> str:
        return f"Elastic(strength={self.strength}, cells={self.cells})"

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the bent images (b, c, h, w); what was outside is zero."""
        shape = (len(x), 2, self.cells, self.cells)
        coarse = torch.randn(shape, generator=generator, device=x.device, dtype=x.dtype)
        way = F.interpolate(coarse, x.shape[2:], mode="bicubic", align_corners=True)
        still = torch.eye(2, 3, device=x.device, dtype=x.dtype).expand(len(x), 2, 3)
        grid = F.affine_grid(still, list(x.shape), align_corners=False)
        grid = grid + 2 * self.strength * way.permute(0, 2, 3, 1)
        return F.grid_sample(x, grid, padding_mode="zeros", align_corners=False)


class Flip:
    """Mirror images, left to right, with an even chance: for photographs, not for writing.

    >>> Flip()(torch.tensor([[[[1.0, 2.0]]]]), torch.Generator().manual_seed(0)).tolist()
    [[[[2.0, 1.0]]]]
    """

    def __repr__(self) -> str:
        return "Flip()"

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the images (b, c, h, w), some of them mirrored."""
        mirrored = torch.rand(len(x), 1, 1, 1, generator=generator, device=x.device) < 0.5
        return torch.where(mirrored, x.flip(3), x)


class Jitter:
    """Change brightness, contrast and, of colour images, colours; values stay in [0, 1].

    Pieces of one photograph share their colours. Unless these change, they alone tell whose pieces
    they are, and nothing else is learned (SimCLR, whose amounts these are).

    Parameters
    ----------
    brightness, contrast, saturation : float
        Factors are uniform in 1 ± this, one of each for every image.
    hue : float
        Colours turn about the grey axis by an angle that is uniform in ± this part of a full turn.
    grey : float
        Share of the images that lose their colour.

    Examples
    --------
    >>> grey = torch.full((1, 3, 2, 2), 0.5)
    >>> Jitter(brightness=0, contrast=0.9)(grey, torch.Generator()).allclose(grey)
    True
    """

    def __init__(
        self,
        brightness: float = 0.4,
        contrast: float = 0.4,
        saturation: float = 0.4,
        hue: float = 0.1,
        grey: float = 0.2,
    ) -> None:
        _check(0 <= grey <= 1, "grey", "from 0 to 1", grey)
        self.brightness = brightness
        self.contrast = contrast
        self.saturation = saturation
        self.hue = hue
        self.grey = grey

    def __repr__(self) -> str:
        return (
            f"Jitter(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue}, grey={self.grey})"
        )

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the images (b, c, h, w) in other light."""
        uniform = 2 * torch.rand(5, len(x), 1, 1, 1, generator=generator, device=x.device) - 1
        uniform = uniform.to(x.dtype)
        x = x * (1 + self.brightness * uniform[0])
        mean = x.mean((1, 2, 3), keepdim=True)
        x = torch.lerp(mean, x, 1 + self.contrast * uniform[1])
        if x.shape[1] == 3:
            grey = x.mean(1, keepdim=True)
            colour = (x - grey) * (1 + self.saturation * uniform[2])
            # About the grey axis (1, 1, 1) / √3: a turn by θ of what is at right angles to it.
            angle = 2 * math.pi * self.hue * uniform[3]
            across = (colour.roll(1, 1) - colour.roll(-1, 1)) / math.sqrt(3)
            colour = colour * angle.cos() + across * angle.sin()
            x = grey + colour * (uniform[4] >= 2 * self.grey - 1)
        return x.clamp(0, 1)


class Compose:
    """Several movements, one after another.

    >>> Compose([Crop(0.8), Flip()])
    Compose([Crop(least=0.8), Flip()])
    """

    def __init__(self, movements: Sequence[Augment]) -> None:
        self.movements = list(movements)

    def __repr__(self) -> str:
        return f"Compose({self.movements})"

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the images after all movements."""
        for move in self.movements:
            x = move(x, generator)
        return x


MOVEMENTS: dict[str, Callable[[], Augment]] = {
    "affine": Affine,
    "crop": Crop,
    "elastic": Elastic,
    "flip": Flip,
    "jitter": Jitter,
}


def resolve_augment(augment: str | Augment | None, shape: tuple[int, ...]) -> Augment | None:
    """Turn the option `augment` into a callable (x, generator) -> x, or None.

    >>> resolve_augment("affine", (1, 8, 8))
    Affine(degrees=10.0, shift=0.1, scale=0.1, shear=0.0)
    >>> resolve_augment("crop, flip", (3, 32, 32))
    Compose([Crop(least=0.6), Flip()])
    """
    if augment is None or callable(augment):
        return augment
    names = [name.strip() for name in augment.split(",")] if isinstance(augment, str) else [""]
    if not set(names) <= MOVEMENTS.keys():
        known = ", ".join(map(repr, MOVEMENTS))
        raise ParameterError(
            f"augment={augment!r} must be None, names among {known} with commas between, or a "
            "callable (x, generator) -> x; pass one of these"
        )
    if len(shape) != 3:
        raise ParameterError(
            f"augment={augment!r} needs images (n, h, w) or (n, c, h, w), got rows of shape "
            f"{shape}; reshape X or pass a callable"
        )
    movements = [MOVEMENTS[name]() for name in names]
    return movements[0] if len(movements) == 1 else Compose(movements)


def _check(good: bool, name: str, rule: str, value: float) -> None:
    if not good:
        raise ParameterError(f"{name} must be {rule}, got {value}")
