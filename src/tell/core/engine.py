"""Fit centres to rows: the layer's steps in closed form, on a sample that grows.

The gradient of the clustering loss with respect to W_j is minus twice the sum of cluster j's
rows, so a step needs no tape. Its length is the schedule: the paper's fixed tenth keeps the centre
within lemma 2's radius of the optimum for ever; the step to the mean direction of all rows seen so
far, unit(S), is the same normalised step with the length ‖s‖/‖S‖, which falls as 1/t and converges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor

from tell.core.assignment import Assignment, Rows, Totals, assign, totals, wide
from tell.core.bounds import Bounded, assign_bounded, worth_bounding
from tell.core.layer import Geometry
from tell.core.seeding import Seeding, canonical_order, relocate, revive, seed_centers

FIRST_SAMPLE = 2048  # rows of the first sample, or more for many clusters
FIRST_ROWS_PER_CLUSTER = (8, 32)  # the fewest and the most: see `first_rows_per_cluster`
GROWTH = 4
CHEAP_TRIALS = 4  # times as many failures are borne where bounds make a trial cheap
TRIAL_STEPS = 8  # most steps that show whether moved centres help
CHEAP_SHARE = 0.3  # of the work of a fit, that steps on all rows may add without being asked for
SMALL_PART = 4  # one in so many rows: steps on a sample cost little beside the labels of all
LITTLE = 0.01  # of the loss: what the first step on all rows is worth taking for
ENOUGH = 10  # times `tol`: what more rows than the sample's may change of the loss,
NEARLY = 2  # or so many times, where such a sample is a small part of the rows


class Descent(NamedTuple):
    """Where stepping on some rows ended: centres and the rows' assignment to exactly these."""

    rows: Rows
    centers: Tensor
    assignment: Assignment
    totals: Totals
    loss: float
    n_iter: int
    converged: bool
    others: Tensor | None = None  # see `Bounded`, where bounds are kept

    @property
    def bounded(self) -> Bounded | None:
        """What the next assignment of these rows may start from."""
        if self.others is None:
            return None
        return Bounded(self.centers, self.assignment, self.others)


@dataclass
class Run:
    """One restart: from its seed to the loss on the first sample."""

    seed: int
    loss: float
    n_iter: int
    descent: Descent
    chosen: bool = False


@dataclass
class Fit:
    """Centres, the assignment of all rows to them, and how they came to be."""

    descent: Descent  # on the last sample
    assignment: Assignment
    counts: Tensor  # (k,) weight of all rows of each cluster
    loss: float
    n_iter: int
    runs: list[Run]
    history: list[dict[str, float]]

    @property
    def centers(self) -> Tensor:
        """The centres, of shape (k, d)."""
        return self.descent.centers

    def without_rows(self) -> Fit:
        """The same fit, with the memory of its sample given back."""
        rows = self.descent.rows
        none = rows.take(torch.empty(0, dtype=torch.long, device=rows.example.device))
        return replace(self, descent=self.descent._replace(rows=none), runs=[])


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


def promise(part: Totals, centers: Tensor, geometry: Geometry) -> float:
    """What a step takes off the mean loss before any row changes its cluster.

    Σ n_j ‖c_j − m_j‖² for means m_j, and 2 Σ (‖s_j‖ − s_jᵀc_j) for directions, over all rows.
    """
    sums, counts, own = wide(part.sums), wide(part.counts), wide(centers)
    if geometry == "sphere":
        gain = 2 * (torch.linalg.vector_norm(sums, dim=1) - (sums * own).sum(dim=1))
    else:
        gap = sums / counts.clamp(min=1e-300)[:, None] - own
        gain = counts * gap.square().sum(dim=1)
    return max(0.0, float(gain.sum() / counts.sum()))


def mean_loss(rows: Rows, assignment: Assignment) -> float:
    """The clustering loss per row: the weighted mean squared distance to the own centre."""
    if rows.weight is None:
        return float(wide(assignment.distances).mean())
    weights = wide(rows.weight)
    return float(weights @ wide(assignment.distances) / weights.sum())


class Solver:
    """Lloyd steps on given rows, with revival of dead centres and a record of what happened."""

    def __init__(self, n_clusters: int, geometry: Geometry, report: Callable[..., None]) -> None:
        self.k = n_clusters
        self.geometry = geometry
        self.report = report
        self.run = 0
        self.history: list[dict[str, float]] = []

    def descend(
        self,
        rows: Rows,
        centers: Tensor,
        tol: float,
        max_iter: int,
        before: Bounded | None = None,
    ) -> Descent:
        """Step until the loss falls by less than tol of itself."""
        now, revived_at_start = self._land(rows, centers, 0, before)
        for iteration in range(1, max_iter + 1):
            moved = step_to(now.totals, now.centers, self.geometry)
            after, revived = self._land(rows, moved, iteration, now.bounded)
            self._record(rows, after.loss, revived + (revived_at_start if iteration == 1 else 0))
            converged = not revived and now.loss - after.loss <= tol * now.loss
            if after.loss <= now.loss or revived:
                now = after
            else:
                self._reject(-1)
            if converged:
                return now._replace(n_iter=iteration, converged=True)
        return now

    def _land(
        self, rows: Rows, centers: Tensor, iteration: int, before: Bounded | None = None
    ) -> tuple[Descent, int]:
        """Assign the rows to the centres, reviving those that get none."""
        assignment, others = self._assign(rows, centers, before)
        part = totals(rows, assignment.labels, self.k, self.geometry)
        revived = revive(rows, assignment, part, centers, self.geometry)
        if revived:
            assignment, others = self._assign(rows, centers, None)
            part = totals(rows, assignment.labels, self.k, self.geometry)
        loss = mean_loss(rows, assignment)
        landed = Descent(rows, centers, assignment, part, loss, iteration, False, others)
        return landed, len(revived)

    def _assign(
        self, rows: Rows, centers: Tensor, before: Bounded | None
    ) -> tuple[Assignment, Tensor | None]:
        if not worth_bounding(rows, self.k):
            return assign(rows, centers, self.geometry), None
        _, assignment, others = assign_bounded(rows, centers, self.geometry, before)
        return assignment, others

    def finish(
        self, rows: Rows, found: Descent, tol: float, max_iter: int, passes: int | None
    ) -> Descent:
        """Steps on all rows, after a sample: at most `passes`.

        None: while a step promises more than `ENOUGH` times `tol`, as the sample was to make sure;
        and until it promises less than `tol` for one step, and for more where that adds little to
        the work that was done. The first one is left out only if it promises `LITTLE`, however
        large `tol` is: after a small sample many rows change their cluster, which no promise knows.
        """
        n, work = rows.shape[0], sum(entry["rows"] for entry in self.history)
        cheap = max(1, int(CHEAP_SHARE * (work + n) / n)) if passes is None else passes
        now, revived = self._land(rows, found.centers.clone(), 0)
        most = max_iter if passes is None or revived else min(passes, max_iter)
        bound = self._bound(now)
        self._record(rows, now.loss, revived, bound=bound)
        while now.n_iter < most:
            enough = tol if now.n_iter < cheap else ENOUGH * tol
            if not revived and bound <= (enough if now.n_iter else min(enough, LITTLE)):
                break
            moved = step_to(now.totals, now.centers, self.geometry)
            after, revived = self._land(rows, moved, now.n_iter + 1, now.bounded)
            settled = not revived and now.loss - after.loss <= tol * now.loss
            if not revived and after.loss > now.loss:
                break
            now, bound = after, self._bound(after)
            self._record(rows, now.loss, revived, bound=bound)
            if settled:
                break
        cut_short = now.n_iter == max_iter and bound > ENOUGH * tol
        return now._replace(converged=found.converged and not cut_short)

    def _bound(self, now: Descent) -> float:
        """The part of the loss that the next step promises to take off."""
        return promise(now.totals, now.centers, self.geometry) / max(now.loss, 1e-300)

    def _record(self, rows: Rows, loss: float, revived: int, **more: float) -> None:
        entry = {"loss": loss, "rows": rows.shape[0], "revived": revived, **more}
        self.history.append(entry | {"run": self.run, "kept": True})
        self.report(**entry)

    def _reject(self, first: int) -> None:
        """Steps from this one on led to centres that were given up."""
        for entry in self.history[first:]:
            entry["kept"] = False

    def keep(self, run: int) -> None:
        """Of all restarts, this one goes on."""
        for entry in self.history:
            entry["kept"] = bool(entry["kept"]) and entry["run"] == run
        self.run = run

    def restart(
        self, rows: Rows, how: Seeding | Tensor, tol: float, max_iter: int, seed: int
    ) -> Run:
        """Seed, descend, then move useless centres to where they help while the loss falls."""
        self.run = int(self.history[-1]["run"]) + 1 if self.history else 0
        generator = torch.Generator().manual_seed(seed)
        if isinstance(how, Tensor):
            centers = how.clone()  # it is the user's, and reviving writes it
        else:
            centers = seed_centers(rows, self.k, how, self.geometry, generator)
        found = self.descend(rows, centers, tol, max_iter)
        if how == "k-means++" and self.k > 1:
            found = self._relocate(found, tol, max_iter, generator)
        return Run(seed, found.loss, found.n_iter, found)

    def _relocate(
        self, found: Descent, tol: float, max_iter: int, generator: torch.Generator
    ) -> Descent:
        """Many centres at once while that helps, then fewer, then one at a time.

        `max_iter` bounds the steps of the whole run. Without the steps to end its search, a run has
        converged only if the descent that it keeps has.
        """
        count, failures, n_iter = max(1, self.k // 8), 0, found.n_iter
        patience = -math.log10(max(tol, 1e-6)) - 1  # 3 failures for the default 1e-4
        if found.bounded is not None:
            patience *= CHEAP_TRIALS
        while failures < patience and n_iter < max_iter:
            before = len(self.history)
            moved = relocate(
                found.rows, found.centers, count, self.geometry, generator, found.bounded
            )
            steps = min(TRIAL_STEPS, max_iter - n_iter)
            trial = self.descend(found.rows, moved, tol, steps, found.bounded)
            n_iter += trial.n_iter
            if trial.loss < found.loss * (1 - tol):
                found, failures = trial, 0
                continue
            self._reject(before)
            if count > 1:
                count //= 2
            else:
                failures += 1
        done = failures >= patience or found.converged
        return found._replace(n_iter=n_iter, converged=done)


def fit_centers(
    rows: Rows,
    n_clusters: int,
    *,
    init: Seeding | Tensor = "k-means++",
    geometry: Geometry = "sphere",
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int = 0,
    passes: int | None = None,
    report: Callable[..., None] = lambda **_: None,
) -> Fit:
    """Cluster the rows.

    Restarts compete on a first sample; the one with the smallest loss goes on with samples that
    grow fourfold. The mean of m/k rows misses its cluster's true mean by k/m of the cluster's
    loss, so growing ends where k/m falls below ten times `tol` (0: with all rows), or below twice
    `tol` if a quarter of the rows is enough for that. Then every row is assigned, and steps are
    taken on all of them: see `Solver.finish`.
    """
    solver = Solver(n_clusters, geometry, report)
    generator = torch.Generator().manual_seed(seed)
    n = rows.shape[0]
    enough = sample_rows(n, n_clusters, tol)
    size = min(n, first_sample(n_clusters, tol))
    sample = _sample(rows, size, generator)
    ordered = sample.take(canonical_order(sample, generator))
    n_runs = 1 if isinstance(init, Tensor) else n_init
    runs = [solver.restart(ordered, init, tol, max_iter, seed + run) for run in range(n_runs)]
    best = min(runs, key=lambda run: run.loss)
    best.chosen = True
    solver.keep(next(i for i, run in enumerate(runs) if run is best))
    found, n_iter = best.descent, best.n_iter
    while size < enough:
        size = min(enough, size * GROWTH)
        if passes is None and n // 2 < size < n:
            break  # steps on all rows cost little more
        found = solver.descend(_sample(rows, size, generator), found.centers, tol, max_iter)
        n_iter += found.n_iter
    if size < n:
        found = solver.finish(rows, found, tol, max_iter, passes)
        n_iter += found.n_iter
    assignment = found.assignment if found.rows is rows else assign(rows, found.centers, geometry)
    counts = _counts(rows, assignment, n_clusters)
    if found.rows is not rows and not counts.all():
        # Rounding took a cluster's last row in another order: let the rows as they are have a say.
        found = solver.descend(rows, found.centers, tol, max_iter)
        n_iter += found.n_iter
        assignment, counts = found.assignment, found.totals.counts
    loss = mean_loss(rows, assignment)
    return Fit(found, assignment, counts, loss, n_iter, runs, solver.history)


def first_rows_per_cluster(tol: float) -> int:
    """Rows of each cluster in the sample on which restarts compete.

    Seeding takes more time than a step on it, and its centres miss the true ones by one part of
    the loss in as many rows as a cluster has. Who asks for a rough answer is served better by fewer
    rows here and a step on all of them: 1.6/√tol.

    >>> [first_rows_per_cluster(tol) for tol in (0.1, 0.03, 0.01, 1e-4)]
    [8, 9, 16, 32]
    """
    fewest, most = FIRST_ROWS_PER_CLUSTER
    return max(fewest, min(most, int(1.6 / math.sqrt(max(tol, 1e-6)))))


def first_sample(n_clusters: int, tol: float) -> int:
    """Rows of the sample on which restarts compete."""
    return max(FIRST_SAMPLE, first_rows_per_cluster(tol) * n_clusters)


def sample_rows(n: int, n_clusters: int, tol: float) -> int:
    """Of n rows, how many the last sample before all of them has: see `fit_centers`."""
    if ENOUGH * tol * n < n_clusters:
        return n
    least, better = (math.ceil(n_clusters / (times * tol)) for times in (ENOUGH, NEARLY))
    return max(least, min(better, n // SMALL_PART))


def _counts(rows: Rows, assignment: Assignment, n_clusters: int) -> Tensor:
    counts = torch.bincount(assignment.labels, rows.weight, minlength=n_clusters)
    return counts.to(rows.example.dtype)


def _sample(rows: Rows, size: int, generator: torch.Generator) -> Rows:
    """About `size` distinct rows, in their order; all rows if there are no more.

    Weighted rows are drawn as often as their weight says, and then weigh how often they were drawn:
    a few heavy ones may be all that matters.
    """
    n = rows.shape[0]
    if size >= n:
        return rows
    if rows.weight is not None:
        reach = rows.weight.cpu().double().cumsum(0)
        drawn = torch.rand(size, generator=generator, dtype=torch.float64) * reach[-1]
        index, times = torch.searchsorted(reach, drawn, right=True).unique(return_counts=True)
        sample = rows.take(index.to(rows.example.device))
        sample.weight = times.to(rows.weight)
        return sample
    if size > n // 4:
        index = torch.randperm(n, generator=generator)[:size].sort().values
    else:
        index = torch.randint(n, (size,), generator=generator).unique()
    return rows.take(index.to(rows.example.device))
