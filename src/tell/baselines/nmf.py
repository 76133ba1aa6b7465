"""Graph-regularised non-negative matrix factorisation."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.preprocessing import normalize

from tell.baselines.base import Clusterer, Labels, Matrix, require
from tell.baselines.nearest_rows import directed_graph, nearest_rows
from tell.baselines.spectral import kmeans_labels

# Keeps the multiplicative updates away from 0 / 0.
TINY = 1e-10


def objective(
    X: Matrix, U: Matrix, V: Matrix, graph: scipy.sparse.csr_array, graph_weight: float
) -> float:
    """``‖X − V Uᵀ‖² + λ Tr(Vᵀ L V)`` with L the Laplacian of the symmetric graph (n, n).

    >>> I = np.eye(2)
    >>> objective(I, I, I, scipy.sparse.csr_array(np.ones((2, 2)) - I), 1.0)
    2.0
    """
    degree = np.asarray(graph.sum(axis=1)).ravel()
    smoothness = np.sum(degree[:, None] * V**2) - np.sum(V * (graph @ V))
    return float(np.sum((X - V @ U.T) ** 2) + graph_weight * smoothness)


def update(
    X: Matrix, U: Matrix, V: Matrix, graph: scipy.sparse.csr_array, graph_weight: float
) -> tuple[Matrix, Matrix]:
    """One multiplicative step for U (d, k), then V (n, k); the objective never rises.

    >>> U, V = update(np.ones((2, 1)), np.ones((1, 1)), np.ones((2, 1)),
    ...               scipy.sparse.csr_array((2, 2)), 0.0)
    >>> (V @ U.T).round(6).tolist()
    [[1.0], [1.0]]
    """
    degree = np.asarray(graph.sum(axis=1)).ravel()
    U = U * (X.T @ V) / np.maximum(U @ (V.T @ V), TINY)
    pull = X @ U + graph_weight * (graph @ V)
    push = V @ (U.T @ U) + graph_weight * degree[:, None] * V
    return U, V * pull / np.maximum(push, TINY)


class GraphNMF(Clusterer):
    """Graph-regularised NMF (Cai et al., TPAMI 2011): the paper's "NMF" and "NMF-LP".

    Minimises ``‖X − V Uᵀ‖² + λ Tr(Vᵀ L V)`` over non-negative U (d, k), V (n, k), where L is the
    Laplacian of the symmetric 0/1 graph of nearest neighbours, by multiplicative updates; k-means
    on the unit rows of V gives the labels. `graph_weight=0` is plain NMF. Rows are scaled to unit
    length first; a column with negative entries is shifted up so that its smallest entry is 0.
    Time O(n d k) per iteration plus the neighbour search, memory O(n (d + k)).

    Parameters
    ----------
    n_clusters : int
        Also the number of factors.
    graph_weight : float
        λ.
    n_neighbors : int
        Neighbours per row in the graph.
    max_iter : int
    tol : float
        Stop when ten steps lower the objective by less than this fraction.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : ndarray (n,)
    components_ : ndarray (n_clusters, d)
    n_iter_ : int

    Examples
    --------
    >>> X = [[1.0, 0.0], [2.0, 0.1], [0.1, 1.0], [0.0, 3.0]]
    >>> labels = GraphNMF(2, n_neighbors=1, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        graph_weight: float = 100.0,
        n_neighbors: int = 5,
        max_iter: int = 500,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.graph_weight = graph_weight
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(
            self.graph_weight >= 0,
            f"graph_weight must be at least 0, got {self.graph_weight!r}",
        )
        require(self.n_neighbors >= 1, f"n_neighbors must be at least 1, got {self.n_neighbors}")
        X = normalize(X - np.minimum(X.min(axis=0), 0.0))
        graph = _symmetric_graph(X, self.n_neighbors)
        U = rng.uniform(0.1, 1.0, (X.shape[1], self.n_clusters))
        V = rng.uniform(0.1, 1.0, (len(X), self.n_clusters))
        reached = np.inf
        for step in range(1, self.max_iter + 1):
            U, V = update(X, U, V, graph, self.graph_weight)
            if step % 10 == 0:
                value = objective(X, U, V, graph, self.graph_weight)
                if reached - value <= self.tol * value:
                    break
                reached = value
        self.n_iter_ = step
        # The product fixes U and V only up to a scale per factor: give U unit columns.
        scale = np.maximum(np.linalg.norm(U, axis=0), TINY)
        self.components_ = (U / scale).T
        return kmeans_labels(normalize(V * scale), self.n_clusters, rng)


def _symmetric_graph(X: Matrix, n_neighbors: int) -> scipy.sparse.csr_array:
    _, index = nearest_rows(X, n_neighbors)
    graph = directed_graph(np.ones(index.shape), index)
    return graph.maximum(graph.T)
