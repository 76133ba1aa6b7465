"""Centres that the worst-served rows do not pull: trimmed k-means.

Steps are taken on all rows but the given share that lies farthest from its centre; who belongs to
it is decided anew after every descent (concentration steps, as of the trimmed likelihood).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tell.core.assignment import Rows, all_distances, assign, totals, wide
from tell.core.engine import Fit, fit_centers, step_to
from tell.core.layer import Geometry
from tell.core.seeding import as_centers, best_addition, draw_row, seedable

MOST_ROUNDS = 20  # of descending and choosing the trimmed rows anew
CONCENTRATION_STEPS = 10  # that show how good a start is
START_ROWS = 4096  # or more for many clusters: rows on which starts compete
START_ROWS_PER_CLUSTER = 32
LEAST_STARTS = 5  # one whose first centre is an outlier is lost


def fit_trimmed(
    rows: Rows,
    n_clusters: int,
    trim: float,
    *,
    geometry: Geometry,
    n_init: int,
    seed: int,
    report: Callable[..., None] = lambda **_: None,
    **options: Any,
) -> Fit:
    """Cluster all rows but the share `trim` that is served worst; the fit is that of the others."""
    generator = torch.Generator().manual_seed(seed)
    size = max(START_ROWS, START_ROWS_PER_CLUSTER * n_clusters)
    few = rows
    if rows.shape[0] > size:
        drawn = torch.randperm(rows.shape[0], generator=generator)[:size].sort().values
        few = rows.take(drawn.to(rows.example.device))
    starts = [
        _start(few, n_clusters, trim, geometry, generator) for _ in range(max(n_init, LEAST_STARTS))
    ]
    centers = min(starts, key=lambda start: start[0])[1]
    kept = kept_rows(rows, centers, trim, geometry)
    shared: dict[str, Any] = {"geometry": geometry, "seed": seed, "report": report, **options}
    fit = fit_centers(rows.take(kept), n_clusters, init=centers, **shared)
    for _ in range(MOST_ROUNDS):
        again = kept_rows(rows, fit.centers, trim, geometry)
        if torch.equal(again, kept):
            break
        kept = again
        fit = fit_centers(rows.take(kept), n_clusters, init=fit.centers, **shared)
    return fit


def kept_rows(rows: Rows, centers: Tensor, trim: float, geometry: Geometry) -> Tensor:
    """Positions of all rows but the worst-served ones, which weigh at most the share `trim`."""
    distances = assign(rows, centers, geometry).distances
    order = torch.argsort(distances, descending=True, stable=True)
    weight = wide(rows.weights()[order])
    within = weight.cumsum(0) <= trim * weight.sum() * (1 + 1e-12)
    return order[~within].sort().values


def _start(
    rows: Rows, k: int, trim: float, geometry: Geometry, generator: torch.Generator
) -> tuple[float, Tensor]:
    """Centres after some steps from a start of their own, and the loss of the rows they keep."""
    centers = _seeds(rows, k, trim, geometry, generator)
    for _ in range(CONCENTRATION_STEPS):
        part = rows.take(kept_rows(rows, centers, trim, geometry))
        labels = assign(part, centers, geometry).labels
        centers = step_to(totals(part, labels, k, geometry), centers, geometry).to(rows.example)
    part = rows.take(kept_rows(rows, centers, trim, geometry))
    loss = wide(assign(part, centers, geometry).distances * part.weights()).sum()
    return float(loss), centers


def _seeds(
    rows: Rows, k: int, trim: float, geometry: Geometry, generator: torch.Generator
) -> Tensor:
    """k-means++ in which the rows that would be trimmed are neither drawn nor counted."""
    first = draw_row(seedable(rows, geometry), generator)
    centers = as_centers(rows, first, geometry)
    closest = all_distances(rows, centers, geometry)[:, 0]
    for _ in range(1, k):
        counted = torch.zeros_like(closest)
        kept = kept_rows(rows, centers, trim, geometry)
        counted[kept] = closest[kept]
        added = best_addition(rows, counted, geometry, generator)
        centers = torch.cat([centers, added])
        closest = torch.minimum(closest, all_distances(rows, added, geometry)[:, 0])
    return centers
