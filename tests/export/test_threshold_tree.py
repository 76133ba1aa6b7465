"""IMM and ExKMC by numbers that can be worked out by hand, and against trying everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from tell.export.threshold_tree import LEAF, ThresholdTree, grow_tree

Floats = NDArray[np.float64]


def grown(X: Floats, centers: Floats, n_leaves: int) -> tuple[ThresholdTree, Floats]:
    costs = ((X[:, None] - centers[None]) ** 2).sum(axis=2)
    return grow_tree(X, costs, centers, costs.argmin(axis=1), n_leaves), costs


def cost(tree: ThresholdTree, X: Floats, costs: Floats) -> float:
    return float(costs[np.arange(len(X)), tree.predict(X)].sum())


def test_a_cut_without_a_mistake_is_taken_in_the_middle_of_the_widest_gap() -> None:
    X = np.array([[0.0, 0.0], [1.0, 5.0], [0.5, 9.0], [8.0, 1.0], [9.0, 6.0], [8.5, 8.0]])
    centers = np.array([[0.5, 14 / 3], [8.5, 5.0]])
    tree = grown(X, centers, 2)[0]
    # Column 0 parts the rows between 1 and 8; column 1 would part four rows from their centre.
    assert tree.feature.tolist() == [0, LEAF, LEAF]
    assert tree.threshold[0] == 4.5
    assert tree.predict(X).tolist() == [0, 0, 0, 1, 1, 1]
    assert (tree.n_leaves, tree.depth) == (2, 1)


def test_mistakes_are_the_rows_that_leave_their_centre() -> None:
    # One row of cluster 1 lies on the other side of every cut between the centres 2 and 8.
    X = np.array([[0.0], [4.0], [2.0], [1.0], [11.0], [12.0]])
    centers, labels = np.array([[2.0], [8.0]]), np.array([0, 0, 0, 1, 1, 1])
    costs = (X - centers.T) ** 2
    tree = grow_tree(X, costs, centers, labels, 2)
    # Cuts in [2, 4) lose the rows 4 and 1, those in [4, 8) only the row 1: half-way is 6.
    assert tree.threshold[0] == 6.0
    assert int(np.sum(tree.predict(X) != labels)) == 1


def test_a_further_leaf_goes_where_it_takes_most_off_the_loss() -> None:
    # Two centres on a line, and a second column that tells nothing.
    X = np.array([[0.0, 0.0], [0.0, 1.0], [3.0, 0.0], [10.0, 1.0], [10.0, 0.0], [10.0, 1.0]])
    centers = np.array([[0.0, 0.5], [10.0, 0.5], [3.2, 0.5]])
    labels = np.array([0, 0, 0, 1, 1, 1])  # the third cluster has no rows, and gets no leaf
    costs = ((X[:, None] - centers[None]) ** 2).sum(axis=2)
    base = grow_tree(X, costs, centers, labels, 2)
    assert base.n_leaves == 2
    assert set(base.cluster[base.feature == LEAF]) == {0, 1}
    further = grow_tree(X, costs, centers, labels, 3)
    # Splitting off the row at 3 saves 9 − 0.04; every other row lies where its cluster does.
    assert further.threshold.tolist()[0] == 6.5
    assert further.predict(X).tolist() == [0, 0, 2, 1, 1, 1]
    assert abs(cost(base, X, costs) - cost(further, X, costs) - (9 - 0.2**2)) < 1e-9
    # A fourth leaf would gain nothing, so it is not made.
    assert grow_tree(X, costs, centers, labels, 9).n_leaves == 3


def test_columns_that_may_not_be_asked_for() -> None:
    X = np.array([[0.0, 1.0], [1.0, 2.0], [8.0, 5.0], [9.0, 6.0]])
    centers = np.array([[0.5, 1.5], [8.5, 5.5]])
    costs = ((X[:, None] - centers[None]) ** 2).sum(axis=2)
    labels = costs.argmin(axis=1)
    tree = grow_tree(X, costs, centers, labels, 2, usable=np.array([False, True]))
    assert (tree.feature[0], tree.threshold[0]) == (1, 3.5)


def test_centres_that_are_one_share_a_leaf() -> None:
    X = np.array([[0.0], [1.0], [9.0]])
    centers, labels = np.array([[5.0], [5.0]]), np.array([0, 0, 1])
    tree = grow_tree(X, (X - centers.T) ** 2, centers, labels, 2)
    assert tree.n_leaves == 1
    assert tree.predict(X).tolist() == [0, 0, 0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.integers(1, 3))
def test_the_first_cut_makes_the_fewest_mistakes_of_all(seed: int, k: int, d: int) -> None:
    random = np.random.default_rng(seed)
    X = random.integers(0, 7, (20, d)).astype(float)
    centers = random.integers(0, 7, (k, d)).astype(float)
    labels = random.integers(0, k, 20)
    there = np.unique(labels)
    tree = grow_tree(X, np.ones((20, k)), centers, labels, k)
    tried = [
        int(np.sum((X[:, f] <= at) != (centers[labels, f] <= at)))
        for f in range(d)
        for at in np.arange(-0.5, 8)
        if centers[there, f].min() <= at < centers[there, f].max()
    ]
    if not tried:
        assert tree.n_leaves == 1
        return
    f, at = tree.feature[0], tree.threshold[0]
    assert centers[there, f].min() <= at < centers[there, f].max()
    assert int(np.sum((X[:, f] <= at) != (centers[labels, f] <= at))) == min(tried)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 4))
def test_a_further_split_is_the_best_of_all(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    X, centers = random.integers(0, 6, (12, 2)).astype(float), random.normal(3, 2, (k, 2))
    base, costs = grown(X, centers, 1)
    further = grown(X, centers, base.n_leaves + 1)[0]
    leaf_of, best = base.apply(X), cost(base, X, costs)
    for leaf in np.flatnonzero(base.feature == LEAF):
        rows = costs[leaf_of == leaf]
        rest = cost(base, X, costs) - rows[:, base.cluster[leaf]].sum()
        for f in range(2):
            for at in np.arange(-0.5, 7):
                low = X[leaf_of == leaf, f] <= at
                halves = rows[low].sum(axis=0), rows[~low].sum(axis=0)
                if low.any() and not low.all() and halves[0].argmin() != halves[1].argmin():
                    best = min(best, rest + halves[0].min() + halves[1].min())
    assert abs(cost(further, X, costs) - best) < 1e-9


def test_more_leaves_never_cost_more_and_every_cluster_has_one() -> None:
    X = load_digits().data
    model = KMeans(10, n_init=1, random_state=0).fit(X)
    centers = model.cluster_centers_
    trees = [grown(X, centers, n)[0] for n in (10, 20, 40)]
    costs = ((X[:, None] - centers[None]) ** 2).sum(axis=2)
    prices = [cost(tree, X, costs) / model.inertia_ for tree in trees]
    assert [tree.n_leaves for tree in trees] == [10, 20, 40]
    assert prices[0] > prices[1] > prices[2] > 1
    assert set(trees[0].cluster[trees[0].feature == LEAF]) == set(range(10))
