"""Spectral clustering of a ready-made affinity matrix (Ng, Jordan & Weiss 2002)."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from tell.baselines.base import Labels, Matrix


def kmeans_labels(X: Matrix, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """Labels (n,) of k-means with ten restarts on the rows of X (n, d).

    >>> kmeans_labels(np.array([[0.0], [9.0], [0.1]]), 2, np.random.RandomState(0))
    array([..., ..., ...])
    """
    seed = rng.randint(np.iinfo(np.int32).max)
    model = KMeans(n_clusters, n_init=10, random_state=seed)
    return np.asarray(model.fit_predict(X), dtype=np.int64)


def spectral_labels(affinity: Matrix, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """Cluster n items by a symmetric non-negative affinity (n, n); dense, O(n³) time, O(n²) memory.

    The rows of the leading eigenvectors of D^-1/2 A D^-1/2 are scaled to unit length and given to
    k-means. A dense eigensolver on purpose: a clean block structure repeats the eigenvalue 1,
    where Lanczos iterations may miss copies.

    >>> blocks = np.kron(np.eye(2), np.ones((3, 3)))
    >>> labels = spectral_labels(blocks, 2, np.random.RandomState(0))
    >>> [len(set(labels[:3])), len(set(labels[3:])), len(set(labels))]
    [1, 1, 2]
    """
    degree = affinity.sum(axis=1)
    # A row without any neighbour keeps a zero row instead of dividing by zero.
    scale = 1.0 / np.sqrt(np.where(degree > 0, degree, 1.0))
    n = len(affinity)
    _, vectors = scipy.linalg.eigh(
        affinity * scale[:, None] * scale, subset_by_index=(n - n_clusters, n - 1)
    )
    return kmeans_labels(normalize(vectors), n_clusters, rng)
