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


def fed(model: RiverTELL, rows: list[dict[Any, Any]]) -> tuple[int, int]:
    """Rows that were learned or wait, and rows that were refused."""
    refused = 0
    for row in rows:
        try:
            model.learn_one(row)
        except InputError:
            refused += 1
    return len(rows) - refused, refused


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("glitch", [1e20, -1e20, 3e19, 1e200, pytest.param(10**400, id="huge")])
@pytest.mark.parametrize("at", [0, 2, 50])
def test_a_glitch_is_refused_and_the_rest_is_learned(geometry: Any, glitch: float, at: int) -> None:
    model, twin = (RiverTELL(3, geometry=geometry, batch_rows=8, seed=0) for _ in range(2))
    rows: list[dict[Any, Any]] = [dict(row) for row in ROWS[:203]]
    assert fed(model, rows[:at]) == (at, 0)
    with pytest.raises(InputError, match=r"features must.*(finite|scale)"):
        model.learn_one({**rows[0], "p0": glitch})
    assert fed(model, rows[at:]) == (203 - at, 0)
    fed(twin, rows)
    np.testing.assert_array_equal(model.model.cluster_centers_, twin.model.cluster_centers_)
    assert model.model.n_seen_ == 203


def test_long_rows_below_the_limit_are_learned() -> None:
    for geometry in ("sphere", "euclidean"):
        model = RiverTELL(2, geometry=geometry, batch_rows=4, seed=0)  # type: ignore[arg-type]
        long = [{"a": sign * 9e17, "b": 1e17} for sign in (1, -1)] * 20
        assert fed(model, long) == (40, 0)
        assert np.isfinite(model.model.cluster_centers_).all()
        assert model.predict_one(long[0]) != model.predict_one(long[1])


def test_a_feature_that_is_left_aside_may_be_long() -> None:
    model = RiverTELL(2, batch_rows=1, seed=0)
    fed(model, [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}])
    model.learn_one({"a": 1.0, "b": 0.0, "late": 1e30})
    assert model.model.n_seen_ == 3


def test_a_batch_that_fails_is_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RiverTELL(3, batch_rows=8, seed=0)
    fed(model, ROWS[:3])
    learn, failures = model.model.partial_fit, [InputError("poisoned")]

    def failing(X: Any) -> Any:
        if failures:
            raise failures.pop()
        return learn(X)

    monkeypatch.setattr(model.model, "partial_fit", failing)
    assert fed(model, ROWS[3:11]) == (7, 1)
    assert fed(model, ROWS[11:27]) == (16, 0)
    assert model.model.n_seen_ == 3 + 16  # the eight that failed are gone


def test_an_interrupted_batch_is_learned_later(monkeypatch: pytest.MonkeyPatch) -> None:
    model = RiverTELL(3, batch_rows=8, seed=0)
    fed(model, ROWS[:10])

    def interrupted(X: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(model.model, "partial_fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.learn_one(ROWS[10])
    monkeypatch.undo()
    model.learn_one(ROWS[11])
    assert model.model.n_seen_ == 12


def test_rows_without_a_direction_do_not_pile_up() -> None:
    model = RiverTELL(2, batch_rows=4, seed=0)
    assert fed(model, [{"a": 0.0, "b": 0.0}] * 100)[1] > 0
    assert len(model._waiting) < 6
    assert fed(model, [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 1.0}] * 10)[1] == 0
    assert model.predict_one({"a": 1.0, "b": 0.0}) != model.predict_one({"a": 0.0, "b": 1.0})
