"""Landmark-based spectral clustering."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

from tell.baselines.base import Clusterer, Labels, Matrix, require
from tell.baselines.spectral import kmeans_labels


def landmark_codes(X: Matrix, landmarks: Matrix, n_nearest: int) -> scipy.sparse.csr_array:
    """Nadaraya-Watson codes (n, p): Gaussian weights to the r nearest landmarks, rows sum to 1.

    >>> codes = landmark_codes(np.array([[0.0], [9.0]]), np.array([[1.0], [8.0], [99.0]]), 1)
    >>> codes.toarray()
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    finder = NearestNeighbors(n_neighbors=min(n_nearest, len(landmarks))).fit(landmarks)
    distances, index = finder.kneighbors(X)
    # The bandwidth is the mean distance to the landmarks that code a row: no constant to tune.
    # All distances are 0 when every row is a landmark's copy: then any bandwidth will do.
    bandwidth = float(distances.mean()) or 1.0
    # Relative to the nearest landmark: a far-off row keeps weights that sum to one.
    exponents = (distances[:, :1] ** 2 - distances**2) / (2 * bandwidth**2)
    weights = normalize(np.exp(exponents), norm="l1")
    n, r = index.shape
    return scipy.sparse.csr_array(
        (weights.ravel(), index.ravel(), np.arange(0, n * r + 1, r)), shape=(n, len(landmarks))
    )


def left_singular_vectors(codes: scipy.sparse.csr_array, n_vectors: int) -> Matrix:
    """The leading left singular vectors (n, n_vectors) of the codes with columns scaled by D^-1/2.

    They are the eigenvectors of the implied (n, n) affinity Z D⁻¹ Zᵀ, found on its (p, p) side.
    The very first is constant, because every row of Z sums to 1: it tells nothing and is left out,
    as in the authors' program.

    >>> left_singular_vectors(scipy.sparse.csr_array(np.eye(3)), 2).sum(axis=0).round(12)
    array([0., 0.])
    """
    mass = np.asarray(codes.sum(axis=0)).ravel()
    # A landmark that no row uses has an empty column, whatever its scale.
    scaled = codes @ scipy.sparse.diags_array(1.0 / np.sqrt(np.where(mass > 0, mass, 1.0)))
    gram = (scaled.T @ scaled).toarray()
    p = len(gram)
    if p > 1:
        # Z D⁻¹ Zᵀ 1 = 1: its partner on this side is √mass, with the singular value 1.
        gram -= np.outer(np.sqrt(mass), np.sqrt(mass)) / mass.sum()
    n_vectors = max(1, min(n_vectors, p - 1))
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=(p - n_vectors, p - 1))
    return np.asarray(scaled @ (vectors / np.sqrt(np.maximum(values, 1e-12))))


class LSC(Clusterer):
    """Landmark-based spectral clustering (Cai & Chen, IEEE Trans. Cybernetics 2015): LSC-R, LSC-K.

    Each row becomes a sparse mix of its r nearest among p landmarks (kernel regression weights);
    the left singular vectors of the column-normalised codes go to k-means. Time O(n p d) for the
    codes, O(n r² + p³) for the vectors; memory O(n r + p²): linear in n.

    Parameters
    ----------
    n_clusters : int
    landmarks : {"k-means", "random"}
        Centres of a few k-means steps (LSC-K) or rows drawn at random (LSC-R).
    n_landmarks : int
        p; never more than the rows.
    n_nearest : int
        r, landmarks that code a row.
    random_state : int, RandomState or None

    Examples
    --------
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> labels = LSC(2, n_landmarks=4, n_nearest=2, random_state=0).fit_predict(X)
    >>> [len(set(labels[:3])), len(set(labels[3:])), len(set(labels))]
    [1, 1, 2]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        landmarks: str = "k-means",
        n_landmarks: int = 1000,
        n_nearest: int = 5,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.landmarks = landmarks
        self.n_landmarks = n_landmarks
        self.n_nearest = n_nearest
        self.random_state = random_state

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(
            self.landmarks in ("k-means", "random"),
            f'landmarks must be "k-means" or "random", got {self.landmarks!r}',
        )
        require(
            self.n_landmarks >= self.n_clusters,
            f"n_landmarks must be at least n_clusters={self.n_clusters}, got {self.n_landmarks}",
        )
        require(self.n_nearest >= 1, f"n_nearest must be at least 1, got {self.n_nearest}")
        codes = landmark_codes(X, self._landmarks(X, rng), self.n_nearest)
        vectors = left_singular_vectors(codes, self.n_clusters)
        return kmeans_labels(normalize(vectors), self.n_clusters, rng)

    def _landmarks(self, X: Matrix, rng: np.random.RandomState) -> Matrix:
        p = min(self.n_landmarks, len(X))
        chosen = X[rng.choice(len(X), p, replace=False)]
        if self.landmarks == "random" or p == len(X):
            return chosen
        # Landmarks need to spread over the data, not to converge: five steps are enough.
        return np.asarray(KMeans(p, init=chosen, n_init=1, max_iter=5).fit(X).cluster_centers_)
