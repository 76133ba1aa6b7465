"""Rows to be clustered, dense or sparse, and the two sums every k-means step needs.

The engine never copies the data to normalise it: a direction's score is the plain product with a
unit centre, because the row's length changes neither the nearest centre nor the order of scores.
Lengths enter once, as one number per row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from tell.core.array_search import (
    FEW_CLUSTERS,
    FEW_DIGITS,
    LONG,
    SCORES_IN_CACHE,
    first_best,
    rows_at_once,
)
from tell.core.layer import Geometry

DENSE_AT_ONCE = 1 << 22  # numbers of sparse rows that may be written out together
MANY_DIGITS = 1 << 17  # a difference of this many roundings has kept all that a user looks at
FEW_SUMS = 16  # clusters up to which the product of their sums costs less than copies of long rows
MOST_IN_ONE_SUM = 1 << 16  # rows that float32 adds up without losing much


def wide(x: Tensor) -> Tensor:
    """In float64, where the device has it: long sums need it, as 2^24 + 1 = 2^24 in float32."""
    return x if x.device.type == "mps" else x.double()


class Rows(ABC):
    """n weighted rows of d features.

    `weight` (n,) says how often each row counts, None that each counts once.
    """

    weight: Tensor | None

    @property
    @abstractmethod
    def length(self) -> Tensor:
        """Each row's length, computed when first needed: (n,)."""

    @cached_property
    def inverse_length(self) -> Tensor:
        """One over each row's length; 0 for a row of zeros, which has no direction."""
        return torch.where(self.length > 0, self.length.reciprocal(), 0)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n, d)."""

    @abstractmethod
    def products(self, vectors: Tensor, start: int, stop: int) -> Tensor:
        """Products of rows start … stop with vectors (m, d): a tensor (stop − start, m)."""

    def products_by_vector(self, vectors: Tensor, start: int, stop: int) -> Tensor:
        """The same products, one row per vector: (m, stop − start)."""
        return self.products(vectors, start, stop).T

    @abstractmethod
    def sums(self, labels: Tensor, coefficients: Tensor, n_clusters: int) -> Tensor:
        """Sum of coefficient times row over the rows of each label: (k, d)."""

    @abstractmethod
    def take(self, index: Tensor) -> Rows:
        """The rows at the given positions, with their weights."""

    @abstractmethod
    def dense(self, index: Tensor) -> Tensor:
        """The rows at the given positions as a dense tensor (m, d)."""

    @property
    @abstractmethod
    def example(self) -> Tensor:
        """A tensor of the rows' dtype and device."""

    def weights(self) -> Tensor:
        """The weights, written out."""
        return self.example.new_ones(self.shape[0]) if self.weight is None else self.weight


@dataclass
class DenseRows(Rows):
    """Rows of a dense tensor x of shape (n, d)."""

    x: Tensor
    weight: Tensor | None = None

    @cached_property
    def length(self) -> Tensor:
        return torch.linalg.vector_norm(self.x, dim=1)

    @property
    def shape(self) -> tuple[int, int]:
        return self.x.shape[0], self.x.shape[1]

    @property
    def example(self) -> Tensor:
        return self.x

    def products(self, vectors: Tensor, start: int, stop: int) -> Tensor:
        return self.x[start:stop] @ vectors.T

    def products_by_vector(self, vectors: Tensor, start: int, stop: int) -> Tensor:
        return vectors @ self.x[start:stop].T

    def sums(self, labels: Tensor, coefficients: Tensor, n_clusters: int) -> Tensor:
        few = n_clusters <= (FEW_SUMS if self.shape[1] >= LONG else FEW_CLUSTERS)
        short = self._sums_by_product if few else self._sums_by_row
        block = MOST_IN_ONE_SUM if few else max(1, SCORES_IN_CACHE // self.shape[1])
        if self.shape[0] <= block:
            return short(labels, coefficients, n_clusters, slice(None))
        total = wide(self.x.new_zeros(n_clusters, self.shape[1]))
        for start in range(0, self.shape[0], block):
            total += short(labels, coefficients, n_clusters, slice(start, start + block))
        return total.to(self.x.dtype)

    def _sums_by_product(self, labels: Tensor, scale: Tensor, k: int, part: slice) -> Tensor:
        """For few clusters, or short rows, a product costs less than copies of the rows."""
        x = self.x[part]
        assignment = x.new_zeros(k, len(x))
        return assignment.scatter_(0, labels[None, part], scale[None, part]) @ x

    def _sums_by_row(self, labels: Tensor, scale: Tensor, k: int, part: slice) -> Tensor:
        x = self.x[part]
        return x.new_zeros(k, x.shape[1]).index_add_(0, labels[part], x * scale[part, None])

    def take(self, index: Tensor) -> DenseRows:
        return DenseRows(self.x[index], None if self.weight is None else self.weight[index])

    def dense(self, index: Tensor) -> Tensor:
        return self.x[index]


@dataclass
class SparseRows(Rows):
    """Rows of a CSR matrix, never made dense."""

    crow: Tensor  # (n + 1,) where each row's entries begin
    columns: Tensor  # (entries,)
    values: Tensor  # (entries,)
    n_features: int
    weight: Tensor | None = None

    def __post_init__(self) -> None:
        self._row_of_entry = torch.repeat_interleave(self.crow.diff())

    @cached_property
    def length(self) -> Tensor:
        squares = self.values.new_zeros(self.shape[0])
        squares.index_add_(0, self._row_of_entry, self.values.square())
        return squares.sqrt()

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.crow) - 1, self.n_features

    @property
    def example(self) -> Tensor:
        return self.values

    def products(self, vectors: Tensor, start: int, stop: int) -> Tensor:
        first, last = int(self.crow[start]), int(self.crow[stop])
        rows = self._row_of_entry[first:last] - start
        out = self.values.new_zeros(stop - start, len(vectors))
        block = max(1, SCORES_IN_CACHE // len(vectors))
        columns = vectors.T.contiguous()
        for at in range(first, last, block):
            part = slice(at, min(at + block, last))
            terms = columns[self.columns[part]] * self.values[part, None]
            out.index_add_(0, rows[at - first : part.stop - first], terms)
        return out

    def sums(self, labels: Tensor, coefficients: Tensor, n_clusters: int) -> Tensor:
        total = self.values.new_zeros(n_clusters * self.n_features)
        cell = labels[self._row_of_entry] * self.n_features + self.columns
        total.index_add_(0, cell, self.values * coefficients[self._row_of_entry])
        return total.view(n_clusters, self.n_features)

    def take(self, index: Tensor) -> SparseRows:
        lengths = self.crow[index + 1] - self.crow[index]
        crow = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        offset = torch.repeat_interleave(self.crow[index] - crow[:-1], lengths)
        entries = torch.arange(len(offset), device=offset.device) + offset
        weight = None if self.weight is None else self.weight[index]
        return SparseRows(
            crow, self.columns[entries], self.values[entries], self.n_features, weight
        )

    def dense(self, index: Tensor) -> Tensor:
        part = self.take(index)
        out = self.values.new_zeros(len(index), self.n_features)
        out[part._row_of_entry, part.columns] = part.values
        return out


class Assignment(NamedTuple):
    """The nearest centre of each row."""

    labels: Tensor  # (n,)
    distances: Tensor  # (n,) squared distance to it


def assign(rows: Rows, centers: Tensor, geometry: Geometry) -> Assignment:
    """Give each row the nearest of the centres (k, d); on the sphere they have unit length."""
    return _settled(rows, centers, *_search(rows, centers, geometry), geometry)[0]


def assign_two(rows: Rows, centers: Tensor, geometry: Geometry) -> tuple[Assignment, Tensor]:
    """As `assign`, and a squared distance (n,) that no other centre is nearer than.

    It is that of the second nearest centre, or 0 where rounding cannot tell who that is.
    """
    runner_up = torch.empty_like(rows.length)
    labels, best = _search(rows, centers, geometry, runner_up)
    assignment, doubtful = _settled(rows, centers, labels, best, geometry)
    second = to_distance(rows, runner_up, geometry)
    second[doubtful] = 0
    return assignment, second


def _settled(
    rows: Rows, centers: Tensor, labels: Tensor, best: Tensor, geometry: Geometry
) -> tuple[Assignment, Tensor]:
    """The assignment that was searched for, and which rows had to be looked at again."""
    distances = to_distance(rows, best, geometry)
    if geometry == "sphere":
        return Assignment(labels, distances), labels[:0]
    index = _settle_labels(rows, centers, labels, distances)
    for part in _parts(index, DENSE_AT_ONCE // rows.shape[1]):
        distances[part] = _from_differences(rows, part, centers[labels[part]])
    return Assignment(labels, distances), index


def nearest(rows: Rows, centers: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """The labels of `assign`, and numbers that are not finite where the row is not."""
    labels, best = _search(rows, centers, geometry)
    if geometry == "euclidean":  # on the sphere nothing asks for lengths, which take their time
        best = to_distance(rows, best, geometry)
        _settle_labels(rows, centers, labels, best)
    return labels, best


def _settle_labels(rows: Rows, centers: Tensor, labels: Tensor, distances: Tensor) -> Tensor:
    """Choose anew where β − Wᵀx − b cannot tell two centres apart; return who lost its digits."""
    cancelled = _rounding(rows, FEW_DIGITS)
    index = torch.nonzero(distances < cancelled)[:, 0]
    if not len(index):
        return index
    # A centre that may be nearer lies within twice the distance from the own one.
    own = torch.arange(len(centers), device=centers.device)
    gap = second_distances(DenseRows(centers), centers, own, "euclidean")
    doubtful = index[gap[labels[index]] < 5 * cancelled[index]]
    for part in _parts(doubtful, _rows_at_once(rows, len(centers))):
        labels[part] = _precise_distances(rows.take(part), centers).argmin(dim=1)
    return index


def _rounding(rows: Rows, times: int) -> Tensor:
    """So many times the rounding of the terms β, Wᵀx and b for a row near its centre: (n,)."""
    return times * torch.finfo(rows.example.dtype).eps * rows.length.square()


def _from_differences(rows: Rows, index: Tensor, centers: Tensor) -> Tensor:
    """Squared distances (m,) of the rows at m positions, each to a centre of its own (m, d)."""
    return (rows.dense(index) - centers).square_().sum(dim=1)


def _parts(index: Tensor, size: int) -> tuple[Tensor, ...]:
    """The positions in parts of this size; unlike torch's split, none where there are none."""
    return index.split(max(1, size)) if len(index) else ()


def _rows_at_once(rows: Rows, n_clusters: int) -> int:
    """Rows of which neither the numbers nor the scores leave a core's cache."""
    stored = rows.example.numel() // max(1, rows.shape[0])
    return max(1, SCORES_IN_CACHE // max(1, stored, n_clusters))


def _search(
    rows: Rows, centers: Tensor, geometry: Geometry, runner_up: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The nearest centre of each row, as far as the rows' precision tells, and its score.

    The second largest score is written into `runner_up` (n,), if that is given.
    """
    n, k = rows.shape[0], len(centers)
    labels = torch.empty(n, dtype=torch.long, device=centers.device)
    best = torch.empty(n, dtype=centers.dtype, device=centers.device)
    bias = -centers.square().sum(dim=1) / 2 if geometry == "euclidean" else None
    block = rows_at_once(k, rows.shape[1])
    for start in range(0, n, block):
        stop = min(start + block, n)
        scores = _search_block(
            rows, centers, bias, start, stop, best[start:stop], labels[start:stop]
        )
        if runner_up is not None:
            scores.scatter_(1, labels[start:stop, None], -torch.inf)
            torch.amax(scores, dim=1, out=runner_up[start:stop])
    return labels, best


def _search_block(
    rows: Rows,
    centers: Tensor,
    bias: Tensor | None,
    start: int,
    stop: int,
    best: Tensor,
    labels: Tensor,
) -> Tensor:
    """Write the largest score of rows start … stop and its position into best and labels.

    All their scores are returned: (stop − start, k).
    """
    if len(centers) <= FEW_CLUSTERS:  # one row of scores per centre: compare whole columns
        scores = rows.products_by_vector(centers, start, stop)
        if bias is not None:
            scores += bias[:, None]
        if scores.device.type == "cpu" and scores.is_contiguous():  # NumPy takes half of the time
            first_best(scores.numpy(), best.numpy(), labels.numpy())
            return scores.T
        torch.amax(scores, dim=0, out=best)
        rank = torch.arange(len(centers) - 1, -1, -1, dtype=torch.uint8, device=best.device)
        labels.copy_(len(centers) - 1 - ((scores == best) * rank[:, None]).amax(dim=0))
        return scores.T
    scores = rows.products(centers, start, stop)
    if bias is not None:
        scores += bias
    if scores.device.type == "cpu":  # numpy's argmax is vectorised along rows, torch's is not
        labels.copy_(torch.from_numpy(scores.numpy().argmax(axis=1)))
        torch.gather(scores, 1, labels[:, None], out=best[:, None])
    else:
        torch.max(scores, dim=1, out=(best, labels))
    return scores


def all_distances(rows: Rows, centers: Tensor, geometry: Geometry) -> Tensor:
    """Squared distances of all rows to all centres, of shape (n, k)."""
    return to_distance(rows, _scores(rows, centers, geometry, 0, rows.shape[0]), geometry)


def exact_distances(rows: Rows, centers: Tensor, geometry: Geometry) -> Tensor:
    """As `all_distances`, right to the last digits of the rows' precision: (n, k).

    On the sphere what is only rounding becomes 0. The smallest stands at the label of `assign`.
    """
    if geometry == "sphere":
        distances = all_distances(rows, centers, geometry)
        return distances.masked_fill_(distances <= 64 * torch.finfo(distances.dtype).eps, 0)
    distances = _precise_distances(rows, centers)
    # Of two centres that are equally far but for rounding, the label's is the nearest.
    labels = nearest(rows, centers, geometry)[0][:, None]
    return distances.scatter_(1, labels, distances.amin(dim=1, keepdim=True))


def _precise_distances(rows: Rows, centers: Tensor) -> Tensor:
    """Squared distances without cancellation, of shape (n, k)."""
    distances = all_distances(rows, centers, "euclidean")
    step, limit = _rows_at_once(rows, len(centers)), _rounding(rows, MANY_DIGITS)
    for start in range(0, len(limit), step):
        near = distances[start : start + step] < limit[start : start + step, None]
        for part in _parts(torch.nonzero(near), DENSE_AT_ONCE // rows.shape[1]):
            row, center = part[:, 0] + start, part[:, 1]
            distances[row, center] = _from_differences(rows, row, centers[center])
    return distances


def second_distances(rows: Rows, centers: Tensor, labels: Tensor, geometry: Geometry) -> Tensor:
    """Squared distance (n,) of each row to the nearest centre but the one of its label."""
    second = torch.empty_like(rows.length)
    step = _rows_at_once(rows, len(centers))
    for start in range(0, len(labels), step):
        stop = min(start + step, len(labels))
        scores = _scores(rows, centers, geometry, start, stop)
        second[start:stop] = scores.scatter_(1, labels[start:stop, None], -torch.inf).amax(dim=1)
    return to_distance(rows, second, geometry)


def coincide(rows: Rows, centers: Tensor, geometry: Geometry) -> Tensor:
    """Whether only the rounding of the terms lies between a row and a centre: (n, k)."""
    scores = _scores(rows, centers, geometry, 0, rows.shape[0])
    distances = to_distance(rows, scores, geometry)
    terms = 2.0 if geometry == "sphere" else distances + 2 * scores.abs()
    return distances <= 32 * torch.finfo(scores.dtype).eps * terms


def _scores(rows: Rows, centers: Tensor, geometry: Geometry, start: int, stop: int) -> Tensor:
    """xᵀΩ + b/2 of rows start … stop: (stop − start, k)."""
    scores = rows.products(centers, start, stop)
    if geometry == "euclidean":
        scores -= centers.square().sum(dim=1) / 2
    return scores


def scores_by_center(rows: Rows, centers: Tensor, geometry: Geometry) -> Tensor:
    """xᵀΩ + b/2 of all rows, one row per centre: (k, n)."""
    scores = rows.products_by_vector(centers, 0, rows.shape[0])
    if geometry == "euclidean":
        scores -= centers.square().sum(dim=1)[:, None] / 2
    return scores


def to_distance(rows: Rows, scores: Tensor, geometry: Geometry) -> Tensor:
    """Turn scores xᵀΩ + b/2 of all rows, with any number of columns, into squared distances."""
    per_row = rows.inverse_length if geometry == "sphere" else rows.length.square()  # 1/√β or β
    per_row = per_row if scores.ndim == 1 else per_row[:, None]
    if geometry == "sphere":
        return (scores * per_row).mul_(-2).add_(2).clamp_(min=0)  # Eq. 12
    return (per_row - 2 * scores).clamp_(min=0)  # Eq. 6


def to_score(rows: Rows, distances: Tensor, geometry: Geometry) -> Tensor:
    """The scores (n,) of which `to_distance` makes these squared distances."""
    if geometry == "sphere":
        return (1 - distances / 2) * rows.length
    return (rows.length.square() - distances) / 2


class Totals(NamedTuple):
    """What the rows of each cluster add up to: all that an update of the centres needs."""

    sums: Tensor  # (k, d) of unit rows on the sphere, of rows otherwise
    counts: Tensor  # (k,) weight of the members


def totals(rows: Rows, labels: Tensor, n_clusters: int, geometry: Geometry) -> Totals:
    """Minus half the gradient of the loss with respect to W, in closed form, and the counts."""
    weights = rows.weights()
    scale = weights * rows.inverse_length if geometry == "sphere" else weights
    exact = None if rows.weight is None else wide(rows.weight)
    counts = torch.bincount(labels, exact, minlength=n_clusters).to(weights.dtype)
    return Totals(rows.sums(labels, scale, n_clusters), counts)
