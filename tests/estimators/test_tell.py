"""TELL beyond scikit-learn's checks: attributes, degenerate input, streams, files, pipelines."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_blobs
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tell
from tell import TELL, NotFittedError
from tell.estimators import tell as module
from tell.exceptions import (
    ConvergenceWarning,
    DriftWarning,
    InputError,
    ModelFileError,
    ParameterError,
)
from tell.persistence import read_model, write_model

GEOMETRIES = ["sphere", "euclidean"]
DIGITS = load_digits().data
WINE = load_wine(as_frame=True).data


def snapshot(model: TELL) -> dict[str, Any]:
    """Everything that must be equal in two equal models."""
    state = model._state
    return {
        "tensors": [*state.memory, state.centers, state.lengths],
        "numbers": (state.seen, state.revived_at, state.watch, model.loss_, model.stream_),
        "labels": model.labels_,
    }


def assert_same(ours: TELL, theirs: TELL) -> None:
    """Equal to the bit."""
    a, b = snapshot(ours), snapshot(theirs)
    assert all(torch.equal(x, y) for x, y in zip(a["tensors"], b["tensors"], strict=True))
    assert a["numbers"] == b["numbers"]
    assert np.array_equal(a["labels"], b["labels"])


# --- what a fit shows --------------------------------------------------------------------------


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_attributes_agree_with_each_other(geometry: str, dtype: type) -> None:
    X = DIGITS.astype(dtype)
    model = TELL(10, geometry=geometry, random_state=0).fit(X)
    seen = X / np.linalg.norm(X, axis=1, keepdims=True) if geometry == "sphere" else X
    squared = np.square(seen[:, None].astype(float) - model.cluster_centers_).sum(axis=2)
    distances = model.transform(X)
    assert model.cluster_centers_.dtype == distances.dtype == model.predict_proba(X).dtype == dtype
    np.testing.assert_allclose(distances**2, squared, rtol=1e-3, atol=1e-4)
    assert np.array_equal(model.labels_, squared.argmin(axis=1))
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.array_equal(model.labels_, TELL(10, geometry=geometry, random_state=0).fit_predict(X))
    assert model.loss_ == pytest.approx(squared.min(axis=1).mean(), rel=1e-4)
    assert model.score(X) == pytest.approx(-model.loss_, rel=1e-4)
    assert np.array_equal(model.cluster_sizes_, np.bincount(model.labels_, minlength=10))
    assert model.n_seen_ == len(X)
    assert model.n_features_in_ == 64
    assert (model.mean_, model.scale_, model.stream_) == (None, None, [])


def test_history_and_runs_tell_how_it_went() -> None:
    model = TELL(10, n_init=4, random_state=0).fit(DIGITS)
    assert len(model.runs_) == 4
    assert all(set(run) == {"seed", "loss", "n_iter", "chosen"} for run in model.runs_)
    chosen = [run for run in model.runs_ if run["chosen"]]
    assert [run["loss"] for run in chosen] == [min(run["loss"] for run in model.runs_)]
    assert model.n_iter_ == chosen[0]["n_iter"]
    assert len(model.history_) == sum(run["n_iter"] for run in model.runs_)
    assert set(model.history_[0]) == {"loss", "rows", "revived", "run", "kept"}


def test_soft_assignment_is_a_softmax_of_distances() -> None:
    model = TELL(5, temperature=0.2, random_state=0).fit(DIGITS)
    weights = np.exp(-(model.transform(DIGITS) ** 2) / 0.2)
    np.testing.assert_allclose(
        model.predict_proba(DIGITS), weights / weights.sum(axis=1, keepdims=True), rtol=1e-8
    )
    default = TELL(5, random_state=0).fit(DIGITS)
    by_loss = TELL(5, temperature=default.loss_, random_state=0).fit(DIGITS)
    np.testing.assert_allclose(default.predict_proba(DIGITS), by_loss.predict_proba(DIGITS))


def test_score_and_fit_weigh_rows_alike() -> None:
    weight = np.random.default_rng(0).integers(0, 4, len(DIGITS)).astype(float)
    model = TELL(10, random_state=0).fit(DIGITS, sample_weight=weight)
    assert model.labels_.shape == (len(DIGITS),)  # rows that do not count have a cluster too
    assert model.score(DIGITS, sample_weight=weight) == pytest.approx(-model.loss_)
    assert model.cluster_sizes_.sum() == weight.sum() == model.n_seen_


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_layer_of_a_model_answers_as_the_model(geometry: str) -> None:
    X = DIGITS + 100
    model = TELL(10, geometry=geometry, random_state=0).fit(X)
    out = model.layer_(torch.from_numpy(X))
    assert np.array_equal(out.labels.numpy(), model.labels_)
    np.testing.assert_allclose(-out.scores.detach(), model.transform(X) ** 2, atol=1e-6)
    assert torch.equal(model.layer_.centers, torch.from_numpy(model.cluster_centers_))
    with torch.inference_mode():
        assert model.layer_(torch.from_numpy(X)).labels.shape == (1797,)


def test_centres_in_the_units_of_the_data() -> None:
    X = WINE.to_numpy()
    means = {}
    for options in ({"geometry": "euclidean"}, {"geometry": "euclidean", "standardize": True}):
        model = TELL(3, random_state=0, **options).fit(X)
        means = np.stack([X[model.labels_ == j].mean(axis=0) for j in range(3)])
        np.testing.assert_allclose(model.centers_in_units(), means, rtol=1e-9)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    np.testing.assert_allclose(model.scale_, X.std(axis=0))
    sphere = TELL(3, random_state=0).fit(X)
    lengths = np.linalg.norm(X, axis=1)
    wanted = [lengths[sphere.labels_ == j].mean() for j in range(3)]
    np.testing.assert_allclose(sphere.center_lengths_, wanted)
    np.testing.assert_allclose(
        sphere.centers_in_units(), sphere.cluster_centers_ * sphere.center_lengths_[:, None]
    )


def test_standardize_equals_a_scaler_before() -> None:
    X = WINE.to_numpy()
    inside = TELL(3, standardize=True, random_state=0).fit(X)
    outside = make_pipeline(StandardScaler(), TELL(3, random_state=0)).fit(X)
    np.testing.assert_allclose(inside.cluster_centers_, outside[-1].cluster_centers_)
    assert np.array_equal(inside.predict(X), outside.predict(X))


def test_given_centres_are_in_the_units_of_the_data() -> None:
    X, y = make_blobs(300, 3, centers=4, cluster_std=0.2, random_state=3)
    start = np.stack([X[y == j].mean(axis=0) for j in range(4)])
    for options in ({}, {"geometry": "euclidean"}, {"geometry": "euclidean", "standardize": True}):
        before = start.copy()
        model = TELL(4, init=start, **options).fit(X)
        assert len(model.runs_) == 1
        assert np.array_equal(start, before)
        if options:
            assert np.array_equal(model.labels_, y)


@pytest.mark.parametrize("init", ["k-means++", "random", "kaiming"])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_the_same_seed_gives_the_same_bits(init: str, geometry: str) -> None:
    first, second = (
        TELL(10, init=init, geometry=geometry, random_state=3).fit(DIGITS) for _ in range(2)
    )
    assert np.array_equal(first.cluster_centers_, second.cluster_centers_)
    assert first.history_ == second.history_


# --- bad and degenerate input ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 2.5}, "n_clusters"),
        ({"n_clusters": True}, "n_clusters"),
        ({"n_init": 0}, "n_init"),
        ({"max_iter": -1}, "max_iter"),
        ({"tol": -1e-4}, "tol"),
        ({"tol": float("nan")}, "tol"),
        ({"temperature": -1}, "temperature"),
        ({"half_life": 0}, "half_life"),
        ({"geometry": "torus"}, "geometry"),
        ({"init": "best"}, "init"),
        ({"init": np.zeros((2, 3))}, "init"),
        ({"init": np.full((8, 64), np.nan)}, "init"),
        ({"init": np.zeros((8, 64))}, "init"),
        ({"device": "abacus"}, "device"),
    ],
)
def test_options_out_of_range_are_named(options: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        TELL(**options).fit(DIGITS[:50])


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_values_that_are_no_numbers_are_refused(geometry: str, value: float, kind: str) -> None:
    X = DIGITS[:40].copy()
    model = TELL(3, geometry=geometry, random_state=0).fit(X)
    X[7, 3] = value
    bad = sp.csr_array(X) if kind == "sparse" else X
    for call in (clone(model).fit, model.partial_fit, model.predict, model.transform, model.score):
        with pytest.raises(InputError, match=r"NaN|infinity"):
            call(bad)
    with pytest.raises(InputError, match=r"NaN|infinity"):  # also while rows are only gathered
        TELL(30, geometry=geometry).partial_fit(bad[6:8])


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_values_too_large_for_any_precision_are_refused(geometry: str) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(InputError, match="scale"):
        TELL(2, geometry=geometry).fit(X * 1e200)
    X = (X * 1e25).astype(np.float32)  # whose squares float64 holds
    loss = TELL(2, geometry=geometry, random_state=0).fit(X).loss_
    same = TELL(2, geometry=geometry, random_state=0).fit(X.astype(float)).loss_
    assert loss == pytest.approx(same, rel=1e-5)


def test_more_clusters_than_rows() -> None:
    with pytest.raises(InputError, match="n_clusters=8 needs at least 8 rows, got n_samples=3"):
        TELL(8).fit(DIGITS[:3])


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_fewer_distinct_rows_than_clusters(geometry: str) -> None:
    X = np.repeat(DIGITS[:3], 50, axis=0)
    with pytest.warns(ConvergenceWarning, match="of n_clusters=8 clusters are empty") as caught:
        model = TELL(8, geometry=geometry, random_state=0).fit(X)
    assert caught[0].filename == __file__
    assert model.loss_ == pytest.approx(0, abs=1e-9)
    assert np.isfinite(model.transform(X)).all()


def test_stopping_early_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        TELL(10, max_iter=1, init="random", random_state=0).fit(DIGITS)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_one_row(geometry: str) -> None:
    model = TELL(1, geometry=geometry).fit([[3.0, 4.0]])
    assert model.predict([[6.0, 8.0]]).tolist() == [0]
    np.testing.assert_allclose(model.centers_in_units(), [[3.0, 4.0]])


def test_rows_of_zeros_pull_no_centre() -> None:
    X = np.vstack([DIGITS[:300], np.zeros((50, 64))])
    with_zeros, without = (TELL(10, random_state=0).fit(part) for part in (X, DIGITS[:300]))
    np.testing.assert_allclose(with_zeros.cluster_centers_, without.cluster_centers_)
    assert not with_zeros.labels_[300:].any()
    np.testing.assert_allclose(np.linalg.norm(with_zeros.cluster_centers_, axis=1), 1)
    with pytest.raises(InputError, match="no direction"):
        TELL(2).fit(np.zeros((5, 3)))
    assert TELL(1, geometry="euclidean").fit(np.zeros((5, 3))).loss_ == 0


@pytest.mark.parametrize("standardize", [False, True])
def test_a_far_origin_costs_no_digits_in_float32(standardize: bool) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100_000)
    X = (rng.normal(size=(200_000, 2)) + 9 * y[:, None] + 1e6).astype(np.float32)
    model = TELL(2, geometry="euclidean", standardize=standardize, random_state=0).fit(X)
    wanted = [X[y == j].mean(axis=0, dtype=np.float64) - 1e6 for j in (0, 1)]
    found = sorted((model.centers_in_units() - 1e6).tolist())
    np.testing.assert_allclose(found, wanted, atol=0.1)
    if standardize:
        np.testing.assert_allclose(model.scale_, X.std(axis=0, dtype=np.float64), rtol=1e-5)
    assert len(np.unique(model.labels_[y == 0])) == 1


def test_constant_columns() -> None:
    X = np.column_stack([DIGITS[:, 20:24], np.full(len(DIGITS), 7.5)])
    model = TELL(4, geometry="euclidean", standardize=True, random_state=0).fit(X)
    assert not model.cluster_centers_[:, 4].any()
    np.testing.assert_allclose(model.centers_in_units()[:, 4], 7.5)


def test_not_fitted() -> None:
    for call in (TELL().predict, TELL().transform, TELL().predict_proba, TELL().score):
        with pytest.raises(NotFittedError, match="fit"):
            call(DIGITS)
    with pytest.raises(NotFittedError):
        TELL().centers_in_units()
    with pytest.raises(NotFittedError):
        TELL().save("nowhere")
    assert not hasattr(TELL(), "cluster_centers_")


@pytest.mark.parametrize("bad", ["fit", "partial_fit"])
def test_a_failed_call_leaves_the_model_as_it_was(bad: str) -> None:
    model = TELL(5, random_state=0).fit(DIGITS)
    before = copy.deepcopy(model)
    for X in (
        DIGITS * np.nan,
        DIGITS[:, :5] if bad == "partial_fit" else DIGITS[:2],
        "missing.csv",
    ):
        with pytest.raises((InputError, OSError)):
            getattr(model, bad)(X)
        assert_same(model, before)
        assert model.n_features_in_ == 64
    model.partial_fit(DIGITS[:50])
    before.partial_fit(DIGITS[:50])
    assert_same(model, before)


def test_a_failed_first_call_leaves_no_trace() -> None:
    model = TELL(5)
    with pytest.raises(InputError):
        model.partial_fit([[np.nan, 1.0]])
    model.partial_fit(DIGITS)
    assert model.n_features_in_ == 64


# --- sparse ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_sparse_equals_dense(geometry: str, dtype: type) -> None:
    X = DIGITS[:500].astype(dtype)
    dense = TELL(10, geometry=geometry, n_init=1, random_state=0).fit(X)
    for kind in (sp.csr_matrix, sp.coo_array):
        model = TELL(10, geometry=geometry, n_init=1, random_state=0).fit(kind(X))
        assert model.cluster_centers_.dtype == dtype
        assert np.array_equal(model.labels_, model.predict(X))
        assert model.loss_ == pytest.approx(dense.loss_, rel=5e-3)
    assert np.array_equal(dense.predict(sp.csr_matrix(X)), dense.labels_)
    np.testing.assert_allclose(dense.transform(sp.csr_array(X)), dense.transform(X), atol=1e-4)


def test_sparse_is_never_made_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.random_array((400, 50_000), density=1e-3, rng=np.random.default_rng(0), format="csr")
    monkeypatch.setattr(type(X), "toarray", lambda *_: pytest.fail("made dense"))
    model = TELL(3, geometry="euclidean", random_state=0, n_init=1).fit(X)
    model.partial_fit(X[:50]).predict(X)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_entries_given_twice_are_added(geometry: str) -> None:
    twice = sp.csr_matrix((np.ones(6), [0, 0, 1, 1, 1, 0], [0, 3, 6]), shape=(2, 2))
    assert not twice.has_canonical_format
    ours, theirs = (
        TELL(1, geometry=geometry).fit(X) for X in (twice, np.array([[2.0, 1.0], [1.0, 2.0]]))
    )
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_)
    assert ours.loss_ == pytest.approx(theirs.loss_)


def test_standardised_sparse_is_refused() -> None:
    with pytest.raises(ParameterError, match="StandardScaler"):
        TELL(3, standardize=True).fit(sp.csr_array(DIGITS))


# --- streams -----------------------------------------------------------------------------------


def stream(model: TELL, X: Any, size: int, weight: np.ndarray | None = None) -> TELL:
    for start in range(0, X.shape[0], size):
        part = slice(start, start + size)
        model.partial_fit(X[part], sample_weight=None if weight is None else weight[part])
    return model


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("size", [1, 7, 800])
def test_one_pass_comes_near_a_fit(geometry: str, size: int) -> None:
    X = np.random.default_rng(0).permutation(DIGITS)[:800]
    model = stream(TELL(10, geometry=geometry, random_state=0), X, size)
    fitted = TELL(10, geometry=geometry, random_state=0).fit(X)
    assert -model.score(X) <= 1.08 * fitted.loss_
    assert model.n_seen_ == model.cluster_sizes_.sum() == len(X)
    assert len(model.labels_) == (800 - 1) % size + 1  # of the last batch


def test_rows_wait_until_there_is_one_for_each_cluster() -> None:
    model = TELL(4, random_state=0)
    for i in range(3):
        model.partial_fit(DIGITS[i : i + 1])
        with pytest.raises(NotFittedError, match=f"seen {i + 1} of the 4"):
            model.predict(DIGITS[:1])
    model.partial_fit(DIGITS[3:4])
    assert set(model.predict(DIGITS[:4])) == {0, 1, 2, 3}
    assert model.n_seen_ == 4


def test_equal_first_rows_are_no_reason_for_a_warning() -> None:
    model = TELL(3, random_state=0)
    for i in (0, 0, 0, 1, 2, 0, 1, 2):
        model.partial_fit(DIGITS[i : i + 1])
    assert len(set(model.predict(DIGITS[:3]))) == 3


def test_rows_without_weight_are_not_learned_but_labelled() -> None:
    weight = (np.arange(200) % 2).astype(float)
    with_others = stream(TELL(5, random_state=0), DIGITS[:200], 10, weight)
    alone = stream(TELL(5, random_state=0), DIGITS[1:200:2], 5)
    np.testing.assert_allclose(with_others.cluster_centers_, alone.cluster_centers_)
    assert with_others.labels_.shape == (10,)
    assert with_others.n_seen_ == 100


def test_a_weight_in_a_stream_is_a_repetition() -> None:
    start = TELL(5, random_state=0).fit(DIGITS[:300])
    weighted, repeated = copy.deepcopy(start), copy.deepcopy(start)
    counts = np.random.default_rng(0).integers(1, 4, 100)
    weighted.partial_fit(DIGITS[300:400], sample_weight=counts)
    repeated.partial_fit(np.repeat(DIGITS[300:400], counts, axis=0))
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_)
    assert weighted.loss_ == pytest.approx(repeated.loss_)
    assert weighted.n_seen_ == repeated.n_seen_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stream_keeps_its_first_precision(dtype: type) -> None:
    other = np.float64 if dtype == np.float32 else np.float32
    model = TELL(5, random_state=0).fit(DIGITS[:300].astype(dtype))
    model.partial_fit(DIGITS[300:400].astype(other), sample_weight=np.ones(100))
    assert model.cluster_centers_.dtype == dtype
    assert model.predict(DIGITS.astype(other)).shape == (1797,)


def two_worlds(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows around four directions, and rows around others."""
    rng = np.random.default_rng(seed)
    axes = np.repeat(np.eye(8), n // 4, axis=0)[rng.permutation(2 * n)]
    rows = axes + 0.15 * rng.normal(size=axes.shape)
    old = axes[:, :4].any(axis=1)
    return rows[old], rows[~old]


@pytest.mark.parametrize("start", ["fit", "partial_fit"])
@pytest.mark.parametrize("size", [1, 50])
def test_a_planted_change_is_reported_once(start: str, size: int) -> None:
    old, new = two_worlds(2000, seed=0)
    model = TELL(4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no alarm on rows like those before
        stream(getattr(model, start)(old[:1000]), old[1000:], size)
    with pytest.warns(DriftWarning, match="half_life") as caught:
        stream(model, new[:400], size)
    assert len([w for w in caught if w.category is DriftWarning]) == 1
    assert caught[0].filename == __file__
    assert model.stream_[-1]["drift"] == 1
    assert max(entry["far_share"] for entry in model.stream_) > 0.9


def test_with_a_half_life_the_centres_follow() -> None:
    old, new = two_worlds(2400, seed=1)
    losses = {}
    for half_life in (None, 100.0):
        model = TELL(4, half_life=half_life, random_state=0).fit(old)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DriftWarning)
            stream(model, new, 50)
        losses[half_life] = -model.score(new)
    usual = -TELL(4, random_state=0).fit(new).score(new)
    assert losses[100.0] < 1.1 * usual
    assert losses[None] > 1.3 * usual
    assert np.isfinite(model.center_lengths_).all()


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("seed", range(4))
def test_stationary_digits_raise_no_alarm(geometry: str, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(1797), 2))
    model = TELL(10, geometry=geometry, random_state=seed)
    stream(model, DIGITS[order], 20)  # warnings are errors
    fitted = TELL(10, geometry=geometry, random_state=seed).fit(DIGITS[order[:400]])
    stream(fitted, DIGITS[order[400:]], 20)


def test_stream_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAM_HISTORY", 16)
    model = stream(TELL(3, random_state=0).fit(DIGITS[:100]), DIGITS[100:200], 2)
    assert len(model.stream_) == 16
    assert model.stream_[-1]["seen"] == 200
    assert [entry["rows"] for entry in model.stream_] == [2] * 16


# --- files -------------------------------------------------------------------------------------


@given(
    cut=st.integers(5, 120),
    size=st.integers(1, 20),
    kind=st.sampled_from(["dense", "float32", "csr_matrix", "csr_array"]),
    weighted=st.booleans(),
    geometry=st.sampled_from(GEOMETRIES),
    state=st.sampled_from(["int", "numpy", "generator"]),
)
@settings(max_examples=15, deadline=None)
def test_going_on_after_a_load_equals_never_having_stopped(
    tmp_path_factory: pytest.TempPathFactory,
    cut: int,
    size: int,
    kind: str,
    weighted: bool,
    geometry: str,
    state: str,
) -> None:
    X = DIGITS[:160].astype(np.float32 if kind == "float32" else float)
    X = getattr(sp, kind)(X) if kind.startswith("csr") else X
    weight = np.random.default_rng(0).random(160) + 0.1 if weighted else None
    seed = {"int": 3, "numpy": np.int64(3), "generator": np.random.RandomState(3)}[state]
    model = TELL(5, geometry=geometry, half_life=200.0, random_state=seed)
    stream(model, X[:cut], size, None if weight is None else weight[:cut])
    folder = tmp_path_factory.mktemp("saved") / "model"
    model.save(folder)
    loaded = tell.load(folder)
    assert isinstance(loaded, TELL)
    assert_same(loaded, model)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    rest = None if weight is None else weight[cut:]
    assert_same(stream(loaded, X[cut:], size, rest), stream(model, X[cut:], size, rest))


@pytest.mark.parametrize("options", [{}, {"geometry": "euclidean", "standardize": True}])
def test_a_loaded_model_is_the_saved_one(options: dict[str, Any], tmp_path: Path) -> None:
    start = WINE.to_numpy()[[0, 70, 150]]
    model = TELL(3, init=start, temperature=0.5, verbose=0, **options).fit(WINE)
    model.save(tmp_path / "model", metadata={"source": "wine", "k": [1, 2]})
    loaded = tell.load(tmp_path / "model")
    assert isinstance(loaded, TELL)
    assert_same(loaded, model)
    assert loaded.metadata_ == {"source": "wine", "k": [1, 2]}
    ours, theirs = loaded.get_params(), model.get_params()
    np.testing.assert_array_equal(ours.pop("init"), theirs.pop("init"))
    assert ours == theirs
    assert loaded.feature_names_in_.tolist() == WINE.columns.tolist()
    for name in ("runs_", "history_", "n_iter_", "n_features_in_"):
        assert getattr(loaded, name) == getattr(model, name)
    for call in ("predict", "predict_proba", "transform", "score"):
        np.testing.assert_array_equal(getattr(loaded, call)(WINE), getattr(model, call)(WINE))
    np.testing.assert_array_equal(loaded.centers_in_units(), model.centers_in_units())
    loaded.save(tmp_path / "model")
    assert tell.load(tmp_path / "model").metadata_ == {"source": "wine", "k": [1, 2]}


def test_a_model_from_a_machine_with_more_devices_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = TELL(3, random_state=0).fit(DIGITS)
    monkeypatch.setattr(model, "device", "cuda:7")
    model.save(tmp_path / "model")
    assert np.array_equal(tell.load(tmp_path / "model").predict(DIGITS), model.labels_)


def test_a_description_that_does_not_fit_its_tensors(tmp_path: Path) -> None:
    model = TELL(3, random_state=0).fit(DIGITS)
    model.save(tmp_path / "model")
    saved = read_model(tmp_path / "model")
    for old, new in (('"n_clusters": 3', '"n_clusters": 4'), ('"loss_"', '"__class__"')):
        config = json.loads(json.dumps(saved.config).replace(old, new))
        assert config != saved.config
        write_model(tmp_path / "model", "TELL", config, saved.tensors)
        with pytest.raises(ModelFileError, match="fit"):
            tell.load(tmp_path / "model")


def test_unfitted_models_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        TELL(5).partial_fit(DIGITS[:2]).save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


# --- scikit-learn's company --------------------------------------------------------------------


def test_names_of_columns_in_and_out() -> None:
    model = TELL(3, standardize=True, random_state=0).fit(WINE)
    assert model.feature_names_in_.tolist() == WINE.columns.tolist()
    assert model.get_feature_names_out().tolist() == ["tell0", "tell1", "tell2"]
    with pytest.raises(InputError, match="feature names"):
        model.predict(WINE[WINE.columns[::-1]])


def test_output_as_frames() -> None:
    model = TELL(3, standardize=True, random_state=0).fit(WINE)
    plain = model.transform(WINE)
    for kind, frame in (("pandas", pd.DataFrame), ("polars", pl.DataFrame)):
        out = model.set_output(transform=kind).transform(WINE)
        assert isinstance(out, frame)
        assert list(out.columns) == ["tell0", "tell1", "tell2"]
        np.testing.assert_array_equal(out.to_numpy(), plain)
    assert np.array_equal(clone(model).fit(pl.from_pandas(WINE)).labels_, model.labels_)


def test_pipeline_and_search() -> None:
    pipeline = make_pipeline(StandardScaler(), TELL(random_state=0))
    search = GridSearchCV(pipeline, {"tell__n_clusters": [1, 3]}, cv=2).fit(WINE)
    assert search.best_params_ == {"tell__n_clusters": 3}
    assert search.predict(WINE).shape == (178,)


def test_clone_and_pickle() -> None:
    model = TELL(5, random_state=0, half_life=300.0).fit(DIGITS[:300])
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "cluster_centers_")
    twins = [pickle.loads(pickle.dumps(model)), copy.deepcopy(model)]
    model.partial_fit(DIGITS[300:400])
    for twin in twins:
        assert_same(twin.partial_fit(DIGITS[300:400]), model)


def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    TELL(3, random_state=0, verbose=1).fit(DIGITS)
    shown = capsys.readouterr()
    assert "fit" in shown.err
    assert "loss" in shown.err
    TELL(3, random_state=0).fit(DIGITS)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_column_with_a_large_mean_is_standardised_like_any_other(dtype: type) -> None:
    X, y = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)
    seconds = 1.7e9 + 1000 * np.random.default_rng(0).normal(size=len(X))
    constant = np.full(len(X), 1e9 / 3)
    X = np.column_stack([X, seconds, constant]).astype(dtype)
    model = TELL(3, geometry="euclidean", standardize=True, random_state=0).fit(X)
    assert model.scale_ is not None
    assert model.scale_[2] == pytest.approx(1000, rel=0.1)
    assert tell.evaluate(y, model.labels_).acc > 0.95
    assert np.abs(model.cluster_centers_[:, 3]).max() < 1e-5  # a constant tells nothing


def test_the_callers_random_state_is_left_alone(tmp_path: Path) -> None:
    model = TELL(3, init="kaiming", random_state=0).fit(DIGITS)
    before = torch.get_rng_state()
    _ = model.layer_
    TELL(3, init="kaiming", random_state=0).fit(DIGITS)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_failed_save_leaves_no_trace(tmp_path: Path) -> None:
    model = TELL(2, random_state=0).fit(DIGITS)
    with pytest.raises(TypeError, match="must be JSON, got object"):
        model.save(tmp_path / "model", metadata={"what": object()})
    model.save(tmp_path / "model", metadata={"count": np.int64(3)})
    assert tell.load(tmp_path / "model").metadata_ == {"count": 3}


def test_a_row_without_weight_changes_no_label() -> None:
    X, more = DIGITS[:900], DIGITS[900:]
    one, other = (TELL(10, random_state=0).fit(X) for _ in range(2))
    one.partial_fit(more, sample_weight=np.ones(len(more)))
    weight = np.append(np.ones(len(more)), 0.0)
    other.partial_fit(np.vstack([more, more[:1]]), sample_weight=weight)
    np.testing.assert_array_equal(one.labels_, other.labels_[:-1])


def test_given_centres_must_have_the_width_of_sparse_rows() -> None:
    with pytest.raises(ParameterError, match=r"shape \(2, 64\), got shape \(2, 5\)"):
        TELL(2, init=np.ones((2, 5))).fit(sp.csr_array(DIGITS))


def test_soft_assignments_do_not_depend_on_the_last_batch(tmp_path: Path) -> None:
    X = WINE.to_numpy()
    model = TELL(3, standardize=True, random_state=0).fit(X)
    before = model.predict_proba(X)
    centers = model.cluster_centers_
    model.partial_fit(X[:1]).partial_fit(model._scaling.undo(centers[:1]))
    assert np.abs(model.predict_proba(X) - before).max() < 0.1
    model.save(tmp_path / "model")
    np.testing.assert_allclose(
        tell.load(tmp_path / "model").predict_proba(X), model.predict_proba(X), rtol=1e-6
    )


def test_drift_is_seen_after_a_fit_to_few_rows() -> None:
    random = np.random.default_rng(0)
    centers = np.eye(4)
    X = np.repeat(centers[:3], 50, axis=0) + 0.05 * random.normal(size=(150, 4))
    model = TELL(3, random_state=0).fit(X)
    others = np.repeat(-centers, 500, axis=0) + 0.05 * random.normal(size=(2000, 4))
    with pytest.warns(DriftWarning, match="the data drifts"):
        model.partial_fit(random.permutation(others))


@pytest.mark.parametrize("size", [1e-15, 1e-30, 1e12])
def test_directions_do_not_depend_on_the_unit(size: float) -> None:
    X = WINE.to_numpy()
    same = TELL(3, random_state=0).fit(X).labels_
    np.testing.assert_array_equal(TELL(3, random_state=0).fit(X * size).labels_, same)


def test_a_path_is_as_good_as_an_array_for_distances(tmp_path: Path) -> None:
    WINE.to_csv(tmp_path / "wine.csv", index=False)
    model = TELL(3, random_state=0).fit(WINE)
    for method in (model.transform, model.predict_proba):
        found = method(str(tmp_path / "wine.csv"))
        np.testing.assert_allclose(found, method(WINE), atol=5e-3)  # files are read as float32


def test_a_gap_is_named_by_row_and_column() -> None:
    frame = WINE.copy()
    frame.loc[7, "ash"] = np.nan
    with pytest.raises(InputError, match="got NaN in row 7, column 'ash'"):
        TELL(3, prepare=False).fit(frame)
    with pytest.raises(InputError, match="got NaN in row 7, column 1"):
        TELL(3).fit(frame[["alcohol", "ash"]].to_numpy())  # without names nothing is prepared
    filled = TELL(3, random_state=0).fit(frame)
    assert filled.preparation_.columns[2].fill == frame["ash"].median()
    model = TELL(3, random_state=0).fit(DIGITS)
    rows = DIGITS.copy()
    rows[5, 3] = np.inf
    with pytest.raises(InputError, match="got infinity in row 5, column 3"):
        model.predict(rows)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_the_layers_own_steps_end_at_the_same_loss(geometry, tmp_path) -> None:
    X = load_digits().data
    lloyd, sgd = (
        TELL(10, geometry=geometry, solver=solver, random_state=0).fit(X)
        for solver in ("lloyd", "sgd")
    )
    assert sgd.loss_ == pytest.approx(lloyd.loss_, rel=0.01)
    assert np.array_equal(sgd.labels_, sgd.predict(X))
    assert [run["chosen"] for run in sgd.runs_].count(True) == 1
    sgd.save(tmp_path / "model")
    assert tell.load(tmp_path / "model").solver == "sgd"
    assert np.array_equal(tell.load(tmp_path / "model").predict(X), sgd.labels_)


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(ParameterError, match="solver must be 'lloyd' or 'sgd', got 'newton'"):
        TELL(2, solver="newton").fit([[0.0, 1.0], [1.0, 0.0]])
