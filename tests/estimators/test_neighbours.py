"""Neighbours against scikit-learn's, memberships against their definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors

from tell.estimators.deep.recipes import neighbours
from tell.estimators.deep.recipes.neighbours import (
    carry,
    memberships,
    nearest_known,
    nearest_neighbours,
)


@pytest.mark.parametrize("block", [1 << 27, 5000])
def test_neighbours_are_scikit_learns(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "SCORES_PER_BLOCK", block)
    x = load_digits().data[:300].astype(np.float32)
    distance = NearestNeighbors(n_neighbors=7).fit(x).kneighbors(return_distance=True)[0]
    done: list[float] = []
    shifted = torch.from_numpy(x) + 1e4  # an offset does not matter
    found = nearest_neighbours(shifted, 7, report=done.append)
    assert done == sorted(done)
    assert done[-1] == 1
    np.testing.assert_allclose(found.distance, distance, rtol=1e-2)
    own = torch.arange(300)[:, None]
    assert not bool((found.row == own).any())
    exact = torch.from_numpy(x)
    again = (exact[:, None] - exact[found.row]).norm(dim=2)
    torch.testing.assert_close(again, found.distance, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("block", [1 << 27, 5000])
def test_carrying_is_a_vote_of_the_neighbours(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "SCORES_PER_BLOCK", block)
    digits = load_digits()
    known, x = (torch.from_numpy(digits.data[rows]).float() for rows in (np.s_[:300], np.s_[300:]))
    votes = KNeighborsClassifier(7).fit(known, digits.target[:300]).predict_proba(x)
    targets = torch.nn.functional.one_hot(torch.from_numpy(digits.target[:300])).float()
    nearest = nearest_known(known + 1e3, x + 1e3, 7)  # an offset does not matter
    carried = carry(targets, nearest).numpy()
    assert (np.abs(carried - votes).max(1) < 1e-5).mean() > 0.95  # but for ties


def test_memberships_fall_off_and_add_up() -> None:
    distance = torch.rand(50, 15).sort(dim=1).values + 0.1
    degrees = memberships(distance)
    assert bool((degrees[:, 0] == 1).all())
    assert bool((degrees.diff(dim=1) <= 0).all())
    torch.testing.assert_close(degrees.sum(1), torch.full((50,), math.log2(15)), rtol=1e-3, atol=0)


def test_duplicates_belong_fully() -> None:
    assert memberships(torch.zeros(3, 4)).tolist() == [[1.0] * 4] * 3
