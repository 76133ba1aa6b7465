"""Rows and their place among the centres."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tell.contract import Labels
from tell.explanations.explained_rows import Block
from tell.explanations.matrices import Matrix, stacked
from tell.explanations.view import Floats, Ints, ModelView


@dataclass(frozen=True, eq=False)
class Assigned:
    """Rows with their place among the centres; every array has one entry per row.

    `filled` (n, d) marks values that stand for a gap of the table.
    """

    rows: Ints
    X: Matrix
    y: Labels | None
    labels: Ints
    runner_up: Ints
    distance: Floats
    margin: Floats
    clearness: Floats
    filled: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, index: ArrayLike) -> Assigned:
        """The rows at `index`, in that order."""
        rows = np.asarray(index, np.intp)
        return replace(self, **{name: part[rows] for name, part in self._parts()})

    def join(self, other: Assigned) -> Assigned:
        """These rows followed by those."""
        joined = ((name, [part, getattr(other, name)]) for name, part in self._parts())
        return replace(self, **{name: stacked(pair) for name, pair in joined})

    def relative_to(self, reach: Floats) -> Assigned:
        """The same rows with clearness relative to `reach` (k,): 1 where the mean member lies."""
        return replace(self, clearness=np.minimum(self.clearness / reach[self.labels], 1.0))

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            if getattr(self, field.name) is not None:
                yield field.name, getattr(self, field.name)


def assign(view: ModelView, block: Block) -> Assigned:
    """Place the rows of a block among the centres.

    The margin is ‖x − Ω_k‖² − ‖x − Ω_j‖² between own centre j and runner-up k; clearness is
    margin / ‖Ω_j − Ω_k‖², the distance to the boundary relative to that of the centre: 0 on the
    boundary, 1 at the centre and beyond. Columns in which the centres agree do not change it.
    On the sphere noise keeps all rows far from the centre: there `relative_to` takes over.
    Where clusters are given, a row may be nearer to another centre: its margin is below 0 then.
    """
    squared = view.distances(block.X)
    order = np.argsort(squared, axis=1, kind="stable")
    here = np.arange(len(squared))
    own, next_best = order[:, 0], order[:, min(1, view.n_clusters - 1)]
    if block.given is not None:
        nearest, own = own, block.given
        next_best = np.where(nearest == own, next_best, nearest)
    near, far = squared[here, own], squared[here, next_best]
    apart = view.squared_distances(view.centers)[own, next_best]
    clear = np.divide(far - near, apart, out=np.zeros_like(near), where=apart > 0)
    return Assigned(
        rows=block.numbers,
        X=block.X,
        y=block.y,
        labels=own,
        runner_up=next_best,
        distance=np.sqrt(near),
        margin=far - near,
        clearness=np.clip(clear, 0.0, 1.0),
        filled=block.filled,
    )
