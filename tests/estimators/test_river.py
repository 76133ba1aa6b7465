"""The adapter passes river's own checks and says what TELL says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from river import checks, cluster, compose, preprocessing
from sklearn.datasets import load_digits

from tell import TELL, evaluate
from tell.estimators.river import RiverTELL
from tell.exceptions import InputError, ParameterError

X, Y = load_digits(return_X_y=True)
ROWS = [{f"p{i}": float(value) for i, value in enumerate(row)} for row in X]


def _names(check: Callable[..., Any]) -> str:
    return getattr(check, "__name__", repr(check))


@pytest.mark.filterwarnings("ignore::tell.exceptions.TellWarning")
@pytest.mark.parametrize("check", list(checks.yield_checks(RiverTELL())), ids=_names)
def test_rivers_own_checks(check: Callable[..., Any]) -> None:
    check(RiverTELL(seed=0))


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("batch_rows", [1, 32])
def test_it_is_tell_fed_in_batches(geometry: Any, batch_rows: int) -> None:
    rows = 330
    online = RiverTELL(10, geometry=geometry, batch_rows=batch_rows, half_life=500, seed=1)
    for row in ROWS[:rows]:
        online.learn_one(row)
    order = sorted(range(64), key=lambda i: f"p{i}")
    wanted = X[:, order].astype(np.float32)
    direct = TELL(10, geometry=geometry, half_life=500, random_state=1, n_init=1)
    for start, stop in _batches(rows, batch_rows):
        direct.partial_fit(wanted[start:stop])
    np.testing.assert_array_equal(online.model.cluster_centers_, direct.cluster_centers_)
    found = [online.predict_one(row) for row in ROWS[:100]]
    np.testing.assert_array_equal(found, direct.predict(wanted[:100]))


def _batches(rows: int, size: int) -> list[tuple[int, int]]:
    return [(0, 10), *((at, at + size) for at in range(10, rows - size + 1, size))]


def test_it_finds_the_digits_in_a_pipeline() -> None:
    model = compose.Select(*ROWS[0]) | RiverTELL(n_clusters=10, seed=0)
    rival = preprocessing.StandardScaler() | cluster.KMeans(n_clusters=10, seed=0)
    for row in ROWS:
        model.learn_one(row)
        rival.learn_one(row)
    scores = [evaluate(Y, np.array([m.predict_one(row) for row in ROWS])) for m in (model, rival)]
    assert scores[0].nmi > 0.5
    assert scores[0].nmi > scores[1].nmi


def test_bad_rows_are_refused_and_change_nothing() -> None:
    with pytest.raises(ParameterError, match="batch_rows"):
        RiverTELL(batch_rows=0)
    model = RiverTELL(n_clusters=3, batch_rows=1, seed=0)
    for row in ROWS[:20]:
        model.learn_one(row)
    before = model.model.cluster_centers_.copy()
    for bad in ({"p0": float("nan")}, {"p0": "text"}, {"p0": None}):
        with pytest.raises(InputError, match="finite numbers"):
            model.learn_one(bad)
    np.testing.assert_array_equal(model.model.cluster_centers_, before)
    model.learn_one(ROWS[20])
    assert not np.array_equal(model.model.cluster_centers_, before)


def test_rows_that_could_not_be_learned_are_kept() -> None:
    model = RiverTELL(2, seed=0)
    model.learn_one({"a": 0.0, "b": 0.0})
    with pytest.raises(InputError, match="all rows are zero"):
        model.learn_one({"a": 0.0, "b": 0.0})
    model.learn_one({"a": 1.0, "b": 0.0})
    assert model.model.n_seen_ == 3
