"""`RiverTELL`: the streaming side of `TELL` in river's words, one row at a time."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.core.layer import Geometry
from tell.estimators.tell import TELL
from tell.exceptions import InputError, MissingDependencyError, ParameterError

try:
    from river import base
except ImportError:
    raise MissingDependencyError(
        "tell.estimators.river needs river; install it: pip install river"
    ) from None


LONGEST = 1e18  # of a row: float32 still holds squared distances, and sums of many


class RiverTELL(base.Clusterer):
    """`TELL` as a clusterer of river: `learn_one` and `predict_one` on dictionaries.

    Rows are gathered and learned in small batches, which is many times faster than one by one;
    predictions therefore lag by at most `batch_rows` rows. Until `n_clusters` rows have come, all
    are predicted to be in cluster 0.

    The features are those of the rows in the first batch. One that is missing later counts as 0,
    one that appears later is left aside. A row that cannot be learned is refused and leaves no
    trace; if a whole batch fails after all, the error is raised once and the batch is dropped.

    Parameters
    ----------
    n_clusters : int, default=8
    geometry : {"sphere", "euclidean"}, default="sphere"
    half_life : float or None, default=None
        Rows after which an earlier row counts half; None never forgets.
    batch_rows : int, default=32
        Rows that are learned at a time; 1 learns each at once.
    seed : int or None, default=None

    Attributes
    ----------
    model : TELL
        The estimator behind it, without the rows that still wait for their batch.

    Examples
    --------
    >>> from river import stream
    >>> from sklearn.datasets import load_digits
    >>> digits = RiverTELL(n_clusters=10, seed=0)
    >>> for x, _ in stream.iter_sklearn_dataset(load_digits()):
    ...     digits.learn_one(x)
    >>> 0 <= digits.predict_one(x) < 10
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        geometry: Geometry = "sphere",
        half_life: float | None = None,
        batch_rows: int = 32,
        seed: int | None = None,
    ) -> None:
        if batch_rows < 1:
            raise ParameterError(f"batch_rows must be at least 1, got {batch_rows}")
        self.n_clusters = n_clusters
        self.geometry = geometry
        self.half_life = half_life
        self.batch_rows = batch_rows
        self.seed = seed
        self.model = TELL(
            n_clusters, geometry=geometry, half_life=half_life, random_state=seed, n_init=1
        )
        self._waiting: list[dict[Hashable, float]] = []
        self._features: list[Hashable] = []
        self._weight: NDArray[Any] | None = None
        self._bias: NDArray[Any] | float = 0.0

    def learn_one(self, x: dict[Hashable, Any]) -> None:
        """Take one row; every `batch_rows` rows the centres move."""
        self._check(x)
        self._waiting.append(dict(x))
        if len(self._waiting) < (self.batch_rows if self._features else self.n_clusters):
            return
        try:
            self._learn()
        except Exception:
            # The first rows may only lack others beside them, so they wait for some more; apart
            # from that a batch that fails would fail for ever.
            if self._features or len(self._waiting) >= self.n_clusters + self.batch_rows:
                self._waiting = []
            raise

    def _check(self, x: dict[Hashable, Any]) -> None:
        """Refuse a row before it waits: later it would take its whole batch with it."""
        try:
            length = math.hypot(*x.values())
        except (TypeError, ValueError, OverflowError):
            length = math.nan
        if not math.isfinite(length):
            raise InputError(f"features must be finite numbers, got {x!r}; encode or fill them")
        if length <= LONGEST:
            return
        if math.hypot(*(x.get(name, 0.0) for name in self._features or x)) > LONGEST:
            raise InputError(
                f"features must make a row of length {LONGEST:g} at most, got {x!r}; "
                "scale them down"
            )

    def _learn(self) -> None:
        features = self._features
        if not features:  # sorted, so that the order of keys in a dictionary makes no difference
            features = sorted({name for row in self._waiting for name in row}, key=str)
        values = chain.from_iterable(_values(row, features) for row in self._waiting)
        rows = np.fromiter(values, np.float32).reshape(len(self._waiting), len(features))
        self.model.partial_fit(rows)
        self._features, self._waiting = features, []  # not before they are learned
        centers = self.model.cluster_centers_
        if self.geometry == "euclidean":
            # |x − c|² is smallest where 2cx − |c|² is largest.
            centers = self.model.centers_in_units()
            self._bias = -np.square(centers).sum(axis=1)
        self._weight = 2 * centers

    def predict_one(self, x: dict[Hashable, Any]) -> int:
        """Return the cluster of one row."""
        if self._weight is None:
            return 0
        row = np.fromiter(_values(x, self._features), self._weight.dtype)
        return int((self._weight @ row + self._bias).argmax())


def _values(row: dict[Hashable, Any], features: list[Hashable]) -> Iterable[Any]:
    """The row's values in this order, 0 for those that it lacks."""
    try:
        return [row[name] for name in features]  # nearly always all are there
    except KeyError:
        return [row.get(name, 0.0) for name in features]
