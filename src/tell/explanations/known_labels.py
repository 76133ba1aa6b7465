"""Known labels: which rows have one, and how it reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tell.contract import Labels


def as_labels(y: Iterable[object]) -> Labels:
    """Labels (n,) in which a gap is None, NaN or an empty text, as `has_class` knows it.

    >>> as_labels(["a", float("nan")]).tolist()  # a plain array would hold the text "nan"
    ['a', None]
    """
    from tell.metrics import has_class

    labels = np.asarray(y)
    if labels.dtype.kind in "US" and not isinstance(y, np.ndarray):
        labels = np.asarray(list(y), object)
    if labels.dtype == object:
        labels = labels.copy()
        labels[~has_class(labels)] = None
    return labels


def label_texts(y: Labels) -> list[str | None]:
    """Labels (n,) as texts; None where a row has none.

    >>> label_texts(np.array(["cat", "", None], object))
    ['cat', None, None]
    """
    from tell.metrics import has_class

    return [str(value) if known else None for value, known in zip(y, has_class(y), strict=True)]


def known_labels(y: Labels) -> tuple[NDArray[np.bool_], Labels]:
    """Which rows have a label (n,), and these labels, such that they can be sorted and counted."""
    from tell.metrics import has_class

    known = has_class(y)
    labels = y[known]
    return known, labels.astype(str) if labels.dtype == object else labels


def main_label(y: Labels) -> tuple[str | None, float | None]:
    """The most frequent label and its share of the rows that have one.

    >>> main_label(np.array(["a", "b", "a", ""]))
    ('a', 0.6666666666666666)
    """
    labels = known_labels(y)[1]
    if not len(labels):
        return None, None
    values, counts = np.unique(labels, return_counts=True)
    best = int(np.argmax(counts))
    return str(values[best]), float(counts[best] / counts.sum())
