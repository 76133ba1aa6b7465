"""Clusters that are born and retired while a stream goes on.

Rows that lie too far from every centre wait outside. Where they gather densely for longer than a
stated time a cluster is born of them; those that do not gather are learned as usual when their
waiting ends, so that every row is learned once. A cluster that gets no rows for ten times as long
is retired: it keeps its number, which nothing else gets, and takes no rows any more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from tell.core.assignment import Assignment, DenseRows, Rows, Totals, totals, wide
from tell.core.layer import Geometry, unit
from tell.core.online import StreamState, assign_live, learned, lengths_of, recorded
from tell.core.radii import Radii

#: Rows wait outside if they lie farther out than all but this share of a cluster's rows.
REJECTED = 0.01
#: A new cluster has so many rows, and this part of a fair share of those that came meanwhile.
LEAST_ROWS, LEAST_SHARE = 20.0, 0.2
#: Of its rows at least this part came in either half of the time: a burst is no cluster.
STEADY = 0.2
#: In stated times: how long rows wait, and how long a cluster may get none.
WAITING_TIMES, RETIRED_TIMES = 2.0, 10.0
#: Times that the waiting rows are looked at in a stated time.
LOOKS = 10
#: Rows that wait at most, and numbers in all of them.
MOST_WAITING, MOST_NUMBERS = 1024, 1 << 22
#: Steps in which the middle of a gathering settles.
SHIFTS = 5


@dataclass(frozen=True)
class Growth:
    """Who waits outside, and when each cluster last got a row; times are in rows seen."""

    rows: Tensor  # (m, d) as they came
    weights: Tensor  # (m,)
    when: Tensor  # (m,)
    last: Tensor  # (k,)
    retired: Tensor  # (k,) whether a cluster has been given up
    looked_at: float = 0.0

    @classmethod
    def begin(cls, state: StreamState) -> Growth:
        """Nobody waits, and every cluster has just got a row."""
        k, d = state.centers.shape
        times = state.lengths.new_full((k,), state.seen)
        none = state.lengths.new_zeros(0)
        retired = torch.zeros(k, dtype=torch.bool, device=times.device)
        return cls(state.centers.new_zeros(0, d), none, none, times, retired, state.seen)

    def scaled(self, factor: float) -> Growth:
        """With weights and times so many times as large."""
        return replace(
            self,
            weights=self.weights * factor,
            when=self.when * factor,
            last=self.last * factor,
            looked_at=self.looked_at * factor,
        )

    def only(self, which: Tensor) -> Growth:
        """With some of the waiting rows alone."""
        return replace(
            self, rows=self.rows[which], weights=self.weights[which], when=self.when[which]
        )

    def served(self, counts: Tensor, now: float) -> Growth:
        """With the clusters that have just got rows, by their counts (k,)."""
        return replace(self, last=torch.where(counts > 0, self.last.new_tensor(now), self.last))

    def waiting(self) -> Rows:
        """The rows outside."""
        return DenseRows(self.rows, self.weights.to(self.rows.dtype))


class Pace(NamedTuple):
    """How long is long: in weights, of which each stands for `unit` rows."""

    time: float
    unit: float


def grow_step(
    state: StreamState,
    rows: Rows,
    geometry: Geometry,
    half_life: float | None,
    time: float,
    weight_unit: float = 1.0,
) -> tuple[StreamState, dict[str, float], Tensor]:
    """As `online.step`, with clusters that are born and retired after `time` rows."""
    if state.radii is None:
        raise ValueError("a stream grows only where the distances in its clusters are known")
    pace = Pace(time, weight_unit)
    before = replace(state, growth=state.growth or Growth.begin(state))
    nearest = assign_live(rows, before, geometry)
    outside = nearest.distances > state.radii.limits(REJECTED).to(nearest.distances)[nearest.labels]
    if geometry == "sphere":  # rows of zeros have no direction, and gather nowhere
        outside &= rows.length > 0
    count = float(wide(rows.weights()).sum())
    keep = 1.0 if half_life is None else 0.5 ** (count / half_life)
    new = _learn_part(before, rows, nearest, ~outside, geometry, keep)
    new = replace(new, seen=state.seen + count)
    new = _wait(new, rows, outside)
    new = _release(new, pace, geometry)
    new = _give_birth(new, pace, geometry)
    new = _retire(new, pace)
    new, record = recorded(before, new, rows, nearest, weight_unit, count)
    return new, record | _news(before, new), nearest.labels


def _news(before: StreamState, after: StreamState) -> dict[str, float]:
    old, new = before.growth, after.growth
    if old is None or new is None:
        return {}
    return {
        "born": float(len(after.centers) - len(before.centers)),
        "retired": float(new.retired.sum() - old.retired.sum()),
        "waiting": float(len(new.rows)),
    }


def _learn_part(
    state: StreamState,
    rows: Rows,
    nearest: Assignment,
    which: Tensor,
    geometry: Geometry,
    keep: float,
) -> StreamState:
    """Learn some of the rows; all earlier ones count `keep` times as much."""
    index = torch.nonzero(which)[:, 0]
    part, own = rows.take(index), Assignment(nearest.labels[index], nearest.distances[index])
    sums = totals(part, own.labels, len(state.centers), geometry)
    new = learned(state, part, own, sums, geometry, keep)
    growth = state.growth
    if growth is None:
        return new
    now = state.seen + float(wide(rows.weights()).sum())
    return replace(new, growth=growth.served(sums.counts, now))


def _wait(state: StreamState, rows: Rows, outside: Tensor) -> StreamState:
    """Let rows wait outside."""
    growth, index = state.growth, torch.nonzero(outside)[:, 0]
    if growth is None or not len(index):
        return state
    weights = wide(rows.weights()).to(growth.weights)
    came = state.seen - weights.sum() + weights.cumsum(0)  # one after another
    weights = weights[index]
    joined = replace(
        growth,
        rows=torch.cat([growth.rows, rows.dense(index).to(growth.rows)]),
        weights=torch.cat([growth.weights, weights]),
        when=torch.cat([growth.when, came[index]]),
    )
    return replace(state, growth=joined)


def _release(state: StreamState, pace: Pace, geometry: Geometry) -> StreamState:
    """Learn the rows that have waited long enough, and the oldest where too many wait."""
    growth = state.growth
    if growth is None or not len(growth.rows):
        return state
    most = max(int(LEAST_ROWS) * 4, min(MOST_WAITING, MOST_NUMBERS // growth.rows.shape[1]))
    done = growth.when < state.seen - WAITING_TIMES * pace.time
    done[: max(0, len(done) - most)] = True  # they stand in the order of their coming
    if not bool(done.any()):
        return state
    gone = growth.only(done).waiting()
    nearest = assign_live(gone, state, geometry)
    sums = totals(gone, nearest.labels, len(state.centers), geometry)
    new = learned(state, gone, nearest, sums, geometry, 1.0)
    return replace(new, growth=growth.only(~done))


def _give_birth(state: StreamState, pace: Pace, geometry: Geometry) -> StreamState:
    """Make a cluster of waiting rows that have gathered, if some have."""
    growth = state.growth
    if growth is None or state.seen - growth.looked_at < pace.time / LOOKS:
        return state
    state = replace(state, growth=replace(growth, looked_at=state.seen))
    if float(growth.weights.sum()) * pace.unit < LEAST_ROWS or state.radii is None:
        return state
    member = _gathering(state, growth, geometry)
    if member is None or not _is_lasting(state, growth, member, pace):
        return state
    return _born(state, growth, member, geometry)


def _gathering(state: StreamState, growth: Growth, geometry: Geometry) -> Tensor | None:
    """Which waiting rows (m,) lie together in a ball as wide as the usual cluster.

    None if its middle would itself not be rejected: those rows are the rim of a cluster.
    """
    if state.radii is None:
        return None
    limits = state.radii.limits(REJECTED)
    reach = float(limits[~growth.retired].median())
    points = wide(unit(growth.rows) if geometry == "sphere" else growth.rows)
    # Two rows of a cluster lie √2 times as far from each other as from its centre.
    near = (torch.cdist(points, points).square() <= 2 * reach).to(points)
    member = near[int((near @ growth.weights.to(points)).argmax())] > 0
    for _ in range(SHIFTS):
        middle = _middle(points[member], growth.weights[member], geometry)
        closer = (points - middle).square().sum(dim=1) <= reach
        if not bool(closer.any()) or bool((closer == member).all()):
            break
        member = closer
    nearest = assign_live(DenseRows(middle[None].to(growth.rows)), state, geometry)
    outside = float(nearest.distances[0]) > float(limits[nearest.labels[0]])
    return member if outside else None


def _middle(points: Tensor, weights: Tensor, geometry: Geometry) -> Tensor:
    mean = (points * weights.to(points)[:, None]).sum(dim=0) / weights.sum().to(points)
    return unit(mean[None])[0] if geometry == "sphere" else mean


def _is_lasting(state: StreamState, growth: Growth, member: Tensor, pace: Pace) -> bool:
    """Whether enough rows have come, for long enough, and all along."""
    when, weights = growth.when[member], growth.weights[member]
    weight, first = float(weights.sum()), float(when.min())
    if weight * pace.unit < LEAST_ROWS or float(when.max()) - first < pace.time:
        return False
    fair = (state.seen - first) / (int((~growth.retired).sum()) + 1)
    late = float(weights[when > (first + state.seen) / 2].sum()) / weight
    return weight >= LEAST_SHARE * fair and STEADY <= late <= 1 - STEADY


def _born(state: StreamState, growth: Growth, member: Tensor, geometry: Geometry) -> StreamState:
    """The state with one cluster more, made of some of the waiting rows."""
    rows = growth.only(member).waiting()
    none = torch.zeros(rows.shape[0], dtype=torch.long, device=rows.example.device)
    sums = totals(rows, none, 1, geometry)
    points = unit(growth.rows[member]) if geometry == "sphere" else growth.rows[member]
    center = _middle(wide(points), growth.weights[member], geometry)
    apart = (wide(points) - center).square().sum(dim=1)
    own = Radii.measure(none, apart, rows.weight, 1)
    radii = state.radii
    length = lengths_of(rows).sum()[None]
    later = growth.only(~member)
    last = torch.cat([growth.last, growth.last.new_full((1,), state.seen)])
    retired = torch.cat([growth.retired, growth.retired.new_zeros(1)])
    return replace(
        state,
        centers=torch.cat([state.centers, center[None].to(state.centers)]),
        memory=Totals(*(torch.cat([a, b.to(a)]) for a, b in zip(state.memory, sums, strict=True))),
        lengths=torch.cat([state.lengths, length.to(state.lengths)]),
        radii=None if radii is None else radii.joined(own),
        growth=replace(later, last=last, retired=retired, looked_at=state.seen),
    )


def _retire(state: StreamState, pace: Pace) -> StreamState:
    """Give up clusters that get no rows; the one that last got some stays in any case."""
    growth = state.growth
    if growth is None:
        return state
    idle = state.seen - growth.last > RETIRED_TIMES * pace.time
    times = torch.where(growth.retired, -torch.inf, growth.last)
    idle[int(times.argmax())] = False
    return replace(state, growth=replace(growth, retired=growth.retired | idle))
