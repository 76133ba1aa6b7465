"""Feature sets of a stated size, and the four IDC measures by numbers that are worked out here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell.exceptions import ParameterError
from tell.explanations import explain
from tell.explanations.gate_measures import (
    diversity,
    faithfulness,
    generalizability,
    uniqueness,
)

from .conftest import Case


def facts_of(case: Any) -> Any:
    return explain(case.model, case.X, map_method=None, quality=False)


def test_gates_by_hand() -> None:
    X = np.array([[0.0, 1.0, 7.0], [0.0, -1.0, 7.0], [3.0, 5.0, 7.0], [3.0, 3.0, 7.0]])
    model = KMeans(2, init=[[0.0, 0.0, 7.0], [3.0, 4.0, 7.0]], n_init=1).fit(X)
    facts = explain(model, X, feature_names=["a", "b", "c"], map_method=None, quality=False)
    one = facts.gates(1)
    assert one.names == (("b",), ("b",))  # 16 of the 25 between the centres
    assert one.exact
    # Row 0 is (0, 1): along a it is nearer to its centre by 9, along b by 9 − 1 = 8.
    assert one.rows.tolist()[0] == [True, False, False]
    assert one.rows.tolist()[1] == [False, True, False]
    three = facts.gates(3)
    assert three.names == (("b", "a"), ("b", "a"))  # the third says nothing, and stays closed
    with pytest.raises(ParameterError, match="features from 1 to 3, got 4"):
        facts.gates(4)


def test_planted_features_are_the_gates(planted: Case) -> None:
    found = facts_of(planted).gates(2)
    assert found.clusters.sum(axis=1).max() == 2
    chosen = set(np.flatnonzero(found.clusters.any(axis=0)).tolist())
    assert chosen == set(planted.informative)
    assert found.rows[:, list(planted.informative)].sum() / found.rows.sum() > 0.95


def test_behind_an_encoder_gates_are_what_stands_out(deep: Case) -> None:
    found = facts_of(deep).gates(6)
    assert not found.exact
    assert found.rows.sum(axis=1).max() == 6
    assert found.clusters.shape == (10, 64)


def test_diversity_counts_a_cluster_with_itself_as_the_program_does() -> None:
    labels = np.repeat([0, 1, 2], 2)
    apart = np.repeat(np.eye(3), 2, axis=0)
    assert diversity(apart, labels, 3) == pytest.approx(100 * (1 - 3 / 6))
    same = np.ones((6, 3))
    assert diversity(same, labels, 3) == pytest.approx(100 * (1 - 9 / 6))
    # {0, 1}, {1, 2} and {2}: Jaccard 1/3, 0 and 1/2 between them.
    mixed = np.repeat([[1, 1, 0], [0, 1, 1], [0, 0, 1]], 2, axis=0)
    assert diversity(mixed, labels, 3) == pytest.approx(100 * (1 - (3 + 2 * (1 / 3 + 0.5)) / 6))


def test_uniqueness_is_the_change_of_gates_by_the_change_of_rows() -> None:
    X = np.array([[0.0, 0.0], [2.0, 0.0], [10.0, 0.0]])
    gates = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    # √2 over 2 for the first two, which are each other's neighbours; 0 over 8 for the third.
    assert uniqueness(X, gates) == pytest.approx((2 * np.sqrt(2) / 2 + 0) / 3)
    assert np.isnan(uniqueness(np.zeros((3, 2)), gates))


def test_faithfulness_falls_with_what_the_model_uses() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 3)) + 5
    y = np.repeat([0, 1], 100)
    X[:, 0] += 20 * y

    def predict(rows: Any) -> Any:
        return (rows[:, 0] > 15).astype(int)

    # Column 0 is open in 150 rows, 1 in 100, 2 in 50; what is left is 0.5 from the first on.
    gates = np.zeros((200, 3))
    gates[:150, 0] = gates[:100, 1] = gates[:50, 2] = 1
    assert np.isnan(faithfulness(X, gates, predict, y))
    # Named last, column 0 falls last: 1, 1, 0.5 against 150, 100, 50.
    late = gates[:, ::-1]
    expected = np.corrcoef([150, 100, 50], [1, 1, 0.5])[0, 1]
    assert faithfulness(X, late, predict, y) == pytest.approx(expected)


def test_generalizability_is_what_a_linear_model_makes_of_gated_rows() -> None:
    random = np.random.default_rng(0)
    X, y = random.normal(size=(200, 2)), np.tile([0, 1], 100)
    X[:, 0] += 8 * y
    telling, silent = np.tile([1.0, 0.0], (200, 1)), np.tile([0.0, 1.0], (200, 1))
    halves = slice(0, 100), slice(100, 200)

    def score(gates: Any) -> float:
        first, second = ((X[part], gates[part], y[part]) for part in halves)
        return generalizability(first, second)

    assert score(telling) > 0.98
    assert score(silent) < 0.7
