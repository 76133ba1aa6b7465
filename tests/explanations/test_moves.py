"""Why rows changed their cluster: counts, counterparts and parts of margins, by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell import TELL, explain_change
from tell.exceptions import InputError
from tell.explanations.moves import _Sums
from tell.explanations.terms import plain_terms
from tell.explanations.view import Assigned

from .conftest import Case


def model(centers: list[list[float]]) -> Any:
    given = np.array(centers)
    fitted = KMeans(len(given), init=given, n_init=1, max_iter=1).fit(given)
    fitted.cluster_centers_ = given
    return fitted


ROWS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [4.0, 1.0], [9.0, 0.0], [10.0, 0.0]])


def test_a_boundary_that_moved_by_hand() -> None:
    old, new = model([[0.0, 0.0], [10.0, 0.0]]), model([[6.0, 3.0], [0.0, 0.0]])
    found = explain_change(old, new, ROWS)
    assert found.counterparts == {0: 1, 1: 0}
    assert (found.n_rows, found.n_moved) == (6, 1)
    (move,) = found.moves
    assert (move.old, move.new, move.kind, move.rows.tolist()) == (0, 0, "boundary", [3])
    assert move.share == 0.25
    # (4, 1): 17 and 37 from the old centres, 17 and 8 from the new ones.
    assert (move.before, move.after) == (-20.0, 9.0)
    amounts = {one.name: one.amount for one in move.reasons}
    # Along the first column 16 − 36 became 16 − 4, along the second 1 − 1 became 1 − 4.
    assert amounts == {"feature 0": 32.0, "feature 1": -3.0}
    assert move.summary.startswith(
        "1 row (25 % of the old cluster 0) moved to the new cluster 0: their margin for it went "
        "from −20 to +9, most along feature 0 (+32)"
    )
    first = move.reasons[0]
    assert first.moved == 4
    assert first.stayed == pytest.approx(1 / 3)
    assert repr(found).startswith("1 of 6 rows moved (17 %)")
    assert found.of(0, 0) is move


def test_a_new_cluster_takes_rows_from_one_that_lives_on() -> None:
    old = model([[0.0, 0.0], [10.0, 0.0]])
    new = model([[0.0, 0.0], [10.0, 0.0], [4.0, 1.0]])
    (move,) = explain_change(old, new, ROWS).moves
    assert (move.kind, move.old, move.new, move.before) == ("new", 0, 2, None)
    assert move.after == pytest.approx(17)
    assert {one.name: one.amount for one in move.reasons} == {"feature 0": 16.0, "feature 1": 1.0}
    assert "which is new, most along feature 0 (+16) and feature 1 (+1)" in move.summary


def test_a_cluster_that_is_gone() -> None:
    old = model([[0.0, 0.0], [10.0, 0.0], [4.0, 1.0]])
    new = model([[0.0, 0.0], [10.0, 0.0]])
    (move,) = explain_change(old, new, ROWS).moves
    assert (move.kind, move.old, move.new) == ("gone", 2, 0)
    assert move.before == pytest.approx(-17)
    assert move.after is None
    assert "cluster 2 has no counterpart any more" in move.summary
    assert all(np.isnan(one.amount) for one in move.reasons)


def test_the_same_model_moves_nothing(wine: Case) -> None:
    found = explain_change(wine.model, wine.model, wine.X)
    assert (found.n_moved, found.moves) == (0, ())
    assert found.counterparts == {0: 0, 1: 1, 2: 2}
    with pytest.raises(InputError, match="no row moved from cluster 0 to 1; moves are none"):
        found.of(0, 1)


def test_amounts_sum_to_the_change_of_the_margin(wine: Case) -> None:
    new = TELL(3, geometry="euclidean", standardize=True, random_state=1).fit(wine.X[:120])
    found = explain_change(wine.model, new, wine.X)
    assert found.moves
    assert sum(len(move.rows) for move in found.moves) == found.n_moved
    labels = wine.model.predict(wine.X), new.predict(wine.X)
    stayed = sum(found.counterparts.get(i) == j for i, j in zip(*labels, strict=True))
    assert found.n_moved == len(wine.X) - stayed
    for move in found.moves:
        assert set(labels[0][move.rows]) == {move.old}
        assert set(labels[1][move.rows]) == {move.new}
        if move.kind == "boundary":
            total = sum(one.amount for one in move.reasons)
            assert total == pytest.approx((move.after or 0) - (move.before or 0), rel=1e-4)
    assert json.loads(found.to_json())["n_moved"] == found.n_moved


def test_models_of_other_columns_are_compared_by_name(wine: Case) -> None:
    fewer = wine.X.drop(columns="proline")
    new = TELL(3, standardize=True, random_state=0).fit(fewer)
    found = explain_change(wine.model, new, wine.X)
    for move in found.moves:
        assert {one.name for one in move.reasons} >= set(fewer.columns)
        if move.kind == "boundary":
            assert "proline" in {one.name for one in move.reasons}
            total = sum(one.amount for one in move.reasons)
            assert total == pytest.approx((move.after or 0) - (move.before or 0), rel=1e-4)


def test_gaps_take_no_part_in_the_means() -> None:
    one = np.zeros(3)
    X, filled = np.array([[1.0], [3.0], [50.0]]), np.array([[False], [False], [True]])
    rows = Assigned(np.arange(3), X, None, *(one.astype(int),) * 2, one, one, one, filled)
    sums = _Sums(1)
    sums.add(rows, plain_terms(["a"]))
    assert (sums.mean[0], sums.variance[0], sums.count) == (2.0, 1.0, 3)


def test_through_an_encoder_margins_are_told_and_parts_are_not(deep: Case) -> None:
    from tell import DeepTELL

    other = DeepTELL(10, epochs=1, n_init=1, random_state=3).fit(deep.X)
    found = explain_change(deep.model, other, deep.X)
    for move in found.moves:
        assert all(np.isnan(one.amount) for one in move.reasons)
        if move.kind == "boundary":
            assert move.before is not None
            assert move.after is not None
            assert move.before <= 1e-4
            assert move.after >= -1e-4
