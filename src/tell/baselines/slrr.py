"""Scalable low-rank representation: cluster a sample, code the rest over it."""

from __future__ import annotations

import numpy as np
from sklearn.utils import gen_batches

from tell.baselines.base import Clusterer, Labels, Matrix, require
from tell.baselines.subspace import LRR, unit_columns

BATCH_ROWS = 4096


def residual_labels(
    X: Matrix, dictionary: Matrix, dictionary_labels: Labels, ridge: float
) -> Labels:
    """Label rows by the cluster of the dictionary that rebuilds them best.

    A row x (columns of X, (d, n)) is coded over the dictionary (d, p) by ridge regression; its
    cluster j minimises ``‖x − D δ_j(c)‖ / ‖δ_j(c)‖``, where δ_j keeps the code's entries of j.

    >>> D = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> residual_labels(np.array([[2.0], [0.1]]), D, np.array([0, 1]), 0.01)
    array([0])
    """
    p = dictionary.shape[1]
    coder = np.linalg.solve(dictionary.T @ dictionary + ridge * np.eye(p), dictionary.T)  # (p, d)
    labels = np.empty(X.shape[1], dtype=np.int64)
    for batch in gen_batches(X.shape[1], BATCH_ROWS):
        rows = X[:, batch]
        codes = coder @ rows
        ratios = []
        for cluster in range(dictionary_labels.max() + 1):
            members = dictionary_labels == cluster
            part = codes[members]
            miss = np.linalg.norm(rows - dictionary[:, members] @ part, axis=0)
            ratios.append(miss / np.maximum(np.linalg.norm(part, axis=0), 1e-300))
        labels[batch] = np.argmin(ratios, axis=0)
    return labels


class SLRR(Clusterer):
    """Scalable LRR (Peng et al., TNNLS 2016: representation-based clustering of large data).

    p rows drawn at random are clustered by `LRR`; each other row is coded over them by ridge
    regression and joins the cluster with the smallest normalised residual. Time O(p³ + n p d),
    memory O(p² + n d): linear in n.

    Parameters
    ----------
    n_clusters : int
    n_landmarks : int
        p, the rows that LRR clusters.
    noise_weight : float
        λ of `LRR`.
    ridge : float
        Ridge of the codes, for rows of unit length.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : ndarray (n,)
    landmark_indices_ : ndarray (p,)

    Examples
    --------
    >>> X = [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 3.0], [0.0, 5.0]]
    >>> labels = SLRR(2, random_state=0).fit_predict(X)
    >>> [len(set(labels[:3])), len(set(labels[3:])), len(set(labels))]
    [1, 1, 2]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_landmarks: int = 1000,
        noise_weight: float = 0.1,
        ridge: float = 0.1,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_landmarks = n_landmarks
        self.noise_weight = noise_weight
        self.ridge = ridge
        self.random_state = random_state

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(self.ridge > 0, f"ridge must be above 0, got {self.ridge!r}")
        require(
            self.n_landmarks >= self.n_clusters,
            f"n_landmarks must be at least n_clusters={self.n_clusters}, got {self.n_landmarks}",
        )
        p = min(self.n_landmarks, len(X))
        self.landmark_indices_ = np.sort(rng.choice(len(X), p, replace=False))
        landmarks = X[self.landmark_indices_]
        sample = LRR(self.n_clusters, noise_weight=self.noise_weight, random_state=rng)
        sample_labels = sample.fit(landmarks).labels_
        if p == len(X):
            return sample_labels
        labels = residual_labels(
            unit_columns(X), unit_columns(landmarks), sample_labels, self.ridge
        )
        labels[self.landmark_indices_] = sample_labels
        return labels
