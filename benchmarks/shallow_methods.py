"""The nine ways to cluster an array that are compared, and how much each may work.

A method stops where its settings say, and each stops at another loss. So every one is asked with
budgets that grow: tolerances for `TELL`, iterations or rows for the others. One of them is what the
method does without options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Options = dict[str, Any]


@dataclass(frozen=True)
class Method:
    """A way to cluster: `fit` returns the centres, and has labelled every row by then."""

    fit: Callable[[np.ndarray, int, str, int, Options], np.ndarray]
    budgets: tuple[Options, ...]  # from little work to much
    default: int  # the one without options


def fit_tell(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    from tell import TELL

    model = TELL(k, geometry=geometry, n_init=1, random_state=seed, **options)
    return model.fit(X).cluster_centers_


def fit_sklearn(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    from sklearn.cluster import KMeans

    return KMeans(k, n_init=1, random_state=seed, **options).fit(X).cluster_centers_


def fit_onedal(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    from sklearnex.cluster import KMeans

    return KMeans(k, n_init=1, random_state=seed, **options).fit(X).cluster_centers_


def fit_minibatch(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    from sklearn.cluster import MiniBatchKMeans

    return MiniBatchKMeans(k, n_init=1, random_state=seed, **options).fit(X).cluster_centers_


def fit_faiss(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    import faiss

    options = {"max_points_per_centroid": len(X)} | options
    return _by_faiss(faiss.Kmeans, X, k, geometry, seed, options)


def fit_faiss_256(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    import faiss

    return _by_faiss(faiss.Kmeans, X, k, geometry, seed, options)


def fit_super(X: np.ndarray, k: int, geometry: str, seed: int, options: Options) -> np.ndarray:
    import faiss

    return _by_faiss(faiss.SuperKmeans, X, k, geometry, seed, options)


def _by_faiss(
    kind: Any, X: np.ndarray, k: int, geometry: str, seed: int, options: Options
) -> np.ndarray:
    kmeans = kind(X.shape[1], k, spherical=geometry == "sphere", seed=seed + 1, **options)
    kmeans.train(X)
    kmeans.assign(X)
    return kmeans.centroids


def fit_superkmeans(
    X: np.ndarray, k: int, geometry: str, seed: int, options: Options
) -> np.ndarray:
    from superkmeans import SuperKMeans

    model = SuperKMeans(k, X.shape[1], angular=geometry == "sphere", seed=seed + 1, **options)
    centers = np.ascontiguousarray(model.train(X))
    model.assign(X, centers)
    return centers


ITERATIONS: tuple[Options, ...] = ({"max_iter": 2}, {"max_iter": 8}, {"max_iter": 30}, {})
ROUNDS: tuple[Options, ...] = ({"niter": 3}, {"niter": 10}, {"niter": 25})
METHODS = {
    "TELL": Method(
        fit_tell, ({"tol": 0.1}, {"tol": 0.03}, {"tol": 0.01}, {"tol": 0.001}, {}), default=4
    ),
    "scikit-learn": Method(fit_sklearn, ITERATIONS, default=3),
    "oneDAL": Method(fit_onedal, ITERATIONS, default=3),
    "MiniBatchKMeans": Method(
        fit_minibatch,
        ({"batch_size": 256, "max_no_improvement": 5}, {}, {"batch_size": 4096}),
        default=1,
    ),
    "faiss, all rows": Method(fit_faiss, ROUNDS, default=2),
    "faiss, 256 per centre": Method(fit_faiss_256, ROUNDS, default=2),
    "faiss.SuperKmeans": Method(fit_super, ROUNDS, default=2),
    "superkmeans": Method(
        fit_superkmeans, ({}, {"hierarchical": False}, {"hierarchical": False, "iters": 25}), 0
    ),
}
