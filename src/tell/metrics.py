"""How well labels agree with known classes: the paper's seven measures."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix

from tell.exceptions import InputError


class Confusion(NamedTuple):
    """How often class and cluster meet, clusters ordered so that matches stand on the diagonal."""

    counts: NDArray[np.int64]  # (classes, clusters)
    classes: NDArray[np.generic]  # (classes,) what each row stands for
    clusters: NDArray[np.generic]  # (clusters,) what each column stands for


class Scores(NamedTuple):
    """The seven measures of the paper's table 6, each 1 for a perfect clustering."""

    acc: float
    nmi: float
    ari: float
    ami: float
    homogeneity: float
    completeness: float
    v_measure: float
    confusion: Confusion

    def as_dict(self) -> dict[str, float]:
        """The seven numbers alone, for JSON and tables."""
        return {name: getattr(self, name) for name in self._fields if name != "confusion"}


def evaluate(y: ArrayLike, labels: ArrayLike) -> Scores:
    """Compare cluster labels with known classes.

    Parameters
    ----------
    y : array-like of shape (n,)
        Known classes, of any type; `has_class` tells which rows have one.
    labels : array-like of shape (n,)
        Clusters; their names and number need not be those of the classes.

    Examples
    --------
    >>> scores = evaluate(["a", "a", "b", "b"], [1, 1, 0, 1])
    >>> scores.acc
    0.75
    >>> scores.confusion.counts.tolist()
    [[2, 0], [1, 1]]
    """
    y, labels = _pair(y, labels)
    confusion = matched_confusion(y, labels)
    # Numbered from 0, because scikit-learn takes names that are no whole numbers for measurements.
    y, labels = (np.unique(names, return_inverse=True)[1] for names in (y, labels))
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(y, labels)
    return Scores(
        acc=_matched_share(confusion),
        nmi=float(normalized_mutual_info_score(y, labels)),
        ari=float(adjusted_rand_score(y, labels)),
        ami=float(adjusted_mutual_info_score(y, labels)),
        homogeneity=float(homogeneity),
        completeness=float(completeness),
        v_measure=float(v_measure),
        confusion=confusion,
    )


def has_class(y: ArrayLike) -> NDArray[np.bool_]:
    """Which rows have a class: one that is neither None nor NaN nor an empty text.

    >>> has_class(["a", "", "b"]).tolist(), has_class([1.0, float("nan")]).tolist()
    ([True, False, True], [True, False])
    """
    y = np.asarray(y)
    if y.dtype == object:
        return np.array([_is_known(name) for name in y], bool)
    if y.dtype.kind in "US":
        return np.asarray(y != y.dtype.type())
    return np.asarray(y == y)  # NaN, and NaT among dates, is not even itself


def _is_known(name: object) -> bool:
    try:
        return name is not None and bool(name == name) and bool(name != "")
    except TypeError:  # pandas' NA does not answer comparisons
        return False


def accuracy(y: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose cluster is matched with their class, by the best one-to-one matching.

    Where there are more clusters than classes, or fewer, those left over match nothing.

    >>> accuracy([0, 0, 1, 1], [5, 5, 7, 9])
    0.75
    """
    return _matched_share(matched_confusion(y, labels))


def matched_confusion(y: ArrayLike, labels: ArrayLike) -> Confusion:
    """Count classes against clusters, with matched pairs first and on the diagonal."""
    y, labels = _pair(y, labels)
    classes, clusters = np.unique(y), np.unique(labels)
    counts = np.asarray(contingency_matrix(y, labels), dtype=np.int64)
    matched_classes, matched_clusters = linear_sum_assignment(counts, maximize=True)
    rows = _matched_first(matched_classes, len(classes))
    columns = _matched_first(matched_clusters, len(clusters))
    return Confusion(counts[np.ix_(rows, columns)], classes[rows], clusters[columns])


def _matched_first(matched: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    rest = np.setdiff1d(np.arange(count), matched)
    return np.concatenate([matched, rest])


def _matched_share(confusion: Confusion) -> float:
    return float(np.trace(confusion.counts) / confusion.counts.sum())


def _pair(y: ArrayLike, labels: ArrayLike) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    y, labels = np.asarray(y), np.asarray(labels)
    if y.ndim != 1 or y.shape != labels.shape:
        raise InputError(
            "classes and labels must be two lists of one length, got the shapes "
            f"{y.shape} and {labels.shape}"
        )
    if not len(y):
        raise InputError("classes and labels must hold at least one row, got none")
    for names in (y, labels):
        _check_names(names)
    return y, labels


def _check_names(names: NDArray[np.generic]) -> None:
    unknown = names[~has_class(names)].tolist()
    if unknown:
        raise InputError(
            f"classes and labels must all be known, got {unknown[0]!r}; leave such rows out"
        )
    if names.dtype != object:
        return
    try:
        np.unique(names)
    except TypeError:
        kinds = ", ".join(sorted({type(name).__name__ for name in names}))
        raise InputError(
            f"classes and labels must have an order, got {kinds} together; turn them into text"
        ) from None
