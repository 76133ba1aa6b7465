"""The start from labels that the user brings: any other method's, or a person's."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from tell.estimators.deep.recipes.distillation import DistilledStart
from tell.estimators.deep.recipes.recipe import Task
from tell.exceptions import InputError, ParameterError

UNKNOWN = -1


@dataclass(frozen=True)
class LabelStart(DistilledStart):
    """Distil given labels into the networks and let them correct these.

    Parameters
    ----------
    labels : array (n,) or (n, n_clusters)
        Cluster of every row from 0, or -1 where it is not known; or soft assignments, whose rows
        are brought to a sum of 1.
    epochs, batch_size, learning_rate, weight, temperature, memory, distil_steps
        As of `GraphStart`.

    Examples
    --------
    >>> LabelStart(labels=[0, 1, -1]).soft(2).tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]
    """

    labels: Any = field(default=(), compare=False, repr=False)
    fingerprint: str = field(default="", init=False)

    name: ClassVar[str] = "labels"

    def __post_init__(self) -> None:
        super().__post_init__()
        labels = np.asarray(self.labels)
        if labels.ndim not in (1, 2) or labels.dtype.kind not in "iufb" or not labels.size:
            raise ParameterError(
                f"start must be labels (n,) or (n, n_clusters) as numbers, got {labels.dtype} of "
                f"the shape {labels.shape}; number the clusters from 0, for instance with "
                "np.unique(labels, return_inverse=True)[1]"
            )
        object.__setattr__(self, "labels", labels)
        # Two starts are the same if their labels are: a checkpoint must know.
        digest = hashlib.sha256(np.ascontiguousarray(labels).tobytes()).hexdigest()
        object.__setattr__(self, "fingerprint", digest[:16])

    def partition(self, task: Task) -> Tensor:
        """Return the labels as a soft partition (n, k)."""
        if task.source is not None:
            raise InputError(
                f"start must hold labels of rows that memory holds, but {task.source.source.name} "
                "is larger; raise memory, or start from the graph"
            )
        if len(self.labels) != len(task.x):
            raise InputError(
                f"start must hold one label per row, got {len(self.labels)} for {len(task.x)} "
                "rows; pass the labels of X"
            )
        return self.soft(task.model.layer.n_clusters)

    def soft(self, n_clusters: int) -> Tensor:
        """Return assignments (n, k) whose rows sum to 1; an unknown row belongs to all alike."""
        return (
            _from_soft(self.labels, n_clusters) if self.labels.ndim == 2 else self._hard(n_clusters)
        )

    def _hard(self, n_clusters: int) -> Tensor:
        whole = np.equal(self.labels, np.floor(self.labels)).all()
        if not whole or self.labels.min() < UNKNOWN or self.labels.max() >= n_clusters:
            raise InputError(
                f"start must hold labels from 0 to {n_clusters - 1}, or -1 for unknown, got values "
                f"from {self.labels.min()} to {self.labels.max()}; number the clusters from 0 or "
                "change n_clusters"
            )
        labels = torch.from_numpy(self.labels.astype(np.int64))
        soft = torch.full((len(labels), n_clusters), 1 / n_clusters)
        known = labels != UNKNOWN
        soft[known] = torch.nn.functional.one_hot(labels[known], n_clusters).float()
        return soft


def _from_soft(assignment: np.ndarray, n_clusters: int) -> Tensor:
    soft = torch.from_numpy(assignment.astype(np.float32))
    total = soft.sum(1, keepdim=True)
    if soft.shape[1] != n_clusters or not bool((soft >= 0).all()) or not bool((total > 0).all()):
        raise InputError(
            f"start must hold assignments (n, {n_clusters}) that are not negative and not all zero "
            f"in a row, got the shape {tuple(soft.shape)}; pass labels (n,) or change n_clusters"
        )
    return soft / total
