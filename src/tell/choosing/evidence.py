"""What speaks for each number of clusters: four curves, each with its uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from tell.choosing.outliers import farthest_out
from tell.choosing.structureless import compressed, structureless
from tell.contract import Floats, Ints, unit
from tell.core.assignment import Rows, SparseRows
from tell.core.layer import Geometry
from tell.core.seeding import canonical_order
from tell.core.sweep import Solution, losses, scores, sweep

#: Rows that are looked at: so many, or so many per cluster of the largest number.
MAX_ROWS, ROWS_PER_CLUSTER = 2048, 32
#: Rows per cluster that a number needs to be tried at all.
LEAST_ROWS_PER_CLUSTER = 5
#: Wider rows are looked at on this many main axes, sparse ones on fewer.
MAX_COLUMNS, SPARSE_COLUMNS = 64, 30
#: Draws of each of the four kinds of structureless rows; few rows differ more from draw to draw.
N_DRAWS, DRAWS_OF_FEW, FEW_ROWS = 2, 6, 500
#: Numbers of clusters tried on structureless rows, whose curve is smooth: each this much larger.
REFERENCE_STEP = 1.4
#: Times that the rows are cut into halves: the fewer rows, the more often.
HALVINGS, FEW_HALVINGS, MANY_ROWS = 3, 2, 1200
#: Rows between which distances are measured for the silhouette.
SILHOUETTE_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Evidence:
    """One entry per number of clusters that was tried; all arrays have shape (m,).

    Attributes
    ----------
    n_clusters : the numbers, from 1 upwards
    loss : mean loss of a row of the sample
    gap, gap_error : how much tighter the clusters are than those of structureless rows of the same
        covariance: the logarithm of the ratio of losses, each as a share of that of one cluster.
        Of four kinds of such rows the one that comes closest counts
    stability, stability_error : adjusted Rand index of two partitions of all rows, each found in
        another half of them
    strength : how far every cluster comes out again: of the pairs of rows that one half puts into
        the same cluster, the share that the centres of the other half keep together, for the
        cluster that fares worst (Tibshirani and Walther's prediction strength)
    silhouette, silhouette_error : of a sample, 0 for one cluster
    elbow, elbow_error : how far the loss lies below the straight line from first to last, in shares
        of its fall
    smallest : rows of the smallest cluster, in shares of what all alike would have
    n_rows : rows that were looked at
    """

    n_clusters: Ints
    loss: Floats
    gap: Floats
    gap_error: Floats
    stability: Floats
    stability_error: Floats
    strength: Floats
    silhouette: Floats
    silhouette_error: Floats
    elbow: Floats
    elbow_error: Floats
    smallest: Floats
    n_rows: int


@dataclass(frozen=True, eq=False)
class Sampled:
    """Rows (n, d) that are looked at, and how drawn ones are placed where centres live."""

    values: Floats
    categories: list[Ints]
    geometry: Geometry

    @cached_property
    def middle(self) -> Floats:
        """Mean (d,) of the rows."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def size(self) -> float:
        """Typical distance of a row from the mean; directions have unit length."""
        if self.geometry == "sphere":
            return 1.0
        farthest = float(np.abs(self.values - self.middle).max())
        if not farthest > 0:
            return 1.0
        shares = (self.values - self.middle) / farthest  # squares of huge values overflow
        return farthest * float(np.sqrt(np.square(shares).sum(axis=1).mean()))

    def trimmed(self, share: float) -> Sampled:
        """Without the share of the rows that lies farthest from all others."""
        if not share:
            return self
        out = farthest_out(self.placed(self.values), share).numpy()
        return replace(self, values=np.delete(self.values, out, axis=0))

    def placed(self, values: Floats) -> Tensor:
        """Rows (n, d) as a sweep takes them, about the origin and of a size that can be squared."""
        sphere = self.geometry == "sphere"
        moved = unit(values) if sphere else (values - self.middle) / self.size
        return torch.from_numpy(np.ascontiguousarray(moved, dtype=np.float32))


def sample(
    rows: Rows, geometry: Geometry, size: int, seed: int, categories: Sequence[Ints] = ()
) -> Sampled:
    """At most `size` rows, drawn by their weights, in an order that depends on their values."""
    generator = torch.Generator().manual_seed(seed)
    few = rows.take(_drawn(rows, size, generator).to(rows.example.device))
    few = few.take(canonical_order(few, generator))
    if few.shape[1] > MAX_COLUMNS:
        count = SPARSE_COLUMNS if isinstance(rows, SparseRows) else MAX_COLUMNS
        return Sampled(compressed(_matrix(few), seed, count), [], geometry)
    every = torch.arange(few.shape[0], device=few.example.device)
    values = few.dense(every).cpu().double().numpy()
    return Sampled(values, list(categories), geometry)


def _drawn(rows: Rows, size: int, generator: torch.Generator) -> Tensor:
    """Positions of the rows; one of weight 3 stands for three, as if it were given three times."""
    n = rows.shape[0]
    if rows.weight is None:
        every = torch.randperm(n, generator=generator)[:size] if n > size else torch.arange(n)
        return every.sort().values
    weight = rows.weight.cpu().double()
    if float(weight.sum()) <= size and bool((weight == weight.round()).all()):
        return torch.repeat_interleave(torch.arange(n), weight.long())
    order = canonical_order(rows, torch.Generator().manual_seed(0)).cpu()
    reach = weight[order].cumsum(0)
    count = min(size, max(1, round(float(reach[-1])))) if float(reach[-1]) >= n else min(size, n)
    at = torch.rand(count, generator=generator, dtype=torch.float64) * reach[-1]
    return order[torch.searchsorted(reach, at, right=True).clamp_(max=n - 1)]


def _matrix(rows: Rows) -> object:
    """Rows as a matrix that can be compressed."""
    from scipy import sparse

    if isinstance(rows, SparseRows):
        parts = tuple(part.cpu().numpy() for part in (rows.values, rows.columns, rows.crow))
        return sparse.csr_array(parts, shape=rows.shape)
    return rows.dense(torch.arange(rows.shape[0], device=rows.example.device)).cpu().numpy()


def gather(rows: Sampled, largest: int, seed: int) -> Evidence:
    """Try every number from 1 to `largest`."""
    placed = rows.placed(rows.values)
    n = len(placed)
    ks = list(range(1, largest + 1))
    found = sweep(placed, ks, rows.geometry, seed)
    loss = np.array([found[k].loss for k in ks])
    gap, gap_error = _gap(rows, loss, ks, seed)
    halves = _halves(placed, ks, rows.geometry, seed)
    silhouette, silhouette_error = _silhouettes(placed, found, seed)
    sizes = [torch.bincount(found[k].labels, minlength=k) for k in ks]
    elbows = np.array([_elbow(curve) for curve in halves.losses])
    return Evidence(
        n_clusters=np.array(ks),
        loss=loss * rows.size**2,
        gap=gap,
        gap_error=gap_error,
        stability=halves.agreement.mean(axis=0),
        stability_error=_error(halves.agreement),
        strength=halves.strength.mean(axis=0),
        silhouette=silhouette,
        silhouette_error=silhouette_error,
        elbow=_elbow(loss),
        elbow_error=_error(elbows),
        smallest=np.array([float(s.min()) * k / n for k, s in zip(ks, sizes, strict=True)]),
        n_rows=n,
    )


def _error(curves: Floats) -> Floats:
    """Standard error (m,) of the mean of curves (r, m)."""
    return np.asarray(curves.std(axis=0, ddof=1) / np.sqrt(len(curves)))


def _gap(rows: Sampled, loss: Floats, ks: list[int], seed: int) -> tuple[Floats, Floats]:
    """The gap (m,) to the closest structureless rows, and its error (m,)."""
    tried = reference_numbers(ks[-1])
    random = np.random.default_rng(seed)
    n_draws = DRAWS_OF_FEW if len(rows.values) <= FEW_ROWS else N_DRAWS
    curves = []
    for i, drawn in enumerate(structureless(rows.values, rows.categories, random, n_draws)):
        found = losses(rows.placed(drawn), tried, rows.geometry, seed + i)
        shares = _log_share(np.array(found))
        curves.append(np.interp(np.log(ks), np.log(tried), shares))
    gaps = np.array(curves) - _log_share(loss)  # (draws × kinds, m)
    kinds = gaps.reshape(n_draws, -1, len(ks))
    spread = np.sqrt(kinds.var(axis=0, ddof=1).mean(axis=0))  # of a draw, the same for all kinds
    return kinds.mean(axis=0).min(axis=0), np.asarray(spread * np.sqrt(1 + 1 / n_draws))


def _log_share(loss: Floats) -> Floats:
    """Logarithm of losses (m,) as shares of the first; what is nothing but rounding is equal."""
    first = max(float(loss[0]), 1e-300)
    return np.asarray(np.log(np.maximum(loss / first, 1e-6)))


def reference_numbers(largest: int) -> list[int]:
    """Numbers of clusters for structureless rows: few, as their curve is smooth.

    >>> reference_numbers(20)
    [1, 2, 3, 4, 6, 8, 11, 15, 20]
    >>> reference_numbers(30)
    [1, 2, 3, 4, 6, 8, 11, 15, 21, 30]
    """
    numbers = [1]
    while numbers[-1] < largest:
        following = max(numbers[-1] + 1, round(numbers[-1] * REFERENCE_STEP))
        close = following * REFERENCE_STEP**0.5 > largest  # too close to be worth a step
        numbers.append(largest if close else following)
    return numbers


@dataclass(frozen=True, eq=False)
class _Halves:
    agreement: Floats  # (halvings, m)
    strength: Floats  # (halvings, m)
    losses: Floats  # (2 × halvings, m)


def _halves(x: Tensor, ks: list[int], geometry: Geometry, seed: int) -> _Halves:
    """Sweep both halves of the rows, each on its own, and compare what comes out."""
    generator = torch.Generator().manual_seed(seed)
    agreement, strength, curves = [], [], []
    for i in range(HALVINGS if len(x) <= MANY_ROWS else FEW_HALVINGS):
        parts = torch.randperm(len(x), generator=generator).chunk(2)
        halves = [x[part.sort().values] for part in parts]
        first, second = (sweep(half, ks, geometry, seed + i) for half in halves)
        for_first = [_crossed(halves[0], first[k], second[k], geometry) for k in ks]
        for_second = [_crossed(halves[1], second[k], first[k], geometry) for k in ks]
        pairs = list(zip(for_first, for_second, strict=True))
        agreement.append([adjusted_rand(one + other.T) for one, other in pairs])
        strength.append([min(map(prediction_strength, pair)) for pair in pairs])
        curves += [[found[k].loss for k in ks] for found in (first, second)]
    return _Halves(np.array(agreement), np.array(strength), np.array(curves))


def _crossed(half: Tensor, own: Solution, other: Solution, geometry: Geometry) -> Floats:
    """The rows of a half by their own clusters and by those that the other half found: (k, k)."""
    theirs = scores(half, other.centers, geometry).argmax(dim=0)
    return crossed(own.labels.numpy(), theirs.numpy(), len(own.centers))


def crossed(first: Ints, second: Ints, k: int) -> Floats:
    """How many rows each pair of labels has: (k, k).

    >>> crossed(np.array([0, 0, 1]), np.array([1, 1, 0]), 2)
    array([[0., 2.],
           [1., 0.]])
    """
    return np.bincount(first * k + second, minlength=k * k).reshape(k, k).astype(np.float64)


def adjusted_rand(table: Floats) -> float:
    """Hubert and Arabie's index of two partitions, of the counts of their pairs of labels.

    >>> adjusted_rand(np.array([[0.0, 2.0], [2.0, 0.0]]))
    1.0
    """
    together, rows, columns = (
        float(_pairs(part).sum()) for part in (table, table.sum(axis=1), table.sum(axis=0))
    )
    every = float(_pairs(table.sum()))
    chance = rows * columns / every if every else 0.0
    most = (rows + columns) / 2
    return 1.0 if most == chance else (together - chance) / (most - chance)


def prediction_strength(table: Floats) -> float:
    """Share of the pairs within a row of the table that are also within a column: the least.

    >>> prediction_strength(np.array([[4.0, 0.0], [2.0, 2.0]])).__round__(2)
    0.33
    """
    sizes = table.sum(axis=1)
    several = sizes > 1
    if not several.any():
        return 1.0
    kept = _pairs(table[several]).sum(axis=1) / _pairs(sizes[several])
    return float(kept.min())


def _pairs(counts: Floats) -> Floats:
    return np.asarray(counts * (counts - 1) / 2)


def _silhouettes(x: Tensor, found: dict[int, Solution], seed: int) -> tuple[Floats, Floats]:
    """Mean silhouette (m,) of some rows, and its standard error (m,)."""
    generator = torch.Generator().manual_seed(seed)
    few = torch.randperm(len(x), generator=generator)[:SILHOUETTE_ROWS].sort().values
    apart = torch.cdist(x[few], x[few]).float()
    each = [_silhouette(apart, found[k].labels[few], k) for k in found]
    mean = [float(values.mean()) for values in each]
    error = [float(values.std()) / len(few) ** 0.5 if len(few) > 1 else 0.0 for values in each]
    return np.array(mean), np.array(error)


def _silhouette(apart: Tensor, labels: Tensor, k: int) -> Tensor:
    """Rousseeuw's silhouette (n,) of rows at distances (n, n) from each other."""
    member = torch.nn.functional.one_hot(labels, k).to(apart)
    sizes = member.sum(dim=0)
    if int((sizes > 0).sum()) < 2:
        return apart.new_zeros(len(apart))
    sums = apart @ member
    own = member.bool()
    inside = sums[own] / (sizes[labels] - 1).clamp(min=1)
    between = (sums / sizes.clamp(min=1)).masked_fill(own | (sizes == 0), torch.inf).amin(dim=1)
    found = (between - inside) / torch.maximum(between, inside).clamp(min=1e-30)
    return torch.where(sizes[labels] > 1, found, torch.zeros_like(found))


def _elbow(loss: Floats) -> Floats:
    """How far a curve (m,) lies below the line between its ends, in shares of its fall."""
    fall = loss[0] - loss[-1]
    if len(loss) < 3 or not fall > 0:
        return np.zeros(len(loss))
    return np.asarray(np.linspace(1, 0, len(loss)) - (loss - loss[-1]) / fall)


def largest_number(n_rows: int, wanted: int) -> int:
    """How many clusters so many rows allow for."""
    return max(1, min(wanted, n_rows // LEAST_ROWS_PER_CLUSTER))
