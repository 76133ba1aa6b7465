"""Fuzzy c-means: its optimality conditions and its limit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score
from sklearn.utils import check_random_state

from tell.baselines.fuzzy import FuzzyCMeans, memberships


def test_memberships_by_hand():
    # m = 3: u ∝ 1 / d, so distances 1 and 3 give 3 : 1.
    np.testing.assert_allclose(memberships(np.array([[1.0, 9.0]]), 3.0), [[0.75, 0.25]])
    # A row on a centre belongs to it.
    np.testing.assert_allclose(memberships(np.array([[0.0, 9.0]]), 2.0), [[1.0, 0.0]], atol=1e-12)


def test_solution_is_a_fixed_point():
    X = load_digits(return_X_y=True)[0][:400]
    model = FuzzyCMeans(4, fuzziness=1.3, tol=1e-9, max_iter=2000, random_state=0).fit(X)
    u = model.membership_
    np.testing.assert_allclose(u.sum(axis=1), 1.0)
    weights = u**1.3
    np.testing.assert_allclose(
        model.cluster_centers_, (weights.T @ X) / weights.sum(axis=0)[:, None], atol=1e-5
    )
    np.testing.assert_array_equal(model.labels_, u.argmax(axis=1))
    assert model.n_iter_ < 2000


def test_small_fuzziness_is_kmeans():
    X = load_digits(return_X_y=True)[0]
    start, _ = kmeans_plusplus(X, 10, random_state=check_random_state(3))
    hard = KMeans(10, init=start, n_init=1, tol=0).fit(X)
    soft = FuzzyCMeans(10, fuzziness=1.001, random_state=3).fit(X)
    assert adjusted_rand_score(hard.labels_, soft.labels_) > 0.98
    inertia = ((X - soft.cluster_centers_[soft.labels_]) ** 2).sum()
    assert inertia == pytest.approx(hard.inertia_, rel=1e-3)


def test_large_fuzziness_blurs_the_memberships():
    X = load_digits(return_X_y=True)[0][:300]
    sharp = FuzzyCMeans(5, fuzziness=1.2, random_state=0).fit(X).membership_.max(axis=1).mean()
    blurred = FuzzyCMeans(5, fuzziness=3.0, random_state=0).fit(X).membership_.max(axis=1).mean()
    assert sharp > 0.8
    assert blurred < 0.3
