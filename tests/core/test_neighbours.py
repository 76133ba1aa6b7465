"""Neighbours against scikit-learn's, memberships against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import NearestNeighbors

from tell.core import neighbours
from tell.core.neighbours import memberships, nearest_neighbours


@pytest.mark.parametrize("block", [1 << 27, 5000])
def test_neighbours_are_scikit_learns(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "SCORES_PER_BLOCK", block)
    x = load_digits().data[:300].astype(np.float32)
    distance = NearestNeighbors(n_neighbors=7).fit(x).kneighbors(return_distance=True)[0]
    found = nearest_neighbours(torch.from_numpy(x) + 1e4, 7)  # an offset does not matter
    np.testing.assert_allclose(found.distance, distance, rtol=1e-2)
    own = torch.arange(300)[:, None]
    assert not bool((found.row == own).any())
    exact = torch.from_numpy(x)
    again = (exact[:, None] - exact[found.row]).norm(dim=2)
    torch.testing.assert_close(again, found.distance, rtol=1e-2, atol=1e-2)


def test_memberships_fall_off_and_add_up() -> None:
    distance = torch.rand(50, 15).sort(dim=1).values + 0.1
    degrees = memberships(distance)
    assert bool((degrees[:, 0] == 1).all())
    assert bool((degrees.diff(dim=1) <= 0).all())
    torch.testing.assert_close(degrees.sum(1), torch.full((50,), math.log2(15)), rtol=1e-3, atol=0)


def test_duplicates_belong_fully() -> None:
    assert memberships(torch.zeros(3, 4)).tolist() == [[1.0] * 4] * 3
