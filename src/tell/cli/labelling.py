"""Labels for rows: the columns of a label file, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.cli.writers import label_writer
from tell.contract import cluster_names
from tell.data.chunks import Chunk, Source
from tell.progress import progress
from tell.runtime.answers import assignments


def write_labels(
    model: Any,
    source: Source,
    target: Path | None,
    *,
    keep: list[str],
    proba: bool = False,
    distances: bool = False,
    reject: float | None = None,
    silent: bool = False,
    visible: bool = False,
) -> dict[str, Any]:
    """Label all rows of a source, write them with the columns to `keep`, and sum it up.

    `silent` keeps standard output clean, where there is no target.
    """
    beside = _kept_beside(source, keep)
    tally = Tally(len(model.cluster_centers_), keep=silent and target is None)
    with label_writer(target, silent=silent) as writer:
        for chunk in _watched(source, "predict", visible=visible):
            part = assignments(model, chunk.X, proba=proba, distances=distances, reject=reject)
            writer.write(beside(chunk) | part)
            lost = 0 if reject is None else _count_rejected(chunk.X, part["cluster"])
            tally.add(part["cluster"], chunk.y, chunk.filled, lost)
    names = {str(j): name for j, name in cluster_names(model).items()}
    return tally.summary() | {
        "names": names or None,
        "data": source.name,
        "out": None if target is None else str(target),
    }


def _kept_beside(source: Source, names: list[str]) -> Callable[[Chunk], dict[str, Any]]:
    """What is written beside the labels of a chunk: columns by name, or the files of images."""
    from tell.data.images import ImageFolder
    from tell.data.prepared_tables import KeptColumns

    if isinstance(source, ImageFolder):
        files = source.files
        return lambda chunk: {"file": files[chunk.start : chunk.start + len(chunk)]}
    kept_columns = KeptColumns(source, names)
    return lambda chunk: kept_columns.take()


def _watched(source: Source, verb: str, *, visible: bool) -> Iterator[Chunk]:
    """Go through the rows of a source with a progress bar."""
    with progress(verb, source.n_rows, visible=visible) as bar:
        for chunk in source.chunks():
            yield chunk
            bar.update(chunk.start + len(chunk))


def _count_rejected(X: NDArray[Any], labels: NDArray[Any]) -> int:
    """How many complete rows got no cluster."""
    return int(((labels < 0) & ~np.isnan(X).any(axis=1)).sum())


class Tally:
    """Counts the labels that were given; keeps them where they are asked for or can be scored.

    Parameters
    ----------
    n_clusters : int
    keep : bool
        Whether the summary is to hold all labels.
    """

    def __init__(self, n_clusters: int, *, keep: bool = False) -> None:
        self._sizes = np.zeros(n_clusters, dtype=np.int64)
        self._rows = self._filled = self._rejected = 0
        self._keep = keep
        self._labels: list[NDArray[np.int32]] = []
        self._known: list[NDArray[Any]] = []

    def add(
        self,
        labels: NDArray[np.int32],
        y: NDArray[Any] | None,
        filled: NDArray[np.bool_] | None = None,
        rejected: int = 0,
    ) -> None:
        """Take in the labels of one chunk, which of its values stand for gaps, and rejections."""
        self._rejected += rejected
        self._rows += len(labels)
        if filled is not None:
            self._filled += int((filled.any(axis=1) & (labels >= 0)).sum())
        self._sizes += np.bincount(labels[labels >= 0], minlength=len(self._sizes))
        if self._keep or y is not None:
            self._labels.append(labels)
        if y is not None:
            self._known.append(y)

    def summary(self) -> dict[str, Any]:
        """What the command says about the labels it gave."""
        return {
            "rows": self._rows,
            "unlabelled": self._rows - int(self._sizes.sum()),
            "rejected": self._rejected,
            "with_filled_gaps": self._filled,
            "sizes": self._sizes,
            "metrics": self._metrics(),
            **({"labels": np.concatenate(self._labels)} if self._keep else {}),
        }

    def _metrics(self) -> dict[str, float] | None:
        if not self._known:
            return None
        from tell.metrics import evaluate, has_class

        y, labels = np.concatenate(self._known), np.concatenate(self._labels)
        scored = (labels >= 0) & has_class(y)
        return dict(evaluate(y[scored], labels[scored]).as_dict()) if scored.any() else None
