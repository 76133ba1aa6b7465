"""Affine movements on known images."""

from __future__ import annotations

import pytest
import torch

from tell.core.augment import Affine, resolve_augment
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
