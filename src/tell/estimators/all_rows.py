"""Fits that see every row of what memory does not hold: in this process, or by workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tell.core.engine import ENOUGH, first_rows_per_cluster
from tell.core.online import state_of
from tell.core.oversampling import OVERSAMPLING, Drawn, choose_seeds, first_centers
from tell.core.passes import Passed, descend
from tell.core.radii import Radii
from tell.core.sums import Extent, Sums
from tell.data.limits import as_bytes
from tell.data.sources import Source
from tell.estimators.fit_plan import FitPlan, FitResult, restarts
from tell.estimators.ranges import to_rows
from tell.estimators.sampling import Moments, Sample, check_second_pass, per_cluster
from tell.estimators.scaling import Scaling
from tell.estimators.validation import check_rows
from tell.exceptions import InputError
from tell.progress import Bar, progress
from tell.scale.shards import Shard, Task
from tell.scale.workers import InProcess, TorchWorkers, Workers, sums

if TYPE_CHECKING:
    from tell.estimators.tell import TELL


def local_workers(source: Source) -> Workers:
    """The whole source as one shard in this process, read again in every pass."""
    return InProcess([Shard(source)])


@contextmanager
def open_workers(model: TELL, source: Source, n_rows: int) -> Iterator[Any]:
    """The workers that the model asks for; they are gone afterwards, whatever happens."""
    cache = as_bytes(model.memory) // 2
    workers: Workers
    if model.workers == "torchrun":
        workers = TorchWorkers(source, n_rows, cache)
    else:
        from tell.scale.ray_workers import RayWorkers

        count = None if model.workers is None else int(model.workers)
        workers = RayWorkers(source, n_rows, count, cache)
    try:
        yield workers
    finally:
        workers.close()


def count_rows(source: Source) -> int:
    """How many rows there are; what does not know is read to its end."""
    if not source.rereadable:
        check_second_pass(source)
    return source.n_rows or sum(len(chunk) for chunk in source.chunks())


@contextmanager
def watched(workers: Workers, bar: Bar, *, visible: bool, before: float = 0.0) -> Iterator[None]:
    """Show on the bar, behind what is done `before`, how far all workers are in a call."""
    workers.told = (lambda share: bar.update(before + share)) if visible else None
    try:
        yield
    finally:
        workers.told = None


def survey(workers: Workers, n_rows: int, size: int, seed: int) -> Sample:
    """A uniform sample and the columns' moments, the same however the rows are split."""
    random = np.random.default_rng(seed)
    wanted = np.sort(random.choice(n_rows, min(size, n_rows), replace=False, shuffle=False))
    found = workers.each("survey", wanted)
    X = np.concatenate([part.sample for part in found])
    moments = Moments(X.shape[1])
    for part in found:
        for rows, mean, squares in part.moments:
            moments.merge(rows, mean, squares)
    if moments.rows != n_rows:
        raise InputError(f"the rows changed while they were read: {n_rows} became {moments.rows}")
    return Sample(X, n_rows, True, moments.mean, moments.variance)


def fit_all_rows(plan: FitPlan, workers: Workers, sample: Sample, *, to_tol: bool) -> FitResult:
    """Cluster the sample, then take steps on all rows.

    Without `to_tol` these end where a step promises less than ten times `tol`, which a sample of
    the usual size does from the start.
    """
    model = plan.options
    scaling = plan.prepared or sample.scaling(model.geometry, model.standardize)
    x = to_rows(scaling.apply(sample.X, in_place=sample.is_copy), None, model.device)
    passes = _Passes(plan, workers, scaling, _extent(sample, scaling))
    fit, radii, history, runs = None, None, [], []
    if _sample_is_too_small(plan, sample):
        every = torch.arange(x.shape[0], device=x.example.device)
        centers = passes.seeds(x.dense(every).cpu())
    else:
        fit = plan.fit_rows(x, scaling)
        centers, history, runs = fit.centers.cpu(), fit.history, restarts(fit)
        radii = Radii.measure(*fit.assignment, None, len(centers))
        fit = fit.without_rows()
    sample.X = x = None  # type: ignore[assignment] # the labels may need the room
    passed = passes.descend(centers, model.tol if to_tol else ENOUGH * model.tol)
    run = history[-1].get("run", 0) if history else 0
    for entry in passed.history:
        entry |= {"run": run, "kept": True}
    if radii is None:
        radii = passes.radii(passed)
    labels = np.concatenate(workers.each("labels", passes.task(passed.centers)))
    found = passed.sums
    return FitResult(
        scaling=scaling,
        state=replace(state_of(passed.centers.to(model.device), found), radii=radii),
        labels=labels,
        loss=found.loss,
        cluster_losses=per_cluster(found.cluster_losses.numpy(), found.totals.counts.numpy()),
        n_iter=passed.n_steps + (0 if fit is None else fit.n_iter),
        history=history + passed.history,
        runs=runs,
        converged=passed.converged,
        choice=plan.choice,
    )


def _sample_is_too_small(plan: FitPlan, sample: Sample) -> bool:
    k = plan.n_clusters
    if sample.n_rows < k:
        raise InputError(
            f"n_clusters={k} needs at least {k} rows, got "
            f"n_samples={sample.n_rows}; pass more rows or lower n_clusters"
        )
    needed = first_rows_per_cluster(plan.options.tol) * k
    few = len(sample.X) < needed and plan.options.solver != "sgd"
    return few and not sample.complete and isinstance(plan.options.init, str)


def _extent(sample: Sample, scaling: Scaling) -> Extent:
    """How large sums can get, from the moments of the columns."""
    if sample.mean is None or sample.variance is None:
        raise InputError("the moments of the columns are not known")
    offset = 0.0 if scaling.offset is None else scaling.offset
    squares = sample.variance + np.square(sample.mean - offset)
    if scaling.scale is not None:
        squares = squares / np.square(scaling.scale)
    return Extent(sample.n_rows, torch.from_numpy(np.asarray(squares, dtype=np.float64)))


class _Passes:
    """Passes over the rows of all workers, with a record of what they moved."""

    def __init__(self, plan: FitPlan, workers: Workers, scaling: Scaling, extent: Extent) -> None:
        self._plan, self._model, self._workers = plan, plan.options, workers
        self._scaling, self._extent = scaling, extent
        self._moved: list[int] = []
        self._bar = Bar()

    def task(self, centers: Tensor) -> Task:
        return Task(centers, self._model.geometry, self._extent, self._scaling.apply)

    def _reduce(self, centers: Tensor) -> Sums:
        before, done = self._workers.bytes_moved, float(len(self._moved))
        with watched(self._workers, self._bar, visible=self._model.verbose > 0, before=done):
            found = sums(self._workers, self.task(centers))
        self._moved.append(self._workers.bytes_moved - before)
        return found

    def descend(self, centers: Tensor, tol: float) -> Passed:
        """Steps on all rows until one promises less than `tol`; each is in the history."""
        model = self._model
        most = model.max_iter if model.passes == "auto" else min(int(model.passes), model.max_iter)
        if model.solver == "sgd":
            most = 0  # its centres are those of its own steps
        with progress("passes", most + 1, visible=model.verbose > 0) as bar:
            self._bar, done = bar, iter(range(1, most + 2))
            passed = descend(
                self._reduce,
                centers,
                model.geometry,
                tol=tol,
                max_steps=most,
                report=lambda **entry: bar.update(next(done), loss=entry["loss"]),
            )
        passed.converged |= model.passes != "auto" or most == 0  # all that was asked for
        for entry, moved in zip(passed.history, self._moved, strict=False):
            count = self._workers.n_workers
            entry |= {"bytes": moved, "workers": count}
            entry["rows_per_second_per_worker"] = entry["rows_per_second"] / count
        return passed

    def radii(self, passed: Passed) -> Radii:
        """How far rows lie from their centres, by one more pass over all of them."""
        totals, losses = passed.sums.totals, passed.sums.cluster_losses
        none = Radii.of_sums(totals.counts, losses)
        parts = self._workers.each("radii", self.task(passed.centers), none)
        return replace(none, counts=sum(part.counts for part in parts))

    def seeds(self, sample: Tensor) -> Tensor:
        """k-means‖ in two passes over all rows."""
        model, k, seed = self._model, self._plan.n_clusters, self._plan.seed
        if model.geometry == "sphere" and not sample.any():  # no direction to start from
            check_rows(model, to_rows(np.zeros((k, 1)), None, "cpu"))
        first = first_centers(sample, max(1, min(len(sample) // 2, k // 8)), model.geometry, seed)
        count = OVERSAMPLING * k
        parts: list[Drawn] = self._workers.each("draw", self.task(first), count, seed)
        drawn = parts[0]
        for part in parts[1:]:
            drawn = drawn.first_of(part, count)
        candidates = torch.cat([first, drawn.x])
        if model.geometry == "sphere":
            candidates = torch.nn.functional.normalize(candidates, dim=1)
        weights = sums(self._workers, self.task(candidates)).totals.counts
        return choose_seeds(candidates, weights, k, model.geometry, seed)


def predict_shards(model: TELL, source: Source) -> NDArray[np.int32]:
    """The labels of all rows, by the workers."""
    n_rows, visible = count_rows(source), model.verbose > 0
    with (
        progress("predict", 1.0, visible=visible) as bar,
        open_workers(model, source, n_rows) as workers,
        watched(workers, bar, visible=visible),
    ):
        labels: NDArray[np.int32] = np.concatenate(workers.each("labels", labelling_task(model)))
    return labels


def write_shards(model: TELL, source: Source, folder: Path) -> list[int]:
    """Have each worker write its labels; return how many rows have gaps, then those of clusters."""
    with open_workers(model, source, count_rows(source)) as workers:
        counts = workers.each("write_labels", labelling_task(model), str(folder.absolute()))
    return [int(count) for count in sum(counts)]


def labelling_task(model: TELL) -> Task:
    """What workers need to label rows; they add nothing up."""
    centers, live = model._fitted_state().centers.cpu(), model._state.live
    nothing = Extent(0.0, torch.zeros(centers.shape[1], dtype=torch.float64))
    own = None if live is None else live.cpu()
    return Task(centers, model.geometry, nothing, model._scaling.apply, own)
