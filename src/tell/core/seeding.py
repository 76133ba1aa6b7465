"""Where centres start, and how a centre that lost its rows gets a new place."""

from __future__ import annotations

import math
from typing import Literal

import torch
import torch.nn.functional as F  # noqa: N812 (torch's own convention)
from torch import Tensor

from tell.core.assignment import (
    Assignment,
    Rows,
    Totals,
    all_distances,
    assign,
    coincide,
    scores_by_center,
    second_distances,
    to_distance,
    to_score,
    wide,
)
from tell.core.bounds import Bounded
from tell.core.layer import Geometry, unit

CANDIDATES = 16
PRODUCTS_AT_ONCE = 1 << 22  # of rows with all candidates of a draw

Seeding = Literal["k-means++", "random", "kaiming"]


def seed_centers(
    rows: Rows, n_clusters: int, how: Seeding, geometry: Geometry, generator: torch.Generator
) -> Tensor:
    """Draw starting centres of shape (k, d).

    "k-means++" spreads them over the rows, "random" takes distinct rows as they come, and
    "kaiming" ignores the rows and draws weights as the paper initialises a layer.
    """
    if how == "kaiming":
        return _kaiming(rows, n_clusters, geometry, generator)
    if how == "random":
        return _distinct_rows(rows, n_clusters, geometry, generator)
    return _kmeans_plus_plus(rows, n_clusters, geometry, generator)


def as_centers(rows: Rows, index: Tensor, geometry: Geometry) -> Tensor:
    """The rows at the given positions as centres: of unit length on the sphere."""
    chosen = rows.dense(index)
    return unit(chosen) if geometry == "sphere" else chosen.clone()


def seedable(rows: Rows, geometry: Geometry) -> Tensor:
    """Weight of each row as a place for a centre: a row of zeros has no direction to be one."""
    weights = rows.weights()
    return weights * (rows.length > 0) if geometry == "sphere" else weights


def canonical_order(rows: Rows, generator: torch.Generator) -> Tensor:
    """An order of the rows that depends on their values alone.

    Equal rows stand side by side, so a draw along the cumulated weights finds the same row
    whether it is given once with weight 3 or three times, and however the rows were shuffled.
    """
    direction = torch.randn(1, rows.shape[1], generator=generator, dtype=torch.float64)
    direction = direction.to(rows.example)
    return torch.argsort(rows.products(direction, 0, rows.shape[0])[:, 0], stable=True)


def _kaiming(rows: Rows, k: int, geometry: Geometry, generator: torch.Generator) -> Tensor:
    bound = 1 / math.sqrt(rows.shape[1])  # what ClusterLayer.reset_parameters draws
    drawn = torch.rand(k, rows.shape[1], generator=generator, dtype=torch.float64)
    centers = (2 * drawn - 1) * bound
    return (F.normalize(centers, dim=1) if geometry == "sphere" else centers).to(rows.example)


def _distinct_rows(rows: Rows, k: int, geometry: Geometry, generator: torch.Generator) -> Tensor:
    mass = weights = seedable(rows, geometry)
    chosen = []
    for _ in range(k):
        chosen.append(draw(mass, weights, 1, generator))
        taken = coincide(rows, as_centers(rows, chosen[-1], geometry), geometry)[:, 0]
        mass = mass.masked_fill(taken, 0)
    return as_centers(rows, torch.cat(chosen), geometry)


def _kmeans_plus_plus(rows: Rows, k: int, geometry: Geometry, generator: torch.Generator) -> Tensor:
    """Greedy k-means++: of a few rows drawn by their loss, keep the one that lowers it most."""
    n_candidates = 2 + int(math.log(k))
    weights = seedable(rows, geometry)
    # One tensor for all: small ones between the large blocks of each step would keep the
    # allocator from using these again, 20 MB a step with 500,000 rows.
    chosen = torch.empty(k, dtype=torch.long, device=weights.device)
    chosen[:1] = draw(weights, weights, 1, generator)
    closest = all_distances(rows, as_centers(rows, chosen[:1], geometry), geometry)[:, 0]
    number = 1
    while number < k:
        count = min(k - number, _at_once(rows, number, n_candidates))
        chosen[number : number + count], closest = _best_of(
            rows, closest, count, n_candidates, geometry, generator
        )
        number += count
    return as_centers(rows, chosen, geometry)


def _at_once(rows: Rows, n_centers: int, n_candidates: int) -> int:
    """How many rows may be chosen by one draw: so few that they hardly change what is drawn."""
    most = PRODUCTS_AT_ONCE // (rows.shape[0] * n_candidates)
    return max(1, min(most, 2 * n_centers // n_candidates**2))


def _best_of(
    rows: Rows,
    closest: Tensor,
    count: int,
    n_candidates: int,
    geometry: Geometry,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose `count` rows, each the one of some drawn by their loss that lowers the loss most.

    `closest` (n,) is each row's squared distance to its nearest centre so far; returned are the
    positions (count,) and `closest` with these rows as further centres. All candidates are drawn
    and multiplied at once, which takes a fraction of the time; each choice knows the earlier ones.
    """
    weights = seedable(rows, geometry)
    candidates = draw(closest * weights, weights, count * n_candidates, generator)
    scores = scores_by_center(rows, as_centers(rows, candidates, geometry), geometry)
    best = to_score(rows, closest, geometry)
    worth = 2 * (weights * rows.inverse_length if geometry == "sphere" else weights)
    chosen = []
    for group, part in zip(candidates.split(n_candidates), scores.split(n_candidates), strict=True):
        gains = part.sub_(best).clamp_(min=0) @ worth
        winner = first_largest(gains - closest @ weights)
        chosen.append(group[winner])
        best = best + part[winner]
        closest = torch.minimum(closest, to_distance(rows, best, geometry))
    return torch.stack(chosen), closest


def first_largest(values: Tensor) -> Tensor:
    """Position of the first value that is the largest but for rounding.

    Two rows of a pair serve equally well: rounding must not decide between them.
    """
    slack = values.abs().max() * torch.finfo(values.dtype).eps ** 0.5
    return (values >= values.max() - slack).to(torch.uint8).argmax()


def draw(mass: Tensor, weights: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Positions drawn in proportion to mass, or to the weights where there is none left."""
    cumulated = wide(mass if mass.any() else weights).cumsum(0)
    total = cumulated[-1]
    at = torch.rand(count, generator=generator, dtype=torch.float64).to(cumulated) * total
    return torch.searchsorted(cumulated, at, right=True).clamp_(max=len(mass) - 1)


def revive(
    rows: Rows, assignment: Assignment, part: Totals, centers: Tensor, geometry: Geometry
) -> list[int]:
    """Move each centre without rows onto the row that is worst served; return who moved.

    The row lies on its new centre afterwards, so the cluster is not empty and the loss has
    fallen. Nothing moves when every row already lies on its centre: fewer distinct rows than
    clusters.
    """
    all_dead = torch.nonzero(part.counts == 0)[:, 0].tolist()
    if not all_dead:
        return []
    loss = assignment.distances * (seedable(rows, geometry) > 0)
    revived = []
    for dead in all_dead:
        worst = first_largest(loss)
        own = rows.take(worst[None])
        if loss[worst] <= 0 or coincide(own, centers, geometry).any():
            break
        centers[dead] = as_centers(rows, worst[None], geometry)[0]
        loss = torch.minimum(loss, all_distances(rows, centers[dead][None], geometry)[:, 0])
        revived.append(dead)
    return revived


def relocate(
    rows: Rows,
    centers: Tensor,
    count: int,
    geometry: Geometry,
    generator: torch.Generator,
    known: Bounded | None = None,
) -> Tensor:
    """A trial solution in which the `count` least useful centres help out where the loss is.

    A centre's use is what the loss would lose with it: the sum over its rows of second minus
    first distance. Its new place is, of several rows drawn by their loss, the one whose
    neighbourhood gains most. What is `known` of the rows saves most of the search for the second.
    """
    if known is None:
        nearest, steps = _use(rows, centers, geometry)
        useless = steps.argsort(stable=True)[:count]
    else:
        nearest, useless = known.assignment, _least_useful(rows, known, count, geometry)
    closest, trial, done = nearest.distances, centers.clone(), 0
    while done < count:
        some = min(count - done, _at_once(rows, len(centers), CANDIDATES))
        targets, closest = _best_of(rows, closest, some, CANDIDATES, geometry, generator)
        trial[useless[done : done + some]] = as_centers(rows, targets, geometry)
        done += some
    return trial


def _least_useful(rows: Rows, known: Bounded, count: int, geometry: Geometry) -> Tensor:
    """The `count` centres (count,) that the loss would miss least.

    Bounds give what each is worth at least. Only for those that seem the least useful by this the
    second distances are computed, until none of the rest can be less useful.
    """
    centers, (labels, distances), others = known
    second = torch.maximum(others.square(), distances)
    exact = torch.zeros(len(centers), dtype=torch.bool, device=labels.device)
    while True:
        steps = _steps(rows, labels, second - distances, len(centers))
        least = steps.argsort(stable=True)[:count]
        if exact[least].all():
            return least
        exact[steps.argsort(stable=True)[: 2 * count]] = True
        index = torch.nonzero(exact[labels])[:, 0]
        part = rows.take(index)
        second[index] = second_distances(part, centers, labels[index], geometry)


def best_addition(
    rows: Rows, closest: Tensor, geometry: Geometry, generator: torch.Generator
) -> Tensor:
    """The row (1, d) that as a further centre lowers the loss `closest` (n,) most, of several."""
    target, _ = _best_of(rows, closest, 1, CANDIDATES, geometry, generator)
    return as_centers(rows, target, geometry)


def draw_row(weights: Tensor, generator: torch.Generator) -> Tensor:
    """The position (1,) of a row drawn by its weight."""
    return draw(weights, weights, 1, generator)


def split(
    rows: Rows, centers: Tensor, count: int, geometry: Geometry, generator: torch.Generator
) -> Tensor:
    """The centres and `count` more, each where it lowers the loss most: (k + count, d)."""
    closest = assign(rows, centers, geometry).distances
    added = []
    for _ in range(count):
        target, closest = _best_of(rows, closest, 1, CANDIDATES, geometry, generator)
        added.append(as_centers(rows, target, geometry))
    return torch.cat([centers, *added])


def merge(rows: Rows, centers: Tensor, count: int, geometry: Geometry) -> Tensor:
    """The centres without the `count` least useful ones: (k - count, d)."""
    for _ in range(count):
        _, steps = _use(rows, centers, geometry)
        useless = int(steps.argsort(stable=True)[0])
        centers = torch.cat([centers[:useless], centers[useless + 1 :]])
    return centers


def _use(rows: Rows, centers: Tensor, geometry: Geometry) -> tuple[Assignment, Tensor]:
    """The rows' assignment, and what the loss would lose with each of two or more centres: (k,)."""
    nearest = assign(rows, centers, geometry)
    second = second_distances(rows, centers, nearest.labels, geometry)
    return nearest, _steps(rows, nearest.labels, second - nearest.distances, len(centers))


def _steps(rows: Rows, labels: Tensor, gains: Tensor, n_clusters: int) -> Tensor:
    """Sums (k,) of the gains (n,) of each cluster's rows, as `in_steps` gives them."""
    return in_steps(gains.new_zeros(n_clusters).index_add_(0, labels, rows.weights() * gains))


def in_steps(use: Tensor) -> Tensor:
    """In whole multiples of a unit, so that what is equal but for rounding is equal."""
    unit = use.max().clamp(min=1e-30) * torch.finfo(use.dtype).eps ** 0.5
    return (use / unit).round()
