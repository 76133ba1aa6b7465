"""Streams of small batches: the short way of `partial_fit` and `predict` keeps every promise."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import tell.estimators.tell as estimator
from tell import TELL, load
from tell.exceptions import InputError, ParameterError

X = load_digits().data.astype(np.float32)


def follow(model: TELL, rows: np.ndarray, size: int) -> TELL:
    with warnings.catch_warnings(action="ignore"):
        for start in range(0, len(rows), size):
            model.partial_fit(rows[start : start + size])
    return model


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("size", [1, 30, 600])
def test_a_stream_ends_where_the_general_way_ends(
    geometry: Any, size: int, standardize: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"geometry": geometry, "standardize": standardize, "half_life": 700}
    rows = X[600 : 660 if size == 1 else None]
    short = follow(TELL(10, random_state=0, **options).fit(X[:600]), rows, size)
    monkeypatch.setattr(estimator, "is_small", lambda x, state: False)
    monkeypatch.setattr(estimator, "MOST_ROWS", 0)
    general = follow(TELL(10, random_state=0, **options).fit(X[:600]), rows, size)
    np.testing.assert_array_equal(short.labels_, general.labels_)
    np.testing.assert_allclose(short.cluster_centers_, general.cluster_centers_, atol=2e-4)
    assert short.loss_ == pytest.approx(general.loss_, rel=1e-4)
    assert len(short.stream_) == len(general.stream_)
    np.testing.assert_allclose(short.reject_limits(0.05), general.reject_limits(0.05), rtol=1e-2)
    expected = general.predict(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(general.predict(X), expected)
    np.testing.assert_array_equal(np.concatenate([general.predict(x[None]) for x in X]), expected)


@pytest.mark.parametrize("half_life", [None, 150])
@pytest.mark.parametrize("size", [1, 64])
def test_save_and_load_in_between_change_no_bit(
    tmp_path: Path, size: int, half_life: float | None
) -> None:
    rows = X[500 : 500 + 24 * size]
    whole, halves = (TELL(10, half_life=half_life, random_state=1).fit(X[:500]) for _ in range(2))
    follow(whole, rows, size)
    follow(halves, rows[: 8 * size], size).save(tmp_path / "model")
    later = follow(load(tmp_path / "model"), rows[8 * size :], size)
    for name in ("cluster_centers_", "cluster_sizes_", "center_lengths_", "labels_"):
        np.testing.assert_array_equal(getattr(later, name), getattr(whole, name))
    assert later.stream_ == whole.stream_
    np.testing.assert_array_equal(later._state.radii.counts, whole._state.radii.counts)


def test_bad_rows_are_refused_as_ever() -> None:
    model = TELL(10, random_state=0).fit(X)
    before = dict(vars(model))
    for value, word in ((np.nan, "NaN"), (np.inf, "infinity")):
        bad = X[:3].copy()
        bad[1, 2] = value
        for call in (model.partial_fit, model.predict):
            with pytest.raises(InputError, match=f"got {word} in row 1, column 2"):
                call(bad)
    for call in (model.partial_fit, model.predict):
        with pytest.raises(InputError, match="64 features"):
            call(X[:3, :9].copy())
        with pytest.raises(InputError, match="0 sample"):
            call(X[:0])
    assert {k: v for k, v in vars(model).items() if k != "_checked"} == before


def test_parameters_are_checked_when_they_change() -> None:
    model = TELL(10, random_state=0).fit(X).partial_fit(X[:5])
    model.set_params(half_life=-1.0)
    for _ in range(2):
        with pytest.raises(ParameterError, match="half_life"):
            model.partial_fit(X[:5])
    model.set_params(half_life=10.0).partial_fit(X[:5])
    assert model.n_seen_ == len(X) + 10


def test_threads_learn_every_row_while_others_predict() -> None:
    model, found = TELL(10, random_state=0).fit(X[:500]), []

    def learn() -> None:
        for start in range(0, 500, 5):
            model.partial_fit(X[start : start + 5])

    def ask() -> None:
        found.extend(model.predict(X[:1])[0] for _ in range(200))

    threads = [threading.Thread(target=work) for work in (learn, learn, learn, ask)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert model.n_seen_ == 500 + 3 * 500
    assert model.cluster_sizes_.sum() == 2000
    assert len(found) == 200
