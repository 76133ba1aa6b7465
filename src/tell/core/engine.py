"""Fit centres to rows: the layer's steps in closed form, on a sample that grows.

The gradient of the clustering loss with respect to W_j is minus twice the sum of cluster j's
rows, so a step needs no tape. Its length is the schedule: the paper's fixed tenth keeps the centre
within lemma 2's radius of the optimum for ever; the step to the mean direction of all rows seen so
far, unit(S), is the same normalised step with the length ‖s‖/‖S‖, which falls as 1/t and converges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor

from tell.core.layer import Geometry
from tell.core.rows import Assignment, Rows, Totals, assign, totals
from tell.core.seeding import Seeding, canonical_order, relocate, revive, seed_centers

FIRST_SAMPLE = 4096  # rows of the first sample, or more for many clusters
FIRST_ROWS_PER_CLUSTER = 32
GROWTH = 4
FAILED_RELOCATIONS = 3  # trials of the smallest relocation that may fail before it is given up


@dataclass
class Run:
    """One restart: from its seed to the loss on the first sample."""

    seed: int
    loss: float
    n_iter: int
    centers: Tensor
    chosen: bool = False


@dataclass
class Fit:
    """Centres, the rows' assignment to them, and how they came to be."""

    centers: Tensor
    assignment: Assignment
    totals: Totals
    loss: float
    n_iter: int
    converged: bool
    runs: list[Run]
    history: list[dict[str, float]] = field(default_factory=list)


def step_to(part: Totals, centers: Tensor, geometry: Geometry) -> Tensor:
    """Centres that minimise the loss of the rows behind the totals; clusters without any stay."""
    alive = (part.counts > 0)[:, None]
    if geometry == "sphere":
        length = torch.linalg.vector_norm(part.sums, dim=1, keepdim=True)
        # Opposite rows may cancel: a sum without direction moves nothing.
        return torch.where(
            length > 1e-12 * part.counts[:, None], F.normalize(part.sums, dim=1), centers
        )
    return torch.where(alive, part.sums / part.counts.clamp(min=1e-300)[:, None], centers)


def mean_loss(rows: Rows, assignment: Assignment) -> float:
    """The clustering loss per row: the weighted mean squared distance to the own centre."""
    if rows.weight is None:
        return float(assignment.distances.double().mean())
    weights = rows.weight.double()
    return float(weights @ assignment.distances.double() / weights.sum())


class Solver:
    """Lloyd steps on given rows, with revival of dead centres and a record of what happened."""

    def __init__(self, n_clusters: int, geometry: Geometry, report: Callable[..., None]) -> None:
        self.k = n_clusters
        self.geometry = geometry
        self.report = report
        self.history: list[dict[str, float]] = []

    def descend(
        self, rows: Rows, centers: Tensor, tol: float, max_iter: int
    ) -> tuple[Tensor, Assignment, float, int, bool]:
        """Step until the loss falls by less than tol of itself.

        Returns centres, the assignment to exactly these centres, its loss, the number of steps
        and whether it converged.
        """
        assignment = assign(rows, centers, self.geometry)
        loss = mean_loss(rows, assignment)
        for iteration in range(max_iter):
            part = totals(rows, assignment.labels, self.k, self.geometry)
            moved = step_to(part, centers, self.geometry)
            revived = revive(rows, assignment, part, moved, self.geometry)
            after = assign(rows, moved, self.geometry)
            new_loss = mean_loss(rows, after)
            self._record(rows, new_loss, revived)
            converged = not revived and loss - new_loss <= tol * loss
            if new_loss <= loss:
                centers, assignment, loss = moved, after, new_loss
            if converged:
                return centers, assignment, loss, iteration + 1, True
        return centers, assignment, loss, max_iter, False

    def _record(self, rows: Rows, loss: float, revived: list[int]) -> None:
        entry = {"loss": loss, "rows": rows.shape[0], "revived": len(revived)}
        self.history.append(entry)
        self.report(**entry)

    def restart(
        self, rows: Rows, how: Seeding | Tensor, tol: float, max_iter: int, seed: int
    ) -> Run:
        """Seed, descend, then move useless centres to where they help while the loss falls."""
        generator = torch.Generator().manual_seed(seed)
        if isinstance(how, Tensor):
            centers = how
        else:
            centers = seed_centers(rows, self.k, how, self.geometry, generator)
        centers, _, loss, n_iter, _ = self.descend(rows, centers, tol, max_iter)
        if how == "k-means++" and self.k > 1:
            centers, loss, n_iter = self._relocate(rows, centers, loss, n_iter, tol, generator)
        return Run(seed, loss, n_iter, centers)

    def _relocate(
        self,
        rows: Rows,
        centers: Tensor,
        loss: float,
        n_iter: int,
        tol: float,
        generator: torch.Generator,
    ) -> tuple[Tensor, float, int]:
        count, failures = max(1, self.k // 8), 0
        while failures < FAILED_RELOCATIONS:
            trial = relocate(rows, centers, count, self.geometry, generator)
            trial, _, trial_loss, steps, _ = self.descend(rows, trial, tol, max_iter=8)
            n_iter += steps
            if trial_loss < loss * (1 - tol):
                centers, loss, failures = trial, trial_loss, 0
            elif count > 1:
                count //= 2
            else:
                failures += 1
        return centers, loss, n_iter


def fit_centers(
    rows: Rows,
    n_clusters: int,
    *,
    init: Seeding | Tensor = "k-means++",
    geometry: Geometry = "sphere",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    sample_tol: float = 1e-3,
    seed: int = 0,
    report: Callable[..., None] = lambda **_: None,
) -> Fit:
    """Cluster the rows.

    Restarts compete on a first sample; the one with the smallest loss goes on with samples that
    grow fourfold. The mean of m/k rows misses its cluster's true mean by k/m of the cluster's
    loss, so growing ends where k/m falls below `sample_tol` (0: with all rows). Then every row
    is assigned.
    """
    solver = Solver(n_clusters, geometry, report)
    generator = torch.Generator().manual_seed(seed)
    n = rows.shape[0]
    enough = n if sample_tol * n < n_clusters else math.ceil(n_clusters / sample_tol)
    size = min(enough, max(FIRST_SAMPLE, FIRST_ROWS_PER_CLUSTER * n_clusters))
    sample = _sample(rows, size, generator)
    sample = sample.take(canonical_order(sample, generator))
    n_runs = 1 if isinstance(init, Tensor) else n_init
    runs = [solver.restart(sample, init, tol, max_iter, seed + run) for run in range(n_runs)]
    best = min(runs, key=lambda run: run.loss)
    best.chosen = True
    centers, n_iter, converged = best.centers, best.n_iter, True
    while size < enough:
        size = min(enough, size * GROWTH)
        sample = _sample(rows, size, generator)
        centers, _, _, steps, converged = solver.descend(sample, centers, tol, max_iter)
        n_iter += steps
    return _finish(solver, rows, centers, n_iter, converged, runs, max_iter, tol)


def _sample(rows: Rows, size: int, generator: torch.Generator) -> Rows:
    """About `size` distinct rows, in their order; all rows if there are no more."""
    n = rows.shape[0]
    if size >= n:
        return rows
    if size > n // 4:
        index = torch.randperm(n, generator=generator)[:size].sort().values
    else:
        index = torch.randint(n, (size,), generator=generator).unique()
    return rows.take(index.to(rows.example.device))


def _finish(
    solver: Solver,
    rows: Rows,
    centers: Tensor,
    n_iter: int,
    converged: bool,
    runs: list[Run],
    max_iter: int,
    tol: float,
) -> Fit:
    """Assign every row; where a cluster got none, revive it and go on until all have some."""
    assignment = assign(rows, centers, solver.geometry)
    part = _totals_of(rows, assignment, centers, solver.geometry)
    for _ in range(solver.k):
        if not revive(rows, assignment, part, centers, solver.geometry):
            break
        centers, assignment, _, steps, converged = solver.descend(rows, centers, tol, max_iter)
        n_iter += steps
        part = _totals_of(rows, assignment, centers, solver.geometry)
    loss = mean_loss(rows, assignment)
    return Fit(centers, assignment, part, loss, n_iter, converged, runs, solver.history)


def _totals_of(rows: Rows, assignment: Assignment, centers: Tensor, geometry: Geometry) -> Totals:
    """Counts, and the sums as the centres imply them: no further pass over the features.

    A centre on the sphere is the direction of its rows' sum, whose length is the sum of their
    cosines; otherwise it is their mean.
    """
    labels, k = assignment.labels, len(centers)
    weights = rows.weights()
    counts = weights.new_zeros(k).index_add_(0, labels, weights)
    if geometry == "euclidean":
        return Totals(centers * counts[:, None], counts)
    cosines = weights * (1 - assignment.distances / 2)
    length = weights.new_zeros(k).index_add_(0, labels, cosines)
    return Totals(centers * length.clamp(min=0)[:, None], counts)
