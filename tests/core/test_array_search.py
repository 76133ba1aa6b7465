"""Labels in NumPy alone: always the nearest centre, or left to the longer way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tell.core import array_search as module
from tell.core.array_search import LONG, SHORT, first_best, label_array, product, rows_at_once
from tell.core.assignment import DenseRows, assign
from tell.core.layer import Geometry

GEOMETRIES: list[Geometry] = ["sphere", "euclidean"]


def scores(x: Any, centers: Any, geometry: Geometry) -> Any:
    """Minus half the squared distance but for a term of the row, in float64."""
    exact, omega = x.astype(np.float64), centers.astype(np.float64)
    bias = 0.0 if geometry == "sphere" else (omega * omega).sum(axis=1) / 2
    return exact @ omega.T - bias


def rows(random: np.random.Generator, n: int, d: int, k: int, dtype: Any) -> tuple[Any, Any]:
    centers = random.standard_normal((k, d))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    x = centers[random.integers(k, size=n)] + 0.4 * random.standard_normal((n, d))
    return x.astype(dtype), centers.astype(dtype)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    st.sampled_from([1, 2, 40, SHORT, SHORT + 1, 1500, 2500]),
    st.sampled_from([1, 3, LONG - 1, LONG, 90]),
    st.sampled_from([1, 2, 32, 33, 600]),
    st.integers(0, 10**6),
)
@settings(max_examples=40, deadline=None)
def test_no_centre_is_nearer_than_the_one_that_is_found(
    geometry: Geometry, dtype: Any, n: int, d: int, k: int, seed: int
) -> None:
    x, centers = rows(np.random.default_rng(seed), n, d, k, dtype)
    found = label_array(x, centers, geometry)
    if found is None:  # a row lies on top of its centre, where only differences can tell
        assert geometry == "euclidean"
        return
    assert found.dtype == np.int32
    exact = scores(x, centers, geometry)
    own = exact[np.arange(n), found]
    terms = np.linalg.norm(x, axis=1).astype(np.float64) + 1
    assert (exact.max(axis=1) - own <= 8 * d * np.finfo(dtype).eps * terms).all()
    general = assign(DenseRows(torch.from_numpy(x)), torch.from_numpy(centers), geometry)
    differ = general.labels.numpy() != found
    assert (np.abs(exact.max(axis=1) - own)[differ] <= 8 * d * np.finfo(dtype).eps).all()


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("n", [3, 2000])
@pytest.mark.parametrize("k", [4, 40])
def test_a_tie_goes_to_the_first_centre(geometry: Geometry, n: int, k: int) -> None:
    x = np.random.default_rng(0).random((n, 2)) + 1
    found = label_array(x, np.full((k, 2), np.sqrt(0.5)), geometry)
    assert found is not None
    assert not found.any()


@given(
    st.integers(1, 255), st.integers(1, 40), st.integers(1, 4), st.integers(0, 10**6), st.booleans()
)
@settings(max_examples=60, deadline=None)
def test_the_first_of_the_largest(k: int, n: int, values: int, seed: int, long: bool) -> None:
    """Few different values: most columns hold several that are the largest."""
    random = np.random.default_rng(seed)
    scores = random.integers(-values, values, (k, n)).astype(np.float32)
    best, labels = np.empty(n, np.float32), np.empty(n, np.int64 if long else np.int32)
    first_best(scores, best, labels)
    np.testing.assert_array_equal(labels, scores.argmax(axis=0))
    np.testing.assert_array_equal(best, scores.max(axis=0))


def test_what_is_no_number_is_found_in_the_largest() -> None:
    scores, best, labels = np.ones((3, 4)), np.empty(4), np.empty(4, np.int64)
    scores[1, 2] = np.nan
    first_best(scores, best, labels)
    assert np.isnan(best).tolist() == [False, False, True, False]


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_retired_centres_take_no_rows(geometry: Geometry) -> None:
    x, centers = rows(np.random.default_rng(3), 700, 5, 6, np.float64)
    live = np.array([1, 2, 5])
    found = label_array(x, centers, geometry, live)
    np.testing.assert_array_equal(
        found, live[scores(x, centers[live], geometry).argmax(axis=1)].astype(np.int32)
    )
    assert found is not None
    assert found.dtype == np.int32


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, centers = rows(np.random.default_rng(1), 5000, 6, 40, np.float64)
    whole = label_array(x, centers, "sphere")
    monkeypatch.setattr(module, "SCORES_SEARCHED", 64)
    assert rows_at_once(40, 6) == 1024
    np.testing.assert_array_equal(label_array(x, centers, "sphere"), whole)
    x[4000] = np.nan  # in one block of several
    assert label_array(x, centers, "euclidean") is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(3, LONG, SHORT + 1), (40, LONG, SHORT + 1), (3, LONG, 2)])
def test_the_product_is_the_product(shape: tuple[int, int, int], dtype: Any) -> None:
    m, d, n = shape
    random = np.random.default_rng(0)
    a, b = random.random((m, d)).astype(dtype), random.random((n, d)).astype(dtype).T
    found = product(a, b)
    assert found.flags.c_contiguous
    np.testing.assert_allclose(found, a @ b, rtol=1e-5)
