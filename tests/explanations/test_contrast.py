"""What one cluster is unlike another, by sums that can be checked by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.cluster import KMeans

from tell import TELL, TablePreparation
from tell.exceptions import InputError
from tell.explanations import Explanation, explain

from .conftest import Case


def facts_of(model: Any, X: Any, **options: Any) -> Explanation:
    return explain(model, X, map_method=None, quality=False, **options)


def test_squared_differences_of_the_centres_by_hand() -> None:
    X = np.array([[0.0, 1.0], [0.0, -1.0], [3.0, 5.0], [3.0, 3.0]])
    model = KMeans(2, init=[[0.0, 0.0], [3.0, 4.0]], n_init=1).fit(X)
    found = facts_of(model, X, feature_names=["width", "height"]).contrast(1, 0)
    # (Ω_j − Ω_k)² is 9 and 16, and the members' mean is the centre.
    assert found.margin == 25
    assert [(one.name, one.amount, one.share) for one in found.differences] == [
        ("height", 16.0, 0.64),
        ("width", 9.0, 0.36),
    ]
    assert found.exact
    assert found.summary == (
        "unlike cluster 0: high height (4 against 0), high width (3 against 0); 100 % of the margin"
    )


@pytest.mark.parametrize("pair", [(0, 1), (1, 2), (2, 0)])
def test_the_amounts_sum_to_the_mean_margin(wine: Case, pair: tuple[int, int]) -> None:
    facts = facts_of(wine.model, wine.X)
    found = facts.contrast(*pair)
    squared = wine.model.transform(wine.X)[wine.model.labels_ == pair[0]] ** 2
    margin = float(np.mean(squared[:, pair[1]] - squared[:, pair[0]]))
    assert found.margin == pytest.approx(margin, rel=1e-4)
    assert sum(one.amount for one in found.differences) == pytest.approx(found.margin)
    assert sum(one.share for one in found.differences) == pytest.approx(1)
    for one in found.differences[:3]:
        inside = wine.X[one.name][wine.model.labels_ == pair[0]].mean()
        assert one.here == pytest.approx(inside)
    assert f"unlike cluster {pair[1]}: " in found.summary


def test_planted_features_tell_clusters_apart(planted: Case) -> None:
    facts = facts_of(planted.model, planted.X)
    for j in range(3):
        for k in {0, 1, 2} - {j}:
            two = {one.index for one in facts.contrast(j, k).differences[:2]}
            assert two == set(planted.informative)


def test_a_category_is_one_item_told_by_its_shares() -> None:
    frame = pd.DataFrame(
        {"city": ["Ulm"] * 20 + ["Bonn"] * 20, "age": [30.0, 31.0] * 10 + [60.0, 61.0] * 10}
    )
    prepare = TablePreparation(types={"city": "category"})
    model = TELL(2, geometry="euclidean", prepare=prepare, random_state=0).fit(frame)
    model.name_clusters({int(model.labels_[0]): "Students"})
    found = facts_of(model, frame).contrast(int(model.labels_[-1]), int(model.labels_[0]))
    assert {one.column for one in found.differences} == {"city", "age"}
    city = next(one for one in found.differences if one.column == "city")
    assert city.words() == "city = Bonn (100 % against 0 %)"
    assert found.summary.startswith("unlike Students: ")


def test_behind_an_encoder_it_says_what_the_members_look_like(deep: Case) -> None:
    facts = facts_of(deep.model, deep.X)
    labels = facts.sample.labels
    j, k = (int(one) for one in np.unique(labels)[:2])
    found = facts.contrast(j, k)
    assert not found.exact
    first = found.differences[0]
    rows = deep.X.reshape(len(deep.X), -1)
    predicted = deep.model.predict(deep.X)
    assert first.here == pytest.approx(rows[predicted == j, first.index].mean(), rel=1e-5)


def test_what_cannot_be_contrasted(wine: Case) -> None:
    facts = facts_of(wine.model, wine.X)
    with pytest.raises(InputError, match="clusters from 0 to 2, got 3"):
        facts.contrast(0, 3)
    with pytest.raises(InputError, match="two different clusters, got 1 twice"):
        facts.contrast(1, 1)


def test_words_that_are_not_there_are_no_reason() -> None:
    random = np.random.default_rng(0)
    groups = np.repeat([0, 1], 30)
    X = (random.random((60, 12)) < 0.15).astype(float)
    X[groups == 0, 0], X[groups == 1, 1] = 2.0, 2.0
    model = TELL(2, random_state=0).fit(X)  # on the sphere
    rows = sparse.csr_array(X)
    facts = facts_of(model, rows, rows=[0, 40])
    for point in facts.points:
        there = {one.index for one in point.contributions if one.amount}
        assert there <= set(np.flatnonzero(X[point.row]).tolist())
        assert point.contributions[0].index == groups[point.row]
        assert point.completeness_error < 1e-9
    labels = facts.sample.labels
    j, k = int(labels[0]), int(labels[-1])
    found = facts.contrast(j, k)
    assert sum(one.amount for one in found.differences) == pytest.approx(found.margin)
    assert found.differences[0].index == 0
    squared = model.transform(X)[labels == j] ** 2
    assert found.margin == pytest.approx(float(np.mean(squared[:, k] - squared[:, j])), rel=1e-4)
    assert not facts.gates(3).rows[X == 0].any()
    dense = facts_of(model, X, rows=[0])  # where 0 is a value like others
    assert dense.points[0].margin == pytest.approx(facts.points[0].margin)
    assert {one.index for one in dense.points[0].contributions if one.amount} > {0}
