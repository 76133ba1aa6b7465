"""Labels for rows: the columns of a label file, and what is said about them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.cli.cluster_table import distances as to_centers
from tell.cli.writers import Columns


def assignments(model: Any, X: NDArray[np.float32], *, proba: bool, distances: bool) -> Columns:
    """The columns of the label file for these rows; rows with gaps get -1 and NaN."""
    whole = ~np.isnan(X).any(axis=1)
    columns: Columns = {"cluster": np.full(len(X), -1, dtype=np.int32)}
    if whole.any():
        columns["cluster"][whole] = model.predict(X[whole])
    for name, wanted, compute in (
        ("probability", proba, model.predict_proba),
        ("distance", distances, partial(to_centers, model)),
    ):
        if wanted:
            values = np.full((len(X), len(model.cluster_centers_)), np.nan, dtype=np.float32)
            if whole.any():
                values[whole] = compute(X[whole])
            columns |= {f"{name}_{cluster}": column for cluster, column in enumerate(values.T)}
    return columns


class Tally:
    """Keeps the labels that were given, and the known classes where there are some."""

    def __init__(self) -> None:
        self._labels: list[NDArray[np.int32]] = []
        self._known: list[NDArray[Any]] = []

    def add(self, labels: NDArray[np.int32], y: NDArray[Any] | None) -> None:
        """Remember the labels of one chunk."""
        self._labels.append(labels)
        if y is not None:
            self._known.append(y)

    def summary(self, n_clusters: int, *, with_labels: bool = False) -> dict[str, Any]:
        """What the command says about the labels it gave."""
        labels = np.concatenate(self._labels)
        given = labels >= 0
        return {
            "rows": len(labels),
            "unlabelled": int((~given).sum()),
            "sizes": np.bincount(labels[given], minlength=n_clusters),
            "metrics": self._metrics(labels, given),
            **({"labels": labels} if with_labels else {}),
        }

    def _metrics(
        self, labels: NDArray[np.int32], given: NDArray[np.bool_]
    ) -> dict[str, float] | None:
        from tell.metrics import evaluate, has_class

        if not self._known:
            return None
        y = np.concatenate(self._known)
        scored = given & has_class(y)
        return dict(evaluate(y[scored], labels[scored]).as_dict()) if scored.any() else None
