"""Subspace clustering by self-expression: LRR and LSR write each row as a mix of the others."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from tell.baselines.base import Labels, LimitedClusterer, Matrix, require
from tell.baselines.spectral import spectral_labels

# Singular values below this fraction of the largest one are rounding noise.
RANK_TOLERANCE = 1e-6


class LowRank(NamedTuple):
    """The solution Z = basis @ code of LRR: orthonormal basis (n, r), code (r, n)."""

    basis: Matrix
    code: Matrix
    n_iter: int


def low_rank_representation(
    D: Matrix, noise_weight: float, *, max_iter: int = 500, tol: float = 1e-6
) -> LowRank:
    """Solve ``min ‖Z‖_* + λ ‖E‖_{2,1}  subject to  D = D Z + E`` by the inexact ALM.

    Z is searched as Q Y with Q an orthonormal basis of D's row space, where the solution lies
    (Liu et al. 2013, theorem 4.1), so each iteration decomposes a (rank, n) matrix, not (n, n).

    Parameters
    ----------
    D : ndarray (d, n)
        One sample per column.
    noise_weight : float
        λ: larger values explain less of D as noise.

    Examples
    --------
    >>> D = np.outer([1.0, 2.0], [3.0, 4.0])  # rank 1, no noise: Z = v vᵀ
    >>> Z = low_rank_representation(D, 100.0)
    >>> (Z.basis @ Z.code).round(4)
    array([[0.36, 0.48],
           [0.48, 0.64]])
    """
    Q = _row_space(D)
    A = D @ Q  # (d, r)
    inverse = np.linalg.inv(np.eye(Q.shape[1]) + A.T @ A)
    Y = np.zeros((Q.shape[1], D.shape[1]))
    E = np.zeros_like(D)
    price_fit, price_split = np.zeros_like(D), np.zeros_like(Y)
    mu, mu_max, growth = 1e-6, 1e6, 1.1
    threshold = tol * max(1.0, float(np.abs(D).max()))
    for n_iter in range(1, max_iter + 1):  # noqa: B007
        J = _shrink_singular_values(Y + price_split / mu, 1.0 / mu)
        Y = inverse @ (A.T @ (D - E) + J + (A.T @ price_fit - price_split) / mu)
        fitted = D - A @ Y
        E = _shrink_columns(fitted + price_fit / mu, noise_weight / mu)
        gap_fit, gap_split = fitted - E, Y - J
        if max(np.abs(gap_fit).max(), np.abs(gap_split).max()) < threshold:
            break
        price_fit += mu * gap_fit
        price_split += mu * gap_split
        mu = min(mu * growth, mu_max)
    return LowRank(Q, Y, n_iter)


def _row_space(D: Matrix) -> Matrix:
    _, singular, Vt = scipy.linalg.svd(D, full_matrices=False)
    # A matrix of zeros keeps one direction, so that the shapes below stay valid.
    rank = max(1, int((singular > RANK_TOLERANCE * max(singular[0], 1e-300)).sum()))
    return np.asarray(Vt[:rank].T)


def _shrink_singular_values(M: Matrix, amount: float) -> Matrix:
    # The proximal step of the nuclear norm.
    U, singular, Vt = scipy.linalg.svd(M, full_matrices=False, check_finite=False)
    return np.asarray((U * np.maximum(singular - amount, 0.0)) @ Vt)


def _shrink_columns(M: Matrix, amount: float) -> Matrix:
    # The proximal step of the ℓ2,1 norm.
    length = np.linalg.norm(M, axis=0)
    return np.asarray(M * (np.maximum(length - amount, 0.0) / np.maximum(length, 1e-300)))


def low_rank_affinity(Z: LowRank) -> Matrix:
    """The affinity of LRR (Liu et al. 2013, sec. 5.4): ``|N Nᵀ|⁴`` with N the unit rows of U Σ^½.

    U Σ Vᵀ is the skinny SVD of Z; the basis is orthonormal, so the code's SVD gives it.

    >>> low_rank_affinity(LowRank(np.eye(2), np.eye(2), 1))
    array([[1., 0.],
           [0., 1.]])
    """
    U, singular, _ = scipy.linalg.svd(Z.code, full_matrices=False)
    kept = singular > RANK_TOLERANCE * max(singular[0], 1e-300)
    N = Z.basis @ (U[:, kept] * np.sqrt(singular[kept]))
    N /= np.maximum(np.linalg.norm(N, axis=1, keepdims=True), 1e-300)
    return np.asarray((N @ N.T) ** 4)


def least_squares_representation(D: Matrix, ridge: float, *, zero_diagonal: bool) -> Matrix:
    """The closed forms of LSR for samples in the columns of D (d, n); returns Z (n, n).

    With G = (DᵀD + λI)⁻¹: LSR1 (zero diagonal) is ``Z = −G diag(G)⁻¹`` with zeros on the diagonal,
    LSR2 is ``Z = G DᵀD = I − λG``. G comes from the (d, d) side (Woodbury), O(n² d).

    >>> least_squares_representation(np.array([[1.0, 1.0]]), 1.0, zero_diagonal=True)
    array([[0. , 0.5],
           [0.5, 0. ]])
    """
    d, n = D.shape
    small = np.linalg.solve(ridge * np.eye(d) + D @ D.T, D)
    smoother = D.T @ small  # DᵀD (DᵀD + λI)⁻¹, which is LSR2's Z
    if not zero_diagonal:
        return np.asarray(smoother)
    scaled_inverse = np.eye(n) - smoother  # λG; the factor cancels below
    Z = -scaled_inverse / np.diag(scaled_inverse)
    np.fill_diagonal(Z, 0.0)
    return np.asarray(Z)


class LRR(LimitedClusterer):
    """Low-rank representation (Liu et al., TPAMI 2013).

    Solves ``min ‖Z‖_* + λ‖E‖_{2,1}, X = XZ + E`` by the inexact ALM, builds the affinity from Z's
    skinny SVD and clusters it spectrally. Time O(n r²) per iteration for rank r ≤ d, then O(n³)
    for the eigenvectors; memory about 4 n² numbers.

    Parameters
    ----------
    n_clusters : int
    noise_weight : float
        λ, for rows of unit length (the rows are scaled to it).
    max_iter, tol
        Limits of the solver.
    sample : int or None
        Cluster so many rows only; the others take the label of the nearest one (`extended_`).
    memory_limit : float
        In gigabytes; a fit that needs more is refused before it starts.
    random_state : int, RandomState or None

    Attributes
    ----------
    labels_ : ndarray (n,)
    extended_ : ndarray of bool (n,)
        Rows outside the sample, labelled by their nearest sampled row.
    n_iter_ : int

    Examples
    --------
    >>> X = [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]
    >>> labels = LRR(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        noise_weight: float = 0.1,
        max_iter: int = 500,
        tol: float = 1e-6,
        sample: int | None = None,
        memory_limit: float = 4.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.noise_weight = noise_weight
        self.max_iter = max_iter
        self.tol = tol
        self.sample = sample
        self.memory_limit = memory_limit
        self.random_state = random_state

    def memory_needed(self, n_rows: int, n_features: int) -> float:
        """Affinity, its scaled copy and the eigensolver's two work arrays, all (n, n)."""
        return 8.0 * (4 * n_rows**2 + 8 * n_rows * n_features)

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(self.noise_weight > 0, f"noise_weight must be above 0, got {self.noise_weight!r}")
        Z = low_rank_representation(
            unit_columns(X), self.noise_weight, max_iter=self.max_iter, tol=self.tol
        )
        self.n_iter_ = Z.n_iter
        return spectral_labels(low_rank_affinity(Z), self.n_clusters, rng)


class LSR(LimitedClusterer):
    """Least-squares regression (Lu et al., ECCV 2012): LSR1 and LSR2.

    Solves ``min ‖X − XZ‖² + λ‖Z‖²`` in closed form, with a zero diagonal (LSR1) or without (LSR2),
    and clusters ``(|Z| + |Zᵀ|) / 2`` spectrally. Time O(n² d + n³), memory about 4 n² numbers.

    Parameters
    ----------
    n_clusters : int
    zero_diagonal : bool
        True is LSR1, False LSR2.
    ridge : float
        λ, for rows of unit length (the rows are scaled to it).
    sample, memory_limit, random_state
        As in `LRR`.

    Attributes
    ----------
    labels_ : ndarray (n,)
    extended_ : ndarray of bool (n,)
        Rows outside the sample, labelled by their nearest sampled row.

    Examples
    --------
    >>> X = [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 3.0]]
    >>> labels = LSR(2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        zero_diagonal: bool = True,
        ridge: float = 0.4,
        sample: int | None = None,
        memory_limit: float = 4.0,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.zero_diagonal = zero_diagonal
        self.ridge = ridge
        self.sample = sample
        self.memory_limit = memory_limit
        self.random_state = random_state

    def memory_needed(self, n_rows: int, n_features: int) -> float:
        """The representation, its affinity and the eigensolver's two work arrays, all (n, n)."""
        return 8.0 * (4 * n_rows**2 + 3 * n_rows * n_features)

    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        require(self.ridge > 0, f"ridge must be above 0, got {self.ridge!r}")
        Z = np.abs(
            least_squares_representation(
                unit_columns(X), self.ridge, zero_diagonal=self.zero_diagonal
            )
        )
        return spectral_labels((Z + Z.T) / 2, self.n_clusters, rng)


def unit_columns(X: Matrix) -> Matrix:
    """Rows (n, d) as columns (d, n) of unit length in float64, where λ means the same everywhere.

    >>> unit_columns(np.array([[3.0, 4.0]]))
    array([[0.6],
           [0.8]])
    """
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray((X / np.where(length > 0, length, 1.0)).T, dtype=np.float64)
