"""TELL's distances and soft assignments: right, and of one mind with `predict`, at any scale."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.metrics import euclidean_distances

from tell import TELL
from tell.exceptions import ConvergenceWarning

DIGITS = load_digits().data


def far_clusters(spread: float = 0.1) -> NDArray[np.float32]:
    random = np.random.default_rng(0)
    centers = random.normal(size=(4, 8)) * 1000
    own = centers[random.integers(4, size=400)]
    return (own + random.normal(size=(400, 8)) * spread).astype(np.float32)


def close_pairs(gap: float) -> NDArray[np.float32]:
    random = np.random.default_rng(0)
    centers = np.array([[-1000.0, 0], [-1000, gap], [1000, 0], [1000, gap]])
    own = centers[random.integers(4, size=2000)]
    return (own + random.normal(size=(2000, 2)) * 0.05 * gap).astype(np.float32)


def assert_of_one_mind(model: TELL, X: NDArray[np.floating]) -> None:
    """`predict` names a nearest and a likeliest cluster; only exact ties leave a choice."""
    labels, at = model.predict(X), np.arange(len(X))
    distances, share = model.transform(X), model.predict_proba(X)
    assert np.array_equal(distances[at, labels], distances.min(axis=1))
    assert np.array_equal(share[at, labels], share.max(axis=1))


def test_distances_of_far_clusters_in_float32() -> None:
    X = far_clusters()
    model = TELL(4, geometry="euclidean", random_state=0).fit(X)
    distances = model.transform(X)
    wanted = euclidean_distances(X.astype(np.float64), model.centers_in_units().astype(np.float64))
    assert distances.dtype == np.float32
    # The rows are moved to their mean in float32: that costs their last digit, 1e-4 of 1000.
    np.testing.assert_allclose(distances, wanted, rtol=1e-5, atol=5e-4)
    assert distances.min(axis=1).min() > 0
    assert_of_one_mind(model, X)


@pytest.mark.parametrize("gap", [1.0, 0.1])
def test_close_pairs_far_out_in_float32(gap: float) -> None:
    X = close_pairs(gap)
    model = TELL(4, geometry="euclidean", random_state=0).fit(X)
    assert np.array_equal(model.labels_, model.predict(X))
    assert_of_one_mind(model, X)
    assert len(np.unique(model.predict(X[X[:, 0] > 0]))) == 2
    own = model.transform(X).min(axis=1)
    assert np.median(own) == pytest.approx(0.05 * gap * 1.18, rel=0.1)  # Rayleigh's median


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("k", [3, 40])
def test_ordinary_rows_are_of_one_mind(geometry: str, k: int) -> None:
    X = np.random.default_rng(0).normal(size=(20_000, 5)).astype(np.float32)
    model = TELL(k, geometry=geometry, n_init=1, random_state=0).fit(X)
    assert np.array_equal(model.labels_, model.predict(X))
    assert_of_one_mind(model, X)


def test_sparse_distances_equal_dense_ones() -> None:
    X = DIGITS.astype(np.float32)
    model = TELL(10, geometry="euclidean", n_init=1, random_state=0).fit(sp.csr_array(X))
    np.testing.assert_allclose(model.transform(sp.csr_array(X)), model.transform(X), rtol=2e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_soft_assignment_of_a_far_row_to_clusters_without_spread(dtype: type) -> None:
    X = np.array([[0, 0], [1, 0], [0, 1]], dtype=dtype).repeat(5, axis=0)
    model = TELL(3, geometry="euclidean", random_state=0).fit(X)
    far = np.array([[1e5, 0]], dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        share = model.predict_proba(far)
    assert share.dtype == dtype
    assert share.sum() == pytest.approx(1)
    assert share[0, model.predict(far)[0]] == 1


@pytest.mark.parametrize("temperature", [0.0, 1e-60])
def test_soft_assignment_of_tiny_rows_is_not_flat(temperature: float) -> None:
    X = (close_pairs(500.0) * 1e-21).astype(np.float32)
    model = TELL(4, geometry="euclidean", temperature=temperature, random_state=0).fit(X)
    assert 0 < model.loss_ < 1e-34
    share = model.predict_proba(X)
    assert share.max(axis=1).min() > 0.9
    assert_of_one_mind(model, X)


def test_max_iter_bounds_the_default_search_and_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        model = TELL(20, max_iter=1, n_init=1, random_state=0).fit(DIGITS)
    assert model.n_iter_ == 1
