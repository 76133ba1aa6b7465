"""Weights and rows at the edge of what floats hold give the same clusters, or a clear refusal."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from tell import TELL
from tell.exceptions import InputError
from tell.explanations import explain

RANDOM = np.random.default_rng(0)
CENTERS = RANDOM.normal(size=(3, 5))
TRUTH = RANDOM.integers(3, size=300)
ROWS = CENTERS[TRUTH] + 0.05 * RANDOM.normal(size=(300, 5))
WEIGHT = RANDOM.uniform(0.5, 2, size=300)


def fitted(X: np.ndarray, geometry: str, weight: np.ndarray | None = None, **more: object) -> TELL:
    model = TELL(3, geometry=geometry, random_state=0, **more)  # type: ignore[arg-type]
    return model.fit(X, sample_weight=weight)


def reference_loss(X: np.ndarray, model: TELL, weight: np.ndarray | None = None) -> float:
    """The mean squared distance to the own mean or mean direction, in NumPy and float64 alone."""
    X = X.astype(np.float64)
    if model.geometry == "sphere":
        top = np.abs(X).max(axis=1, keepdims=True)
        X = X / np.where(top > 0, top, 1)
        length = np.linalg.norm(X, axis=1, keepdims=True)
        X = X / np.where(length > 0, length, 1)
    weight = np.ones(len(X)) if weight is None else weight.astype(np.float64)
    total = 0.0
    for k in range(model.n_clusters):
        mine = model.labels_ == k
        if not mine.any() or not weight[mine].any():
            continue
        center = np.average(X[mine], axis=0, weights=weight[mine])
        if model.geometry == "sphere":
            length = float(np.linalg.norm(center))
            # Opposite rows have no mean direction: then every centre is as good.
            center = center / length if length > 1e-5 else model.cluster_centers_[k]
        total += float(weight[mine] @ ((X[mine] - center) ** 2).sum(axis=1))
    return total / float(weight.sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("scale", [1e19, 1e37, 1e-20, 1e-30])
def test_weights_matter_only_relative_to_each_other(
    dtype: type, geometry: str, scale: float
) -> None:
    X, weight = ROWS.astype(dtype), WEIGHT.astype(dtype)
    usual = fitted(X, geometry, weight)
    model = fitted(X, geometry, (weight * dtype(scale)).astype(dtype))
    assert model.loss_ == pytest.approx(usual.loss_, rel=1e-4)
    one, other = (np.argsort(m.cluster_centers_[:, 1]) for m in (model, usual))
    np.testing.assert_allclose(
        model.cluster_centers_[one], usual.cluster_centers_[other], atol=1e-5
    )
    sizes = usual.cluster_sizes_[other] * scale
    np.testing.assert_allclose(model.cluster_sizes_[one], sizes, rtol=1e-4)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("scale", [1.0, 1e19, 1e37, 1e-30])
def test_weights_of_a_stream_may_be_extreme(geometry: str, scale: float) -> None:
    X, weight = ROWS.astype(np.float32), (WEIGHT * scale).astype(np.float32)
    model = TELL(3, geometry=geometry, random_state=0)  # type: ignore[arg-type]
    usual = TELL(3, geometry=geometry, random_state=0)  # type: ignore[arg-type]
    for start, end in pairwise(range(0, 301, 50)):
        model.partial_fit(X[start:end], sample_weight=weight[start:end])
        usual.partial_fit(X[start:end], sample_weight=WEIGHT[start:end].astype(np.float32))
    one, other = (m.cluster_centers_[np.argsort(m.cluster_centers_[:, 1])] for m in (model, usual))
    np.testing.assert_allclose(one, other, atol=1e-4)
    assert model._state.seen == pytest.approx(float(weight.astype(np.float64).sum()), rel=1e-4)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("scale", [1e19, 3e19, 1e30, 1e-20, 1e-23, 1e-30])
def test_the_unit_of_float32_rows_does_not_matter(
    geometry: str, standardize: bool, scale: float
) -> None:
    X = (ROWS * scale).astype(np.float32)
    model = fitted(X, geometry, standardize=standardize)
    assert adjusted_rand_score(TRUTH, model.labels_) == 1.0
    assert np.isfinite(model.cluster_centers_).all()
    assert (model.predict(X) == model.labels_).all()
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert (proba.argmax(axis=1) == model.labels_).all()
    assert np.isfinite(model.transform(X)).all()
    if not standardize:
        assert model.loss_ == pytest.approx(reference_loss(X, model), rel=1e-3)
    before = model.cluster_centers_
    model.partial_fit(X[:60])
    np.testing.assert_allclose(model.cluster_centers_, before, rtol=0.2, atol=0.2 * scale)


def test_one_tiny_row_among_usual_ones_keeps_its_direction() -> None:
    X = ROWS.astype(np.float32)
    X[7] *= np.float32(1e-30)
    model = fitted(X, "sphere")
    assert adjusted_rand_score(TRUTH, model.labels_) == 1.0


def test_a_stream_of_usual_rows_takes_extreme_ones() -> None:
    model = fitted(ROWS.astype(np.float32), "sphere")
    model.partial_fit((ROWS[:30] * 1e25).astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, rtol=1e-5)
    assert adjusted_rand_score(TRUTH, model.predict(ROWS)) == 1.0


def test_beyond_float64_there_is_a_refusal() -> None:
    with pytest.raises(InputError, match="scale its values down"):
        fitted(ROWS * 1e200, "euclidean")


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("scale", [1e19, 1e30, 1e-20, 1e-30])
def test_an_explanation_does_not_depend_on_the_unit(geometry: str, scale: float) -> None:
    X = (ROWS * scale).astype(np.float32)
    facts, usual = (explain(fitted(rows, geometry), rows) for rows in (X, ROWS.astype(np.float32)))
    assert sorted(c.size for c in facts.clusters) == sorted(c.size for c in usual.clusters)
    assert "nan" not in repr(facts)
    effects, expected = (
        sorted(c.effects.tolist() for c in found.clusters) for found in (facts, usual)
    )
    np.testing.assert_allclose(effects, expected, rtol=1e-2)


@given(
    exponent=st.integers(-30, 30),
    offset=st.sampled_from([0.0, 1.0, 1e4, 1e8]),
    shape=st.tuples(st.integers(2, 40), st.integers(1, 6)),
    geometry=st.sampled_from(["sphere", "euclidean"]),
    weighted=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    clusters=st.sampled_from(["one", "few", "all"]),
    twist=st.sampled_from(["none", "duplicates", "zeros"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=120, deadline=None)
def test_the_loss_is_that_of_an_independent_computation(
    exponent: int,
    offset: float,
    shape: tuple[int, int],
    geometry: str,
    weighted: bool,
    dtype: type,
    clusters: str,
    twist: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=shape) + offset
    if twist == "duplicates":
        X = X[rng.integers(len(X), size=len(X))]
    X = (X * 10.0**exponent).astype(dtype)
    if twist == "zeros":
        X[rng.integers(len(X))] = 0
    if not (X.any() and np.isfinite(X).all()):
        return
    weight = rng.uniform(0.1, 5, size=len(X)).astype(dtype) if weighted else None
    k = {"one": 1, "few": min(3, len(X)), "all": len(X)}[clusters]
    model = TELL(k, geometry=geometry, random_state=0, n_init=1)  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sample_weight=weight)
    assert model.labels_.shape == (len(X),)
    assert np.isfinite(model.loss_)
    digits = float(np.finfo(dtype).eps)
    size = (
        1.0 if geometry == "sphere" else float(np.abs(X.astype(np.float64)).max()) ** 2 * shape[1]
    )
    expected = reference_loss(X, model, weight)
    if geometry == "sphere" and twist == "zeros":
        zero = ~X.any(axis=1)
        counts = np.ones(len(X)) if weight is None else weight.astype(np.float64)
        expected = _with_zero_rows(X, model, counts, zero)
    assert model.loss_ == pytest.approx(expected, rel=1e-3, abs=64 * digits * size)


def _with_zero_rows(X: np.ndarray, model: TELL, weight: np.ndarray, zero: np.ndarray) -> float:
    """A row of zeros pulls no centre and costs 2."""
    rest = reference_loss(X, model, np.where(zero, 0, weight)) if (weight[~zero] > 0).any() else 0.0
    return (rest * weight[~zero].sum() + 2 * weight[zero].sum()) / weight.sum()
