"""Fuzzy c-means."""

from __future__ import annotations

import numpy as np
import scipy.special
from sklearn.cluster import kmeans_plusplus
from sklearn.metrics.pairwise import euclidean_distances

from tell.baselines.base import Clusterer, Labels, Matrix, require


def memberships(squared: Matrix, fuzziness: float) -> Matrix:
    """Memberships (n, k) from squared distances (n, k): u_ij ∝ d_ij^(-2 / (m - 1)).

    In logarithms, so that m close to 1 gives k-means' hard assignment instead of overflow.

    >>> memberships(np.array([[1.0, 4.0]]), 2.0)
    array([[0.8, 0.2]])
    """
    tiny = np.finfo(squared.dtype).tiny
    logits = -np.log(np.maximum(squared, tiny)) / (fuzziness - 1.0)
    return np.asarray(scipy.special.softmax(logits, axis=1))


class FuzzyCMeans(Clusterer):
    """Fuzzy c-means (Dunn 1973; Bezdek 1981).

    Minimises ``Σ_ij u_ij^m ‖x_i − c_j‖²`` with ``Σ_j u_ij = 1`` by alternating the closed forms of
    the memberships u and the centres c; a row's label is its largest membership. As m → 1 this is
    k-means. Time O(n k d) per iteration, memory O(n (d + k)).

    Parameters
    ----------
    n_clusters : int
    fuzziness : float
        The exponent m > 1.
    max_iter, tol
        Stop after `max_iter` iterations, or when no membership moves by more than `tol`.
    random_state : int, RandomState or None
        Seeds the k-means++ centres of the start.

    Attributes
    ----------
    labels_ : ndarray (n,)
    membership_ : ndarray (n, n_clusters)
    cluster_centers_ : ndarray (n_clusters, d)
    n_iter_ : int

    Examples
    --------
    >>> X = [[0.0], [0.2], [5.0], [5.2]]
    >>> FuzzyCMeans(2, random_state=0).fit(X).cluster_centers_.round(1).ravel().tolist()
    [5.1, 0.1]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fuzziness: float = 2.0,
        max_iter: int = 300,
        tol: float = 1e-5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.fuzziness = fuzziness
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(
            self.fuzziness > 1,
            f"fuzziness must be above 1, got {self.fuzziness!r}; use kmeans for the hard limit",
        )
        centers, _ = kmeans_plusplus(X, self.n_clusters, random_state=rng)
        u = memberships(euclidean_distances(X, centers, squared=True), self.fuzziness)
        for step in range(1, self.max_iter + 1):  # noqa: B007
            weights = u**self.fuzziness
            centers = (weights.T @ X) / weights.sum(axis=0)[:, None]
            previous = u
            u = memberships(euclidean_distances(X, centers, squared=True), self.fuzziness)
            if np.abs(u - previous).max() <= self.tol:
                break
        self.membership_, self.cluster_centers_, self.n_iter_ = u, centers, step
        return np.asarray(u.argmax(axis=1), dtype=np.int64)
