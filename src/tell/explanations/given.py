"""Clusters that come as plain labels: their centres are the means of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.adapter import FittedKMeans, is_pipeline, model_of_labels
from tell.contract import ClusterModel, Ints
from tell.exceptions import InputError
from tell.explanations.explained_rows import Rows
from tell.explanations.matrices import cluster_sums

NOISE = "noise"


def labels_of(model: Any, X: Any) -> NDArray[Any] | None:
    """Labels of the rows, where `model` is nothing else or has no centres; None for other models.

    A mixture predicts them; clusterers without a centre, such as HDBSCAN, keep those of their fit.
    """
    if isinstance(model, ClusterModel | FittedKMeans) or is_pipeline(model):
        return None
    if hasattr(model, "fit") and not isinstance(model, type):
        if hasattr(model, "means_") and hasattr(model, "predict"):  # a mixture, when fitted
            return np.asarray(model.predict(X))
        return None if not hasattr(model, "labels_") else np.asarray(model.labels_)
    if isinstance(model, np.ndarray | list | tuple) or hasattr(model, "to_numpy"):
        return np.asarray(model)
    return None


def kind_of(model: Any) -> str:
    """What the labels came from."""
    return type(model).__name__ if hasattr(model, "fit") else "labels"


def number_labels(labels: NDArray[Any]) -> tuple[Ints, list[str]]:
    """Numbers (n,) of the clusters from 0, and what their labels were called; -1 is noise.

    >>> number_labels(np.array([3, -1, 3]))
    (array([1, 0, 1]), ['noise', 'cluster 3'])
    >>> number_labels(np.array(["b", "a"]))
    (array([1, 0]), ['a', 'b'])
    """
    if labels.ndim != 1 or not len(labels) or labels.dtype.kind not in "iubUSO":
        raise InputError(
            f"labels need one whole number or text per row, got an array of shape {labels.shape} "
            f"and type {labels.dtype}; pass the labels of the rows, such as model.labels_"
        )
    values, numbers = np.unique(labels, return_inverse=True)
    whole = labels.dtype.kind in "iu"
    names = [NOISE if whole and v == -1 else f"cluster {v}" if whole else str(v) for v in values]
    return numbers.astype(np.int64), names


def model_of_rows(rows: Rows, numbers: Ints, names: list[str], kind: str) -> ClusterModel:
    """Read all rows once for the means of their clusters."""
    k = len(names)
    sizes = np.bincount(numbers, minlength=k)
    sums, squares = np.zeros((k, rows.n_features)), 0.0
    for block in rows.blocks():
        part = cluster_sums(block.X, numbers[block.numbers], k, np.zeros(rows.n_features))
        sums += part[0]
        squares += float(part[1].sum())
    means = sums / sizes[:, None]
    within = (squares - float(np.sum(sizes[:, None] * means**2))) / len(numbers)
    same = [name == f"cluster {j}" for j, name in enumerate(names)]
    return model_of_labels(means, sizes, max(within, 0.0), [] if all(same) else names, kind)
