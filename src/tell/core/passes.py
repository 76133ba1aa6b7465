"""Lloyd steps on all rows, wherever they are: each asks a reducer for the sums of all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tell.core.assignment import Assignment, DenseRows
from tell.core.engine import promise, step_to
from tell.core.layer import Geometry
from tell.core.seeding import revive
from tell.core.sums import Sums

# (k, d) centres → the sums of all rows for them; the few lines that a back end has to provide.
Reducer = Callable[[Tensor], Sums]


@dataclass
class Passed:
    """Where the passes ended: centres, and the sums of all rows for exactly these."""

    centers: Tensor
    sums: Sums
    n_steps: int = 0
    converged: bool = False
    history: list[dict[str, float]] = field(default_factory=list)


def descend(
    reduce: Reducer,
    centers: Tensor,
    geometry: Geometry,
    *,
    tol: float,
    max_steps: int,
    report: Callable[..., None] = lambda **_: None,
) -> Passed:
    """Step until a step promises to lower the loss by less than `tol` of it.

    What it promises is measured: the sums say what moving the centres to the means of their rows
    takes off the loss, before any row changes its cluster. The last call of `reduce` is for the
    centres that are returned.
    """
    history: list[dict[str, float]] = []
    now = Passed(centers, _pass(reduce, centers, history, 0, geometry, report), history=history)
    for _ in range(max_steps + 1):
        moved = step_to(now.sums.totals, now.centers.double(), geometry).to(centers.dtype)
        revived = _revive(now.sums, moved, geometry)
        bound = promise(now.sums.totals, now.centers, geometry) / max(now.sums.loss, 1e-300)
        now.converged = not revived and bound <= tol
        if now.converged or now.n_steps == max_steps:
            break
        before = now.sums.loss
        after = _pass(reduce, moved, now.history, revived, geometry, report)
        now.n_steps += 1
        if after.loss > before and not revived:  # by rounding alone: go back
            now.sums, now.converged = reduce(now.centers), True
            now.history.pop()
            break
        now.centers, now.sums = moved, after
        if not revived and before - after.loss <= tol * before:
            now.converged = True
            break
    return now


def _pass(
    reduce: Reducer,
    centers: Tensor,
    history: list[dict[str, float]],
    revived: int,
    geometry: Geometry,
    report: Callable[..., None],
) -> Sums:
    began = time.perf_counter()
    sums = reduce(centers)
    seconds = time.perf_counter() - began
    entry = {
        "loss": sums.loss,
        "rows": round(sums.rows),
        "revived": revived,
        "bound": promise(sums.totals, centers, geometry) / max(sums.loss, 1e-300),
        "seconds": seconds,
        "rows_per_second": sums.rows / max(seconds, 1e-9),
    }
    history.append(entry)
    report(**entry)
    return sums


def _revive(sums: Sums, centers: Tensor, geometry: Geometry) -> int:
    """Put centres without rows onto the worst-served rows of all; return how many."""
    worst = sums.worst
    if not len(worst.x):
        return 0
    rows = DenseRows(worst.x)
    nearest = Assignment(torch.zeros_like(worst.at), worst.loss.clone())
    return len(revive(rows, nearest, sums.totals, centers, geometry))
