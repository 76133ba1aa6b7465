"""The k-nearest-neighbour graph that the graph methods start from."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from sklearn.neighbors import NearestNeighbors

from tell.baselines.base import Matrix


def nearest_rows(X: Matrix, n_neighbors: int) -> tuple[Matrix, Matrix]:
    """Squared distances and indices, both (n, K), of each row's K nearest other rows.

    K is `n_neighbors`, or n - 1 where there are fewer rows.

    >>> squared, index = nearest_rows(np.array([[0.0], [1.0], [5.0]]), 1)
    >>> squared.ravel().tolist(), index.ravel().tolist()
    ([1.0, 1.0, 16.0], [1, 0, 1])
    """
    K = min(n_neighbors, len(X) - 1)
    if K < 1:
        return np.empty((len(X), 0)), np.empty((len(X), 0), dtype=np.int64)
    distances, index = NearestNeighbors(n_neighbors=K).fit(X).kneighbors()
    return distances**2, index


def directed_graph(weights: Matrix, index: Matrix) -> scipy.sparse.csr_array:
    """The sparse (n, n) matrix with `weights[i, j]` on the edge from row i to row `index[i, j]`.

    >>> directed_graph(np.array([[0.5], [2.0]]), np.array([[1], [0]])).toarray()
    array([[0. , 0.5],
           [2. , 0. ]])
    """
    n, K = index.shape
    pointers = np.arange(0, n * K + 1, K) if K else np.zeros(n + 1, dtype=np.int64)
    return scipy.sparse.csr_array((weights.ravel(), index.ravel(), pointers), shape=(n, n))
