from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from tell.explanations import compare

PLACES = np.array([0.0, 10.0, 20.0, 30.0, 40.0])


def model(*centers: float) -> Any:
    given = np.array(centers, float)[:, None]
    fitted = KMeans(len(given), init=given, n_init=1, max_iter=1).fit(given)
    fitted.cluster_centers_ = given
    return fitted


@pytest.fixture
def rows() -> Any:
    return np.repeat(PLACES, 20)[:, None] + np.tile(np.linspace(-1, 1, 20), 5)[:, None]


def test_a_split_a_merge_and_clusters_that_stay(rows: Any) -> None:
    old = model(0, 10, 25, 40)  # 20 and 30 are one cluster
    new = model(5, 20, 30, 40)  # 0 and 10 are one cluster
    found = compare(old, new, rows)
    events = {fate.kind: (fate.old, fate.new) for fate in found.fates}
    assert events == {"stayed": ((3,), (3,)), "split": ((2,), (1, 2)), "merged": ((0, 1), (0,))}
    assert [found.count(kind) for kind in ("stayed", "split", "merged", "moved")] == [1, 1, 1, 0]
    labels = old.predict(rows), new.predict(rows)
    assert found.agreement == pytest.approx(adjusted_rand_score(*labels))
    assert found.overlap.sum() == 100


def test_the_same_model_stays_as_it_is(rows: Any) -> None:
    found = compare(model(*PLACES), model(*PLACES[::-1]), rows)
    assert found.agreement == 1
    assert {(fate.old, fate.new) for fate in found.fates} == {((i,), (4 - i,)) for i in range(5)}


def test_moved_gone_and_new_clusters_are_all_named(rows: Any) -> None:
    old = model(-5, 5, 500)
    new = model(0, 20, 40, 900)
    found = compare(old, new, rows)
    assert {i for fate in found.fates for i in fate.old} == {0, 1, 2}
    assert {j for fate in found.fates for j in fate.new} == {0, 1, 2, 3}
    assert "gone" in {fate.kind for fate in found.fates}
    assert "new" in {fate.kind for fate in found.fates}


def test_a_piece_of_one_cluster_is_not_gathered_from_several() -> None:
    rows = np.repeat([0.0, 1.0, 10.0], [80, 20, 100])[:, None]
    found = compare(model(0, 10), model(0, 10, 1), rows)
    assert found.overlap.tolist() == [[80, 0, 20], [0, 100, 0]]
    last = found.fates[-1]
    assert last.summary == "cluster 2 split off from 0 (20 % of its rows)"
    assert (last.kind, last.old, last.new, last.kept) == ("split", (0,), (2,), 0.2)


def test_a_cluster_gathered_from_several_says_so() -> None:
    rows = np.repeat([0.0, 4.0, 6.0, 10.0], [60, 40, 40, 60])[:, None]
    found = compare(model(0, 10), model(0, 10, 5), rows)
    assert found.fates[-1].summary == "cluster 2 is new: gathered from several old ones"
