"""A tree of thresholds in place of a clustering, cheap by the clustering's own loss.

Iterative Mistake Minimisation (Dasgupta, Frost, Moshkovitz and Rashtchian, ICML 2020) gives every
cluster one leaf; ExKMC (Frost, Moshkovitz and Rashtchian, 2020) then splits the leaves where that
takes most off the loss. Unlike a decision tree fitted to the labels, what they bring down is the
distance of rows to the centres: a mistake between clusters that are near each other costs little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tell.contract import Floats, Ints, Reals

LEAF = -1
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ThresholdTree:
    """Nodes in the order in which they were made, the root first; every array is (m,).

    A row goes `left` where its `feature` is at most the `threshold`. A leaf has `feature` -1 and
    gives its rows to `cluster`.
    """

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    cluster: Ints

    @property
    def n_leaves(self) -> int:
        return int(np.sum(self.feature == LEAF))

    @property
    def depth(self) -> int:
        """Questions on the longest way to a leaf."""
        deep = np.zeros(len(self.feature), np.int64)
        for node in np.flatnonzero(self.feature != LEAF):  # children come after their parent
            deep[[self.left[node], self.right[node]]] = deep[node] + 1
        return int(deep.max())

    def apply(self, X: Reals) -> Ints:
        """The leaf (n,) that every row (n, d) ends in."""
        here = np.zeros(len(X), np.int64)
        open_rows = np.arange(len(X))
        while len(open_rows := open_rows[self.feature[here[open_rows]] != LEAF]):
            node = here[open_rows]
            low = X[open_rows, self.feature[node]] <= self.threshold[node]
            here[open_rows] = np.where(low, self.left[node], self.right[node])
        return here

    def predict(self, X: Reals) -> Ints:
        """The cluster (n,) of every row (n, d)."""
        return self.cluster[self.apply(X)]


class Cut(NamedTuple):
    """One question, and how good it is: the smallest `score` is best, then the widest `gap`."""

    score: float
    gap: float
    feature: int
    threshold: float
    clusters: tuple[int, int] = (LEAF, LEAF)

    @property
    def rank(self) -> tuple[float, float, int]:
        return self.score, -self.gap, self.feature


class _Node:
    """A node while the tree grows; `rows` are all rows of X that reach it."""

    def __init__(self, rows: Ints, cluster: int = LEAF) -> None:
        self.rows, self.cluster = rows, cluster
        self.cut: Cut | None = None
        self.children: tuple[_Node, _Node] | None = None

    def split(self, cut: Cut, X: Floats) -> tuple[_Node, _Node]:
        low = X[self.rows, cut.feature] <= cut.threshold
        first, second = cut.clusters
        self.cut = cut
        self.children = _Node(self.rows[low], first), _Node(self.rows[~low], second)
        return self.children


def grow_tree(
    X: Floats,
    costs: Floats,
    centers: Floats,
    labels: Ints,
    n_leaves: int,
    *,
    usable: Mask | None = None,
) -> ThresholdTree:
    """Grow a tree with one leaf per cluster that has rows, then up to `n_leaves` of them.

    Parameters
    ----------
    X : (n, d) rows, by the columns that questions are asked of
    costs : (n, k) what it costs to put a row into a cluster: the squared distance to its centre
    centers : (k, d) the centres in the units of X
    labels : (n,) the cluster of every row
    n_leaves : int
    usable : (d,) columns that may be asked for, by default all

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
    >>> centers, labels = np.array([[0.5], [9.5]]), np.array([0, 0, 1, 1])
    >>> tree = grow_tree(X, (X - centers.T) ** 2, centers, labels, 2)
    >>> tree.threshold[0].item(), tree.predict(np.array([[4.0], [6.0]])).tolist()
    (5.0, [0, 1])
    """
    columns = np.arange(X.shape[1]) if usable is None else np.flatnonzero(usable)
    root = _mistake_tree(X, centers, labels, columns)
    leaves = _leaves(root)
    best = {leaf: _best_split(X, costs, leaf, columns) for leaf in leaves}
    while len(best) < n_leaves:
        leaf, cut = min(
            best.items(), key=lambda pair: (np.inf,) if pair[1] is None else pair[1].rank
        )
        if cut is None or cut.score >= 0:  # nothing is left to gain
            break
        del best[leaf]
        best |= {child: _best_split(X, costs, child, columns) for child in leaf.split(cut, X)}
    return _as_arrays(root)


def _mistake_tree(X: Floats, centers: Floats, labels: Ints, columns: Ints) -> _Node:
    """The base tree: each cut separates centres and parts the fewest rows from their own."""
    root = _Node(np.arange(len(X)))
    there = np.unique(labels)
    spread = np.std(X, axis=0)
    # Beside all rows that reach a node, those that reached it together with their centre.
    open_nodes = [(root, np.arange(len(X)), there)]
    while open_nodes:
        node, faithful, clusters = open_nodes.pop()
        cut = None
        if len(clusters) > 1:
            cut = _fewest_mistakes(
                X[faithful], labels[faithful], centers, clusters, columns, spread
            )
        if cut is None:
            sizes = np.bincount(labels[faithful], minlength=len(centers))[clusters]
            node.cluster = int(clusters[np.argmax(sizes)])
            continue
        low = X[faithful, cut.feature] <= cut.threshold
        own = centers[labels[faithful], cut.feature] <= cut.threshold
        left, right = node.split(cut, X)
        side = centers[clusters, cut.feature] <= cut.threshold
        open_nodes.append((left, faithful[low & own], clusters[side]))
        open_nodes.append((right, faithful[~low & ~own], clusters[~side]))
    return root


def _fewest_mistakes(
    X: Floats, labels: Ints, centers: Floats, clusters: Ints, columns: Ints, spread: Floats
) -> Cut | None:
    """The cut between the centres of `clusters` that parts the fewest rows (n, d) from theirs."""
    cuts = (
        _cut_of_column(X[:, f], centers[labels, f], centers[clusters, f], int(f), float(spread[f]))
        for f in columns
    )
    return min((cut for cut in cuts if cut is not None), key=lambda cut: cut.rank, default=None)


def _cut_of_column(
    values: Floats, own: Floats, centers: Floats, feature: int, spread: float
) -> Cut | None:
    """The best cut of one column; `own` (n,) are the centres of the rows there.

    A row is parted from its centre by every threshold in [min(x, μ), max(x, μ)): the mistakes at a
    threshold are the intervals that have begun less those that have ended.
    """
    low, high = centers.min(), centers.max()
    if low == high:
        return None
    places = np.unique(np.concatenate([values, centers]))
    places = places[(places >= low) & (places <= high)]
    begun, ended = np.sort(np.minimum(values, own)), np.sort(np.maximum(values, own))
    at = places[:-1]
    mistakes = np.searchsorted(begun, at, "right") - np.searchsorted(ended, at, "right")
    gaps = np.diff(places)
    best = np.lexsort((-gaps, mistakes))[0]
    gap = gaps[best] / spread if spread > 0 else 0.0
    threshold = _between(places[best], places[best + 1])
    return Cut(float(mistakes[best]), float(gap), feature, threshold)


def _best_split(X: Floats, costs: Floats, leaf: _Node, columns: Ints) -> Cut | None:
    """The split of a leaf that lowers the cost most; its score is minus what is gained."""
    rows = leaf.rows
    if len(rows) < 2:
        return None
    here = costs[rows]
    now = float(here[:, leaf.cluster].sum())
    best: Cut | None = None
    for f in columns:
        cut = _split_of_column(X[rows, f], here, now, int(f))
        if cut is not None and (best is None or cut.rank < best.rank):
            best = cut
    return best


def _split_of_column(values: Floats, costs: Floats, now: float, feature: int) -> Cut | None:
    """The cheapest two halves of the rows by one column, each with the cluster that suits it."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    gaps = np.diff(ordered)
    below = np.cumsum(costs[order], axis=0)
    left, right = below[:-1], below[-1] - below[:-1]
    first, second = left.argmin(axis=1), right.argmin(axis=1)
    sums = left.min(axis=1) + right.min(axis=1)
    # Two halves of one cluster need no question.
    allowed = np.flatnonzero((gaps > 0) & (first != second))
    if not len(allowed):
        return None
    place = allowed[np.lexsort((-gaps[allowed], sums[allowed]))[0]]
    rounding = 1e-12 * (abs(now) + abs(float(sums[place])))
    gain = now - float(sums[place])
    return Cut(
        -gain if gain > rounding else 0.0,
        float(gaps[place]),
        feature,
        _between(ordered[place], ordered[place + 1]),
        (int(first[place]), int(second[place])),
    )


def _between(low: float, high: float) -> float:
    """Half-way, but never the upper value itself.

    >>> _between(1.0, 2.0), _between(1.0, np.nextafter(1.0, 2.0))
    (1.5, 1.0)
    """
    middle = float(low + (high - low) / 2)
    return middle if middle < high else float(low)


def _leaves(root: _Node) -> list[_Node]:
    return [node for node in _walk(root) if node.children is None]


def _walk(root: _Node) -> Sequence[_Node]:
    """All nodes, parents before their children."""
    found, place = [root], 0
    while place < len(found):
        found.extend(found[place].children or ())
        place += 1
    return found


def _as_arrays(root: _Node) -> ThresholdTree:
    nodes = _walk(root)
    number = {id(node): place for place, node in enumerate(nodes)}
    sides = [
        [LEAF if node.children is None else number[id(node.children[side])] for node in nodes]
        for side in (0, 1)
    ]
    return ThresholdTree(
        feature=np.array([LEAF if node.cut is None else node.cut.feature for node in nodes]),
        threshold=np.array([np.nan if node.cut is None else node.cut.threshold for node in nodes]),
        left=np.array(sides[0]),
        right=np.array(sides[1]),
        cluster=np.array([node.cluster for node in nodes]),
    )
