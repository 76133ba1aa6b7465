"""The seven measures: known values, unequal numbers of clusters, and properties."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from tell import evaluate
from tell.exceptions import InputError
from tell.metrics import accuracy, has_class, matched_confusion

LABELS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=1, max_size=40)


def test_accuracy_needs_the_best_matching_not_the_greedy_one() -> None:
    y = [0] * 5 + [1] * 4
    labels = [7] * 3 + [8] * 2 + [7] * 4
    assert accuracy(y, labels) == pytest.approx(6 / 9)  # 0 with 8, 1 with 7


@pytest.mark.parametrize(
    ("y", "labels", "wanted"),
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], 1.0),
        ([0, 0, 1, 1], [0, 0, 0, 0], 0.5),  # fewer clusters than classes
        ([0, 0, 0, 0], [0, 1, 2, 3], 0.25),  # more
        (["cat", "dog", "dog"], [5, 9, 9], 1.0),
        ([1.5, 2.5], [True, False], 1.0),
    ],
)
def test_accuracy_by_hand(y: list[object], labels: list[object], wanted: float) -> None:
    assert accuracy(y, labels) == evaluate(y, labels).acc == wanted


@given(LABELS)
@settings(max_examples=60, deadline=None)
def test_accuracy_is_the_best_of_all_matchings(pairs: list[tuple[int, int]]) -> None:
    y, labels = np.array(pairs).T
    best = max(np.mean(np.array(names)[labels] == y) for names in permutations(range(5)))
    assert accuracy(y, labels) == pytest.approx(best)


@given(LABELS, st.permutations(range(5)))
@settings(max_examples=40, deadline=None)
def test_names_of_clusters_do_not_matter(pairs: list[tuple[int, int]], names: list[int]) -> None:
    y, labels = np.array(pairs).T
    ours, theirs = (evaluate(y, part).as_dict() for part in (labels, np.array(names)[labels]))
    assert ours == pytest.approx(theirs)


@given(LABELS)
@settings(max_examples=40, deadline=None)
def test_confusion_has_its_matches_on_the_diagonal(pairs: list[tuple[int, int]]) -> None:
    y, labels = np.array(pairs).T
    found = matched_confusion(y, labels)
    assert found.counts.shape == (len(set(y)), len(set(labels)))
    assert sorted(found.classes) == sorted(set(y))
    assert sorted(found.clusters) == sorted(set(labels))
    for i, name in enumerate(found.classes):
        for j, cluster in enumerate(found.clusters):
            assert found.counts[i, j] == np.sum((y == name) & (labels == cluster))
    assert np.trace(found.counts) / len(y) == pytest.approx(accuracy(y, labels))


def test_the_others_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 500)
    labels = np.where(rng.random(500) < 0.7, (y + 2) % 5, rng.integers(0, 7, 500))
    found = evaluate(y, labels)
    assert found.as_dict() == {
        "acc": pytest.approx(np.trace(found.confusion.counts) / 500),
        "nmi": pytest.approx(metrics.normalized_mutual_info_score(y, labels)),
        "ari": pytest.approx(metrics.adjusted_rand_score(y, labels)),
        "ami": pytest.approx(metrics.adjusted_mutual_info_score(y, labels)),
        "homogeneity": pytest.approx(metrics.homogeneity_score(y, labels)),
        "completeness": pytest.approx(metrics.completeness_score(y, labels)),
        "v_measure": pytest.approx(metrics.v_measure_score(y, labels)),
    }
    assert all(type(value) is float for value in found.as_dict().values())


def test_a_perfect_clustering_scores_one_everywhere() -> None:
    assert set(evaluate([0, 1, 1, 2], [5, 3, 3, 9]).as_dict().values()) == {1.0}


@pytest.mark.parametrize(
    ("y", "labels"), [([0, 1], [0]), ([], []), ([[0, 1]], [[0, 1]]), ([0, 1], [[0], [1]])]
)
def test_lists_that_do_not_match_are_refused(y: list[object], labels: list[object]) -> None:
    for measure in (evaluate, accuracy, matched_confusion):
        with pytest.raises(InputError, match="classes and labels"):
            measure(y, labels)


NAN = float("nan")


@pytest.mark.parametrize(
    ("y", "shown"),
    [
        (["a", None, "b"], "None"),
        (pd.Series(["a", NAN, "b"]), "nan"),
        (pd.Series(["a", NAN, "b"], dtype=object), "nan"),
        (pd.Series(["a", None, "b"], dtype="string"), "<NA>"),
        (pd.Series([1, None, 2], dtype="Int64"), "(nan|<NA>)"),
        (pd.Series(["a", None, "b"], dtype="category"), "nan"),
        (pd.Series([pd.Timestamp(2020, 1, 1), pd.NaT, pd.Timestamp(2021, 1, 1)]), "None"),
        (pd.Series([pd.Timestamp(2020, 1, 1), pd.NaT, pd.Timestamp(1)], dtype=object), "NaT"),
        ([1.0, NAN, 2.0], "nan"),
        (["a", "", "b"], "''"),
    ],
)
def test_unknown_classes_are_refused(y: Any, shown: str) -> None:
    """The rows that `has_class` leaves out everywhere else."""
    assert has_class(y).tolist() == [True, False, True]
    for measure in (evaluate, accuracy, matched_confusion):
        for pair in ((y, [0, 1, 1]), ([0, 1, 1], y)):
            with pytest.raises(InputError, match=f"got {shown}; leave such rows out"):
                measure(*pair)
    known = has_class(y)
    assert evaluate(np.asarray(y)[known], np.array([0, 1, 1])[known]).acc == 1


def test_classes_that_cannot_be_sorted_are_refused() -> None:
    mixed = np.array(["a", 1, "b"], dtype=object)
    with pytest.raises(InputError, match="got int, str together; turn them into text"):
        evaluate(mixed, [0, 1, 1])
    assert evaluate(mixed.astype(str), [0, 1, 1]).acc == pytest.approx(2 / 3)
