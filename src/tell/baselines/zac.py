"""Zeta-function agglomerative clustering."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse.csgraph
from sklearn.metrics import pairwise_distances_argmin

from tell.baselines.base import Labels, LimitedClusterer, Matrix, require
from tell.baselines.nearest_rows import directed_graph, nearest_rows


class _Union(NamedTuple):
    """The inverse of I − zP for two clusters together, in blocks: A then B.

    With G = (I − zP_AA)⁻¹ and S the inverse of B's Schur complement it is
    [[G + GU S VG, GU S], [S VG, S]], where U = zP_AB and V = zP_BA: far cheaper than a new inverse
    where B is small.
    """

    first: int
    second: int
    GU: Matrix
    S: Matrix
    VG: Matrix


class _Merger:
    """Clusters of rows, their inverses and popularity, and the gain of each pair worth merging."""

    def __init__(self, P: Matrix, start: Labels, z: float) -> None:
        self.P, self.z = P, z
        self.members = {int(c): np.flatnonzero(start == c) for c in np.unique(start)}
        self.inverse = {c: np.linalg.inv(self._part(rows)) for c, rows in self.members.items()}
        # Edges between clusters in both directions: without them no cycle joins the pair.
        touches = np.zeros((len(start), len(start)), dtype=bool)
        source, target = np.nonzero(P)
        touches[start[source], start[target]] = True
        self.touches = touches
        self.gains: dict[tuple[int, int], float] = {}
        for a, b in np.argwhere(np.triu(touches & touches.T, 1)):
            self._weigh(int(a), int(b))

    def _part(self, rows: Matrix) -> Matrix:
        return np.asarray(np.eye(len(rows)) - self.z * self.P[np.ix_(rows, rows)])

    def _union(self, a: int, b: int) -> _Union:
        if len(self.members[a]) < len(self.members[b]):
            a, b = b, a
        rows_a, rows_b, G = self.members[a], self.members[b], self.inverse[a]
        U, V = self.z * self.P[np.ix_(rows_a, rows_b)], self.z * self.P[np.ix_(rows_b, rows_a)]
        out, back = np.flatnonzero(U.any(axis=1)), np.flatnonzero(V.any(axis=0))  # most are 0
        GU, VG = G[:, out] @ U[out], V[:, back] @ G[back]
        return _Union(a, b, GU, np.linalg.inv(self._part(rows_b) - V @ GU), VG)

    def _weigh(self, a: int, b: int) -> None:
        # Incremental popularity: what both sides win by the cycles that the union adds.
        union = self._union(a, b)
        before_a, before_b = (np.diag(self.inverse[c]) for c in (union.first, union.second))
        after_a = before_a + np.einsum("ij,ji->i", union.GU @ union.S, union.VG)
        gain = np.log(after_a / before_a).mean() + np.log(np.diag(union.S) / before_b).mean()
        self.gains[min(a, b), max(a, b)] = float(gain)

    def best_pair(self) -> tuple[int, int] | None:
        return max(self.gains, key=self.gains.__getitem__) if self.gains else None

    def merge(self, a: int, b: int) -> None:
        """Cluster a takes over b's rows and neighbours."""
        first, second, GU, S, VG = self._union(a, b)
        corner = self.inverse[first] + GU @ S @ VG
        joined = np.concatenate([self.members[first], self.members[second]])
        del self.members[b], self.inverse[b]
        self.members[a], self.inverse[a] = joined, np.block([[corner, GU @ S], [S @ VG, S]])
        self.touches[a] |= self.touches[b]
        self.touches[:, a] |= self.touches[:, b]
        self.touches[b] = self.touches[:, b] = False
        self.gains = {pair: g for pair, g in self.gains.items() if not {a, b} & set(pair)}
        for other in np.flatnonzero(self.touches[a] & self.touches[:, a]):
            if other != a:
                self._weigh(a, int(other))


class ZAC(LimitedClusterer):
    """Zeta-function agglomerative clustering (Zhao & Tang, NIPS 2008: "Cyclizing clusters").

    On the directed K-nearest-neighbour graph with weights ``exp(−d² / σ²)``, rows scaled to sum to
    one (P), the zeta function of a cluster gathers all its cycles: ``ln ζ = −ln det(I − zP_C)``.
    A row's popularity is what ln ζ loses without it. Starting from rows linked to their nearest
    neighbour, the pair of clusters whose union raises the mean popularity of both sides the most
    is merged, until `n_clusters` are left. Clusters that share no cycle with any other join the
    cluster of their nearest row, smallest first. Time O(n²) for the pairs plus O(a² b) for a union
    of a and b rows, memory about 3 n² numbers.

    Parameters
    ----------
    n_clusters : int
    n_neighbors : int
        K.
    scale : float
        a in σ² = a · (mean squared distance to the K neighbours).
    z : float
        Weight of a cycle's step, 0 < z < 1.
    sample, memory_limit
        As in `LRR`.
    random_state : int, RandomState or None
        Draws the sample; the method itself has no randomness.

    Attributes
    ----------
    labels_ : ndarray (n,)
    extended_ : ndarray of bool (n,)
        Rows outside the sample, labelled by their nearest sampled row.

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> ZAC(2, n_neighbors=2).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_neighbors: int = 20,
        scale: float = 1.0,
        z: float = 0.01,
        sample: int | None = None,
        memory_limit: float = 4.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.scale = scale
        self.z = z
        self.sample = sample
        self.memory_limit = memory_limit
        self.random_state = random_state

    def memory_needed(self, n_rows: int, n_features: int) -> float:
        """The dense P, the table of touching clusters, and the clusters' inverses, twice."""
        return 8.0 * (3.2 * n_rows**2 + n_rows * n_features)

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(0 < self.z < 1, f"z must be between 0 and 1, got {self.z!r}")
        require(self.scale > 0, f"scale must be above 0, got {self.scale!r}")
        require(self.n_neighbors >= 1, f"n_neighbors must be at least 1, got {self.n_neighbors}")
        squared, index = nearest_rows(X, self.n_neighbors)
        merger = _Merger(
            _transitions(squared, index, self.scale), _links(index, self.n_clusters), self.z
        )
        while len(merger.members) > self.n_clusters:
            merger.merge(*(merger.best_pair() or _lone_pair(X, merger)))
        labels = np.empty(len(X), dtype=np.int64)
        for label, rows in enumerate(merger.members.values()):
            labels[rows] = label
        return labels


def _transitions(squared: Matrix, index: Matrix, scale: float) -> Matrix:
    bandwidth = scale * squared.mean() if squared.size else 1.0
    # Rows are scaled to sum to one, so the nearest row may count as distance 0: no underflow.
    # Bandwidth 0 means duplicated rows only, where any bandwidth gives the same weights.
    weights = np.exp((squared[:, :1] - squared) / (bandwidth or 1.0))
    return np.asarray(directed_graph(weights / weights.sum(axis=1, keepdims=True), index).toarray())


def _links(index: Matrix, n_clusters: int) -> Labels:
    """Rows linked to their nearest row; single rows where that would leave too few clusters."""
    n = len(index)
    nearest = index[:, :1]
    graph = directed_graph(np.ones(nearest.shape), nearest)
    count, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
    return np.asarray(labels if count >= n_clusters else np.arange(n), dtype=np.int64)


def _lone_pair(X: Matrix, merger: _Merger) -> tuple[int, int]:
    """The smallest cluster and the one that owns the row nearest to it."""
    lone = min(merger.members, key=lambda c: len(merger.members[c]))
    others = [c for c in merger.members if c != lone]
    owner = np.repeat(others, [len(merger.members[c]) for c in others])
    rows = np.concatenate([merger.members[c] for c in others])
    inside = X[merger.members[lone]]
    nearest = pairwise_distances_argmin(inside, X[rows])
    gap = np.linalg.norm(inside - X[rows[nearest]], axis=1)
    return int(owner[nearest[gap.argmin()]]), lone
