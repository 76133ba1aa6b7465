"""Centres that follow a stream: the paper's step with a memory, and a watch over the fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tell.core.assignment import Assignment, Rows, Totals, assign, totals, wide
from tell.core.engine import Fit, mean_loss, step_to
from tell.core.layer import Geometry
from tell.core.radii import Radii
from tell.core.seeding import as_centers, seedable
from tell.core.sums import Sums

if TYPE_CHECKING:
    from tell.core.growing import Growth

BASELINE_ROWS = 1000  # rows from which the usual loss is learned
BASELINE_ROWS_PER_CLUSTER = 16  # fewer fitted rows lie too close to their centres to be usual
RUNNING_ROWS = 1000  # memory of the running loss
IDLE_SHARE = 0.01  # a centre with less than this part of a fair share of the rows is idle
ROWS_BETWEEN_REVIVALS = 10  # per cluster


@dataclass(frozen=True)
class Watch:
    """What the loss usually is, and what it is now.

    The data is said to drift when the running loss lies a tenth above the baseline (half of it, if
    that comes from few rows) and four standard errors above it; far rows lie three standard
    deviations above.
    """

    rows: float = 0.0  # rows behind the baseline
    mean: float = 0.0
    squares: float = 0.0  # sum of squared deviations from the mean
    running: float = 0.0
    watched: float = 0.0  # rows seen since the baseline stood
    drifting: bool = False
    fitted: bool = False  # the baseline is that of a fit, and nothing that comes later changes it

    @classmethod
    def over(cls, distances: Tensor, n_clusters: int) -> Watch:
        """The baseline of rows that a model was fitted to.

        Fitted rows lie closer to their centres than new ones: k means of n rows take part k/n of
        the loss away, and miss the true means by as much (Akaike's final prediction error).
        """
        n = len(distances)
        if n < BASELINE_ROWS_PER_CLUSTER * n_clusters:
            return cls()
        usual = wide(distances) * ((n + n_clusters) / (n - n_clusters))
        mean = float(usual.mean())
        return cls(float(n), mean, float((usual - mean).square().sum()), mean, fitted=True)

    @property
    def stands(self) -> bool:
        """Whether it is known what is usual."""
        return self.rows > 0 and (self.fitted or self.rows >= BASELINE_ROWS)

    @property
    def deviation(self) -> float:
        """Standard deviation of a row's loss."""
        return math.sqrt(self.squares / self.rows) if self.rows else 0.0

    @property
    def far(self) -> float:
        """Loss beyond which a row is called far; unknown until the baseline stands."""
        return self.mean + 3 * self.deviation if self.stands else math.inf

    @property
    def limit(self) -> float:
        """Running loss beyond which the data is said to drift."""
        rows = min(self.watched, RUNNING_ROWS) or 1.0
        error = self.deviation * math.sqrt(1 / self.rows + 1 / rows) if self.rows else 0.0
        # Rows that were not fitted lie farther off, and how far, a fit to few rows cannot tell.
        much = 1.1 if self.rows >= BASELINE_ROWS else 1.5
        return max(much * self.mean, self.mean + 4 * error)

    def after(self, distances: Tensor, weights: Tensor | None = None) -> Watch:
        """The watch after further rows, of which each counts as often as its weight says."""
        return self.following(*_moments(distances, weights))

    def following(self, count: float, mean: float, inside: float) -> Watch:
        """The watch after so many rows, by their mean loss and its summed squared deviations."""
        if not self.stands:  # still learning what is usual (Chan's update)
            rows, gap = self.rows + count, mean - self.mean
            return Watch(
                rows=rows,
                mean=self.mean + gap * count / rows,
                squares=self.squares + inside + gap * gap * self.rows * count / rows,
                running=self.mean + gap * count / rows,
            )
        running = mean + (self.running - mean) * math.exp(-count / RUNNING_ROWS)
        watched = self.watched + count
        now = Watch(self.rows, self.mean, self.squares, running, watched, False, self.fitted)
        return replace(now, drifting=True) if running > now.limit else now


def _moments(distances: Tensor, weights: Tensor | None) -> tuple[float, float, float]:
    """Rows, their mean loss, and its summed squared deviations."""
    losses = wide(distances)
    if weights is None:
        mean = float(losses.mean())
        return float(len(losses)), mean, float((losses - mean).square().sum())
    weights = wide(weights)
    count = float(weights.sum())
    mean = float(weights @ losses) / count
    return count, mean, float(weights @ (losses - mean).square())


def _share(chosen: Tensor, weights: Tensor | None) -> float:
    """Part of the rows that are chosen."""
    if weights is None:
        return float(chosen.float().mean())
    return float(wide(weights)[chosen].sum() / wide(weights).sum())


@dataclass(frozen=True)
class StreamState:
    """All that the next batch needs; a step returns a new state and leaves this one as it is."""

    centers: Tensor  # (k, d)
    memory: Totals  # running sums and counts, decayed by the half-life; in float64, because
    lengths: Tensor  # (k,) running sum of the members' lengths; 2^24 + 1 = 2^24 in float32
    seen: float = 0.0  # rows in all
    revived_at: float = 0.0  # rows seen when idle centres were last looked for
    watch: Watch = field(default_factory=Watch)
    radii: Radii | None = None  # of models that an earlier version has written
    growth: Growth | None = None  # of a stream whose clusters may be born and retired

    @property
    def live(self) -> Tensor | None:
        """Positions of the clusters that still take rows; None if all do."""
        if self.growth is None or not bool(self.growth.retired.any()):
            return None
        return torch.nonzero(~self.growth.retired)[:, 0]

    def only(self, clusters: Tensor) -> StreamState:
        """With some of the clusters, in this order, and nobody waiting for another."""
        return replace(
            self,
            centers=self.centers[clusters],
            memory=Totals(*(part[clusters] for part in self.memory)),
            lengths=self.lengths[clusters],
            radii=None if self.radii is None else self.radii.only(clusters),
            growth=None,
        )


def assign_live(rows: Rows, state: StreamState, geometry: Geometry) -> Assignment:
    """The nearest of the clusters that still take rows, for each row."""
    live, centers = state.live, state.centers.to(rows.example)
    if live is None:
        return assign(rows, centers, geometry)
    found = assign(rows, centers[live], geometry)
    return Assignment(live[found.labels], found.distances)


def stream_state(fit: Fit) -> StreamState:
    """The state after a fit: its last sample's sums, at the weight of all rows."""
    rows, labels, part = fit.descent.rows, fit.descent.assignment.labels, fit.descent.totals
    counts = wide(fit.counts)
    growth = counts / part.counts.clamp(min=torch.finfo(part.counts.dtype).tiny)
    lengths = torch.zeros_like(counts).index_add_(0, labels, lengths_of(rows))
    memory = Totals(part.sums * growth[:, None], counts)
    seen = float(counts.sum())
    watch = Watch.over(fit.descent.assignment.distances, len(counts))
    return StreamState(fit.centers, memory, lengths * growth, seen, seen, watch)


def state_of(centers: Tensor, sums: Sums) -> StreamState:
    """The state after passes over all rows."""
    part, rows, k = sums.totals, sums.rows, len(centers)
    watch = Watch()
    if rows >= BASELINE_ROWS_PER_CLUSTER * k:
        usual = (rows + k) / (rows - k)  # as in `Watch.over`
        squares = max(0.0, sums.loss_squares - rows * sums.loss**2) * usual**2
        mean = sums.loss * usual
        watch = Watch(rows, mean, squares, mean, fitted=True)
    return StreamState(centers, part, sums.lengths, rows, rows, watch)


def grown(state: StreamState, rows: float) -> StreamState:
    """The state after a fit to a sample, at the weight of all the rows that it stands for."""
    growth = rows / state.seen
    memory = Totals(*(part * growth for part in state.memory))
    lengths = state.lengths * growth
    radii = None if state.radii is None else state.radii.scaled(growth)
    return replace(state, memory=memory, lengths=lengths, seen=rows, revived_at=rows, radii=radii)


def lengths_of(rows: Rows) -> Tensor:
    """Weighted lengths of the rows."""
    return wide(rows.length * rows.weights())


def step(
    state: StreamState,
    rows: Rows,
    geometry: Geometry,
    half_life: float | None,
    unit: float = 1.0,
) -> tuple[StreamState, dict[str, float], Tensor]:
    """Move the centres by one batch; returns the new state, what happened, and the labels.

    Labels are those with which the rows were learned: of the nearest centre before the move.

    The memory S of all rows so far decays by half every `half_life` rows (never, if None). With
    the batch's sum s the new centre is unit(S + s): the paper's normalised step with the length
    ‖s‖/‖S‖. It falls as 1/t for a stationary stream and stays constant under a half-life.
    A weight of 1 stands for `unit` rows: the watch over the loss counts in rows.
    """
    nearest = assign_live(rows, state, geometry)
    part = totals(rows, nearest.labels, len(state.centers), geometry)
    count = float(part.counts.sum())
    keep = 1.0 if half_life is None else 0.5 ** (count / half_life)
    new = learned(state, rows, nearest, part, geometry, keep)
    new, revived = replace(new, seen=state.seen + count), 0
    if state.growth is None:
        if is_time_to_revive(new):
            new, revived = revive_idle(new, rows, nearest, geometry)
    else:  # a number belongs to one cluster for ever
        new = replace(new, growth=state.growth.served(part.counts, new.seen))
    new, record = recorded(state, new, rows, nearest, unit, count)
    return new, record | {"revived": revived}, nearest.labels


def learned(
    state: StreamState,
    rows: Rows,
    nearest: Assignment,
    part: Totals,
    geometry: Geometry,
    keep: float,
) -> StreamState:
    """Centres, memory and distances after rows with these totals; the old count `keep` times."""
    memory = Totals(state.memory.sums * keep + part.sums, state.memory.counts * keep + part.counts)
    own = torch.bincount(nearest.labels, lengths_of(rows), minlength=len(state.lengths))
    lengths = state.lengths * keep + own.to(state.lengths)
    # Forgetting shortens a sum, it does not turn it: a centre without new rows stays.
    moved = step_to(memory, state.centers, geometry).to(state.centers.dtype)
    return replace(
        state,
        centers=torch.where((part.counts > 0)[:, None], moved, state.centers),
        memory=memory,
        lengths=lengths,
        radii=None if state.radii is None else state.radii.after(*nearest, rows.weight, keep),
    )


def recorded(
    before: StreamState,
    after: StreamState,
    rows: Rows,
    nearest: Assignment,
    unit: float,
    count: float,
) -> tuple[StreamState, dict[str, float]]:
    """The state with its watch brought up to date, and what is noted of a batch."""
    repeated = None if rows.weight is None else wide(rows.weight) * unit
    new = replace(after, watch=before.watch.after(nearest.distances, repeated))
    far = _share(nearest.distances > before.watch.far, repeated)
    gap = new.centers[: len(before.centers)] - before.centers
    moved, loss = float(gap.square().sum(dim=1).mean().sqrt()), mean_loss(rows, nearest)
    return new, noted(new, rows=count, loss=loss, moved=moved, far=far)


def noted(
    state: StreamState, *, rows: float, loss: float, moved: float, far: float, revived: int = 0
) -> dict[str, float]:
    """What is noted of a batch that led to this state, and by how far it moved the centres."""
    watch = state.watch
    return {
        "rows": rows,
        "seen": state.seen,
        "loss": loss,
        "running_loss": watch.running,
        "baseline_loss": watch.mean,
        "drift_limit": watch.limit if watch.stands else 0.0,
        "movement": moved,
        "far_share": far,
        "revived": revived,
        "drift": float(watch.drifting),
    }


def is_time_to_revive(state: StreamState) -> bool:
    """Whether enough rows have come since idle centres were last looked for."""
    return state.seen - state.revived_at >= ROWS_BETWEEN_REVIVALS * state.centers.shape[0]


def revive_idle(
    state: StreamState, rows: Rows, nearest: Assignment, geometry: Geometry
) -> tuple[StreamState, int]:
    """Put centres that get almost no rows onto the worst-served rows of the batch."""
    k = len(state.centers)
    state = replace(state, revived_at=state.seen)
    counts = state.memory.counts
    idle = torch.nonzero(counts < IDLE_SHARE * counts.sum() / k)[:, 0]
    if not len(idle):
        return state, 0
    loss = nearest.distances * (seedable(rows, geometry) > 0)
    worst = loss.topk(min(len(idle), len(loss))).indices
    worst = worst[loss[worst] > 0]
    if not len(worst):
        return state, 0
    idle = idle[: len(worst)]
    points = as_centers(rows, worst, geometry)
    length = wide(rows.length[worst])  # each counts once, whatever its weight
    fresh = {
        "centers": (state.centers, points),
        "sums": (state.memory.sums, points),
        "counts": (counts, torch.ones_like(length)),
        "lengths": (state.lengths, length),
    }
    placed = {
        name: old.index_copy(0, idle, new.to(old.dtype)) for name, (old, new) in fresh.items()
    }
    memory = Totals(placed["sums"], placed["counts"])
    radii = None if state.radii is None else state.radii.forgotten(idle)
    lengths = placed["lengths"]
    revived = replace(state, centers=placed["centers"], memory=memory, lengths=lengths, radii=radii)
    return revived, len(idle)
