"""One solution for every number of clusters in a range, each started from its neighbours'.

On the way up a centre is added where it lowers the loss most; on the way down the least useful one
is given up. Of the two solutions for a number the one with the smaller loss is kept: a way up may
cut a group in two early, and a way down mends that.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tell.core.assignment import Rows
from tell.core.engine import Descent, Solver
from tell.core.layer import Geometry
from tell.core.seeding import as_centers, merge, seedable, split

TOL = 1e-3  # of a descent: neighbours are compared, and their losses differ by far more
MAX_ITER = 30


def sweep(rows: Rows, ks: Sequence[int], geometry: Geometry, seed: int = 0) -> dict[int, Descent]:
    """Cluster the rows with each of the numbers `ks`, which ascend from 1."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[int, Descent] = {}
    for k in ks:
        found[k] = _up(rows, found, k, geometry, generator)
    for k, larger in zip(reversed(ks[:-1]), reversed(ks[1:]), strict=True):
        if k > 1:
            start = merge(rows, found[larger].centers, larger - k, geometry)
            trial = _descend(rows, start, geometry)
            found[k] = min(trial, found[k], key=lambda descent: descent.loss)
    return found


def _up(
    rows: Rows,
    found: dict[int, Descent],
    k: int,
    geometry: Geometry,
    generator: torch.Generator,
) -> Descent:
    if not found:
        first = seedable(rows, geometry).argmax()[None]
        return _descend(rows, as_centers(rows, first, geometry), geometry)
    smaller = max(found)
    start = split(rows, found[smaller].centers, k - smaller, geometry, generator)
    return _descend(rows, start, geometry)


def _descend(rows: Rows, start: Tensor, geometry: Geometry) -> Descent:
    solver = Solver(len(start), geometry, lambda **_: None)
    return solver.descend(rows, start, TOL, MAX_ITER)
