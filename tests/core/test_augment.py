"""Movements on known images."""

from __future__ import annotations

import pytest
import torch

from tell.core.augment import (
    MOVEMENTS,
    Affine,
    Compose,
    Crop,
    Elastic,
    Flip,
    Jitter,
    resolve_augment,
)
from tell.exceptions import ParameterError


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def test_no_movement_is_the_identity() -> None:
    x = torch.rand(3, 2, 9, 7)
    torch.testing.assert_close(Affine(0, 0, 0)(x, seeded()), x)


def test_same_seed_same_movement() -> None:
    x = torch.rand(4, 1, 8, 8)
    assert torch.equal(Affine()(x, seeded()), Affine()(x, seeded()))


def test_shift_moves_by_the_share_of_the_side() -> None:
    x = torch.zeros(200, 1, 21, 21)
    x[:, :, 10, 10] = 1
    moved = Affine(0, 0.2, 0)(x, seeded())
    grid = torch.arange(21.0)
    column = (moved.sum(2) * grid).sum(-1) / moved.sum((2, 3))
    way = (column - 10).abs()
    assert way.max() <= 0.2 * 21 + 1e-3
    assert way.max() > 0.15 * 21


def test_rotation_keeps_the_middle_and_the_mass() -> None:
    x = torch.zeros(8, 1, 21, 21)
    x[:, :, 8:13, 8:13] = 1
    moved = Affine(degrees=45, shift=0, scale=0)(x, seeded())
    assert moved[:, 0, 10, 10].min() > 0.99
    torch.testing.assert_close(moved.sum((1, 2, 3)), x.sum((1, 2, 3)), rtol=0.05, atol=0)


def test_options_resolve_or_are_named() -> None:
    assert resolve_augment(None, (3,)) is None
    assert isinstance(resolve_augment("affine", (1, 8, 8)), Affine)
    with pytest.raises(ParameterError, match="needs images"):
        resolve_augment("affine", (64,))
    with pytest.raises(ParameterError, match="augment='cutout'"):
        resolve_augment("cutout", (1, 8, 8))
    assert isinstance(resolve_augment("crop,flip", (3, 8, 8)), Compose)
    with pytest.raises(ParameterError, match="augment='crop,cutout'"):
        resolve_augment("crop,cutout", (1, 8, 8))


@pytest.mark.parametrize("movement", [make() for make in MOVEMENTS.values()], ids=repr)
@pytest.mark.parametrize("shape", [(1, 9, 7), (3, 8, 8)])
def test_every_movement_is_seeded_and_changes_each_image_in_its_own_way(movement, shape) -> None:
    x = torch.rand(1, *shape).repeat(20, 1, 1, 1)
    moved = movement(x, seeded())
    assert moved.shape == x.shape
    assert moved.dtype == x.dtype
    assert torch.equal(moved, movement(x, seeded()))
    assert moved.flatten(1).unique(dim=0).shape[0] > 1
    assert 0 <= moved.min() <= moved.max() <= 1 + 1e-6
    assert movement(x.double(), seeded()).dtype == torch.float64


def test_a_crop_shows_a_part_of_the_image_in_order() -> None:
    ramp = torch.linspace(0, 1, 21).expand(50, 1, 21, 21)
    moved = Crop(least=0.5)(ramp, seeded())
    assert bool((moved.diff(dim=3) >= -1e-6).all())  # still from left to right
    shown = moved[:, 0, 0, -1] - moved[:, 0, 0, 0]
    assert 0.45 < shown.min() < 0.6
    assert 0.9 < shown.max() <= 1.0 + 1e-6


def test_bending_moves_pixels_by_the_share_of_the_side() -> None:
    ramp = torch.linspace(0, 1, 41).expand(100, 1, 41, 41)
    way = (Elastic(strength=0.02)(ramp, seeded()) - ramp)[:, :, 10:30, 10:30]
    assert 0.01 < way.std() < 0.03
    torch.testing.assert_close(Elastic(strength=0)(ramp, seeded()), ramp)


def test_half_of_the_images_are_mirrored() -> None:
    x = torch.arange(4.0).expand(400, 1, 1, 4)
    moved = Flip()(x, seeded())
    mirrored = (moved == x.flip(3)).all(dim=(1, 2, 3))
    assert bool((mirrored | (moved == x).all(dim=(1, 2, 3))).all())
    assert 150 < int(mirrored.sum()) < 250


def test_light_by_hand() -> None:
    x = torch.tensor([0.2, 0.4]).reshape(1, 1, 1, 2)
    factor = 1 + 0.5 * float(2 * torch.rand(5, 1, 1, 1, 1, generator=seeded())[0] - 1)
    bright = Jitter(brightness=0.5, contrast=0, saturation=0)(x, seeded())
    torch.testing.assert_close(bright, x * factor)
    colour = torch.tensor([0.9, 0.1, 0.2]).reshape(1, 3, 1, 1)
    still = Jitter(0, 0, 0, hue=0, grey=0)(colour, seeded())
    torch.testing.assert_close(still, colour)
    moved = Jitter(0, 0, saturation=0.9, hue=0, grey=0)(colour, seeded())
    assert moved.mean().item() == pytest.approx(0.4, abs=1e-5)  # only how far from grey


def test_hue_turns_colours_about_grey_and_some_images_lose_them() -> None:
    torch.manual_seed(0)
    x = 0.3 + 0.4 * torch.rand(500, 3, 2, 2)
    turned = Jitter(0, 0, 0, hue=0.25, grey=0)(x, seeded())
    torch.testing.assert_close(turned.mean(1), x.mean(1))  # as bright as before
    before, after = (images - images.mean(1, keepdim=True) for images in (x, turned))
    inside = ((turned > 0) & (turned < 1)).all(1)  # the others were cut off
    torch.testing.assert_close(before.norm(dim=1)[inside], after.norm(dim=1)[inside])
    cosine = torch.cosine_similarity(before, after, dim=1)
    angle = torch.acos(cosine.clamp(-1, 1))[inside] / (2 * torch.pi)
    assert 0.2 < float(angle.max()) <= 0.25 + 1e-3  # parts of a full turn
    faded = Jitter(0, 0, 0, hue=0, grey=0.2)(x, seeded())
    grey = (faded - faded.mean(1, keepdim=True)).abs().amax((1, 2, 3)) < 1e-6
    assert 70 < int(grey.sum()) < 130
    torch.testing.assert_close(faded[~grey], x[~grey])


@pytest.mark.parametrize(
    "make",
    [lambda: Crop(0.0), lambda: Elastic(-1.0), lambda: Elastic(cells=1), lambda: Jitter(grey=2)],
)
def test_bad_amounts_are_named(make) -> None:
    with pytest.raises(ParameterError, match="must be"):
        make()
