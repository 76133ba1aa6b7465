"""What every own baseline shares: checking the input, the memory limit, labels by sample."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from tell.exceptions import InputError, ParameterError

Matrix = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]

GIGABYTE = 1e9


def require(holds: bool, message: str) -> None:
    """Refuse a parameter with one sentence: name, rule, value, remedy."""
    if not holds:
        raise ParameterError(message)


class Clusterer(ClusterMixin, BaseEstimator):
    """Check the rows and `n_clusters`, seed one generator, leave the rest to `_cluster`."""

    n_clusters: int
    random_state: int | np.random.RandomState | None
    labels_: Labels

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X (n, d) into `labels_` (n,); `y` is ignored."""
        X = self._checked(X)
        self.labels_ = self._cluster(X, check_random_state(self.random_state))
        return self

    def _checked(self, X: Any) -> Matrix:
        # Complain about the option before the rows: it is what the caller can mend at once.
        require(
            isinstance(self.n_clusters, (int, np.integer)) and self.n_clusters >= 1,
            f"n_clusters must be an integer of at least 1, got {self.n_clusters!r}",
        )
        X = validate_data(self, X, dtype=[np.float64, np.float32])
        if len(X) < self.n_clusters:
            raise InputError(
                f"n_clusters={self.n_clusters} needs at least {self.n_clusters} rows, "
                f"got n_samples={len(X)}; pass more rows or lower n_clusters"
            )
        return X

    @abstractmethod
    def _cluster(self, X: Matrix, rng: np.random.RandomState) -> Labels:
        """Labels (n,) in 0 .. n_clusters - 1 for checked rows X (n, d)."""


class LimitedClusterer(Clusterer):
    """A clusterer whose memory grows as n², with a limit and a way around it.

    With `sample=m` the method sees m rows drawn at random; every other row takes the label of its
    nearest sampled row and is marked in `extended_` (n,), which is all False otherwise.
    """

    sample: int | None
    memory_limit: float
    extended_: npt.NDArray[np.bool_]

    @abstractmethod
    def memory_needed(self, n_rows: int, n_features: int) -> float:
        """Bytes that a fit of `n_rows` rows holds at its peak, as estimated before it starts."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Cluster the rows of X (n, d) into `labels_` (n,); `y` is ignored."""
        X = self._checked(X)
        rng = check_random_state(self.random_state)
        chosen = self._choose(len(X), rng)
        self._check_memory(len(chosen), X.shape[1])
        labels = self._cluster(X[chosen], rng)
        self.extended_ = np.ones(len(X), dtype=bool)
        self.extended_[chosen] = False
        self.labels_ = np.empty(len(X), dtype=np.int64)
        self.labels_[chosen] = labels
        if self.extended_.any():
            nearest = KNeighborsClassifier(n_neighbors=1).fit(X[chosen], labels)
            self.labels_[self.extended_] = nearest.predict(X[self.extended_])
        return self

    def _choose(self, n_rows: int, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
        if self.sample is None or self.sample >= n_rows:
            return np.arange(n_rows)
        require(
            self.sample >= self.n_clusters,
            f"sample must be at least n_clusters={self.n_clusters}, got {self.sample}; "
            "draw more rows or lower n_clusters",
        )
        return np.sort(rng.choice(n_rows, self.sample, replace=False))

    def _check_memory(self, n_rows: int, n_features: int) -> None:
        needed = self.memory_needed(n_rows, n_features) / GIGABYTE
        if needed > self.memory_limit:
            raise InputError(
                f"{type(self).__name__} on {n_rows} rows needs about {needed:.1f} GB, more than "
                f"memory_limit={self.memory_limit:g} GB; pass sample=5000 to cluster a sample and "
                "label the other rows by their nearest sampled row, or raise memory_limit"
            )
