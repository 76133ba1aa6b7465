"""How a fit finds its centres: from a matrix, from a sample, or by steps on all rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tell.choosing.choice import FIRST_RANGE, Choice, choose_rows
from tell.core.assignment import Rows, assign
from tell.core.batchwise import fit_batchwise
from tell.core.engine import (
    ENOUGH,
    Fit,
    first_sample,
    fit_centers,
    sample_rows,
)
from tell.core.online import StreamState, grown, stream_state
from tell.core.radii import Radii
from tell.core.trimming import fit_trimmed
from tell.data.limits import as_bytes
from tell.data.sources import Source
from tell.estimators.lineage import better_of, warm_start
from tell.estimators.ranges import as_labels, check_weights, near_one, to_rows
from tell.estimators.sampling import Sample, most_rows, per_cluster, read_sample
from tell.estimators.scaling import Floats, Scaling
from tell.estimators.validation import check_finite, check_rows, given_centers
from tell.exceptions import InputError
from tell.progress import progress

if TYPE_CHECKING:
    from tell.estimators.tell import TELL

# Bytes that fitting takes per row beside the row, in numbers of its precision and in labels: length
# and its inverse, score, distance and their temporaries; label, as the engine and as users know it.
NUMBERS_PER_ROW, LABEL_BYTES = 6, 12


@dataclass
class FitResult:
    """What a fit has found, for the estimator to take over."""

    scaling: Scaling
    state: StreamState
    labels: NDArray[np.int32]
    loss: float
    cluster_losses: Floats
    n_iter: int
    history: list[dict[str, float]]
    runs: list[dict[str, Any]]
    converged: bool
    choice: Choice | None = None
    trimmed: NDArray[np.bool_] | None = None


class FitPlan:
    """A fit with the options of a `TELL`, which are only read, from a seed.

    `like` is an earlier model whose centres are a start too.
    """

    def __init__(self, options: TELL, seed: int, like: TELL | None = None) -> None:
        self.options, self.seed, self.like = options, seed, like
        self.choice: Choice | None = None
        learned = getattr(options, "preparation_", None)
        #: The weights of a table's features, where the model has a preparation.
        self.prepared = None if learned is None else Scaling(learned.offset, learned.scale)

    @property
    def n_clusters(self) -> int:
        """How many clusters are made; before the number is chosen, about how many may be."""
        if self.options.n_clusters != "auto":
            return int(self.options.n_clusters)
        if self.choice is not None:
            return self.choice.n_clusters
        return self.options.max_clusters or FIRST_RANGE

    @property
    def _descended(self) -> int:
        """Rows of the largest sample that steps are taken on."""
        tol = self.options.tol
        return math.ceil(self.n_clusters / (ENOUGH * tol)) if tol else 1 << 62

    # --- reading -------------------------------------------------------------------------------

    def _most_rows(self, source: Source) -> int:
        """Rows that may be in memory at a time, with all that is computed for them."""
        per_row = source.row_bytes + NUMBERS_PER_ROW * source.dtype.itemsize + LABEL_BYTES
        limit = as_bytes(self.options.memory)
        descended = sample_rows(limit // per_row, self.n_clusters, self.options.tol)
        return most_rows(limit, per_row, descended)

    def sample(self, source: Source) -> Sample:
        """All rows of a source that fits into memory, else a uniform sample."""
        with progress("read", source.n_rows, visible=self.options.verbose > 0) as bar:
            return read_sample(source, self._most_rows(source), self.seed, bar)

    def all_rows(self, source: Source) -> Any:
        """The matrix of all rows, for those who have a weight for each."""
        sample = read_sample(source, self._most_rows(source), self.seed)
        if not sample.complete:
            raise self._too_large(source)
        return sample.X

    def _too_large(self, source: Source) -> InputError:
        return InputError(
            f"sample_weight needs all rows in memory, but {source.name} is larger than "
            f"memory={self.options.memory!r}; raise it"
        )

    # --- the ways of a fit ---------------------------------------------------------------------

    def fit(self, source: Source, sample_weight: ArrayLike | None) -> FitResult:
        """Cluster the rows of a source, wherever they are."""
        if by_workers(self.options, source):
            return self._fit_workers(source, sample_weight)
        if source.in_memory:
            X = source.matrix()
            return self.fit_matrix(X, check_weights(sample_weight, X))
        sample = self.sample(source)
        if sample.complete:
            weight = check_weights(sample_weight, sample.X)
            return self.fit_matrix(sample.X, weight, in_place=sample.is_copy)
        return self._fit_sample(source, sample, sample_weight)

    def fit_matrix(self, X: Any, weight: Floats | None, *, in_place: bool = False) -> FitResult:
        """Cluster an array or CSR matrix, which may be overwritten `in_place`."""
        trim, geometry = self.options.trim, self.options.geometry
        weight, factor = near_one(weight)
        scaling = self.prepared or Scaling.learn(X, weight, geometry, self.options.standardize)
        rows = to_rows(scaling.apply(X, in_place=in_place), weight, self.options.device)
        check_finite(self.options, X, rows)
        counted = rows
        if weight is not None and not weight.all():
            counted = rows.take(torch.nonzero(rows.weights() > 0)[:, 0])
        fit = self.fit_rows(counted, scaling)
        whole = counted is rows and not trim
        own = fit.assignment if whole else assign(rows, fit.centers, geometry)
        # What a cluster's width is, the trimmed rows do not tell.
        measured, weights = (own, rows.weight) if not trim else (fit.assignment, None)
        radii = Radii.measure(*measured, weights, len(fit.centers))
        state = replace(stream_state(fit), radii=radii)
        labels = as_labels(own.labels)
        return FitResult(
            scaling=scaling,
            state=state if factor == 1.0 else grown(state, state.seen * factor),
            labels=labels,
            loss=fit.loss,
            cluster_losses=_cluster_losses(labels, own.distances, weight, len(fit.centers)),
            n_iter=fit.n_iter,
            history=fit.history,
            runs=restarts(fit),
            converged=fit.descent.converged,
            choice=self.choice,
            trimmed=_beyond(own.distances, fit) if trim else None,
        )

    def _fit_sample(self, source: Source, sample: Sample, sample_weight: Any) -> FitResult:
        """Cluster a sample, then read the rows again: to label them, and for steps on all."""
        from tell.estimators.all_rows import fit_all_rows, local_workers

        if sample_weight is not None:
            raise self._too_large(source)
        self._check_untrimmed()
        to_tol = self.options.passes != "auto"
        return fit_all_rows(self, local_workers(source), sample, to_tol=to_tol)

    def _fit_workers(self, source: Source, sample_weight: Any) -> FitResult:
        """Sample, measure, cluster and label the rows where they are read."""
        from tell.estimators.all_rows import count_rows, fit_all_rows, open_workers, survey, watched

        if sample_weight is not None:
            raise InputError("sample_weight needs all rows in one process; leave workers out")
        self._check_untrimmed()
        n_rows = count_rows(source)
        size = max(first_sample(self.n_clusters, self.options.tol), self._descended)
        visible = self.options.verbose > 0
        with open_workers(self.options, source, n_rows) as workers:
            with (
                progress("read", 1.0, visible=visible) as bar,
                watched(workers, bar, visible=visible),
            ):
                sample = survey(workers, n_rows, min(size, self._most_rows(source)), self.seed)
            return fit_all_rows(self, workers, sample, to_tol=True)

    def _check_untrimmed(self) -> None:
        if self.options.trim:
            raise InputError(
                f"trim={self.options.trim} needs all rows in memory; raise memory, or leave "
                "workers out"
            )

    def fit_rows(self, rows: Rows, scaling: Scaling) -> Fit:
        """Cluster rows that are scaled, with the solver that the options name."""
        options = self.options
        check_rows(options, rows)
        if options.n_clusters == "auto":
            self.choice = self._choose(rows)
        init = given_centers(options, self.n_clusters, scaling, rows)
        with progress("fit", options.max_iter, visible=options.verbose > 0) as bar:
            steps = iter(range(1, 1 << 60))
            shared: dict[str, Any] = {
                "init": init,
                "geometry": options.geometry,
                "n_init": options.n_init,
                "max_iter": options.max_iter,
                "seed": self.seed,
                "report": lambda **entry: bar.update(
                    min(next(steps), options.max_iter - 1), loss=entry["loss"]
                ),
            }
            fit = self._solve(rows, scaling, shared)
            bar.update(options.max_iter, loss=fit.loss)
        return fit

    def _solve(self, rows: Rows, scaling: Scaling, shared: dict[str, Any]) -> Fit:
        options, k = self.options, self.n_clusters
        if options.solver == "sgd":
            return fit_batchwise(rows, k, **shared)
        shared |= {"tol": options.tol}
        shared |= {"passes": None if options.passes == "auto" else int(options.passes)}
        if options.trim:
            del shared["init"]  # it has a way of its own
            return fit_trimmed(rows, k, options.trim, **shared)
        fit = fit_centers(rows, k, **shared)
        if self.like is None:
            return fit
        start = warm_start(self.like, k, scaling, rows, self.seed)
        return better_of(fit_centers(rows, k, **shared | {"init": start}), fit)

    # --- the number of clusters ----------------------------------------------------------------

    def choose(self, source: Source, sample_weight: ArrayLike | None) -> Choice:
        """The number that a fit with n_clusters="auto" would choose, without the fit."""
        options = self.options
        sample = self.sample(source)
        if not sample.complete and sample_weight is not None:
            raise self._too_large(source)
        weight = check_weights(sample_weight, sample.X)
        scaling = self.prepared
        if scaling is None and sample.complete:
            scaling = Scaling.learn(sample.X, weight, options.geometry, options.standardize)
        scaling = scaling or sample.scaling(options.geometry, options.standardize)
        rows = to_rows(scaling.apply(sample.X, in_place=sample.is_copy), weight, options.device)
        check_finite(options, sample.X, rows)
        check_rows(options, rows)
        return self._choose(rows)

    def _choose(self, rows: Rows) -> Choice:
        learned = getattr(self.options, "preparation_", None)
        groups = {} if learned is None else learned.groups
        with progress("choose", None, visible=self.options.verbose > 0) as bar:
            return choose_rows(
                rows,
                self.options.geometry,
                max_clusters=self.options.max_clusters,
                trim=self.options.trim,
                seed=self.seed,
                categories=[np.array(part) for part in groups.values()],
                report=bar.update,
            )


def by_workers(model: TELL, source: Source) -> bool:
    """Whether the rows are read by other processes than this one."""
    return not source.in_memory and (model.workers is not None or source.distributed)


def restarts(fit: Fit) -> list[dict[str, Any]]:
    """The restarts as users know them, without their rows."""
    return [
        {"seed": run.seed, "loss": run.loss, "n_iter": run.n_iter, "chosen": run.chosen}
        for run in fit.runs
    ]


def _beyond(distances: Tensor, fit: Fit) -> NDArray[np.bool_]:
    """Which rows lie farther out than all that the centres were moved by."""
    farthest = fit.assignment.distances.max() * (1 + 1e-6)
    return (distances > farthest).cpu().numpy()


def _cluster_losses(
    labels: NDArray[np.int32], distances: Tensor, weight: Floats | None, n_clusters: int
) -> Floats:
    """Mean squared distance (k,) of the rows of each cluster."""
    losses = distances.cpu().numpy()
    counts = np.bincount(labels, weight, minlength=n_clusters)
    weighted = losses if weight is None else losses * weight
    return per_cluster(np.bincount(labels, weighted, minlength=n_clusters), counts)
