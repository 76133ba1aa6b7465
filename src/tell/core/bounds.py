"""Which rows need not be searched again after a step: bounds, and never a wrong label.

A centre that moves by δ comes nearer to a row by no more than δ. Each row keeps a distance that no
centre but its own is nearer than; while its own one is nearer than that, the row keeps its label
(Elkan 2003, Hamerly 2010). One centre that moves far would spoil the bounds of all rows: so those
that moved most are compared with every row, and only the others are bounded (as in Ding et al.
2015, with groups that are made anew in each step). Slack for the rounding of products is taken off
every bound; rows that it leaves in doubt are searched among all centres.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tell.core.array_search import SCORES_IN_CACHE
from tell.core.assignment import (
    DENSE_AT_ONCE,
    Assignment,
    DenseRows,
    Rows,
    assign_two,
    to_distance,
)
from tell.core.layer import Geometry

MANY_CLUSTERS = 64  # below, a product costs less than to keep bounds
MOVED_SHARES = (0.0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4)  # of the centres, that may be compared


class Bounded(NamedTuple):
    """The nearest of some centres for each row, and how near any other can be."""

    centers: Tensor  # (k, d) that the rest belongs to
    assignment: Assignment
    others: Tensor  # (n,) no centre but the own one is nearer than this distance


def worth_bounding(rows: Rows, n_clusters: int) -> bool:
    """Whether bounds cost less than the products that they save."""
    return isinstance(rows, DenseRows) and n_clusters >= MANY_CLUSTERS


def assign_bounded(
    rows: Rows, centers: Tensor, geometry: Geometry, before: Bounded | None = None
) -> Bounded:
    """As `assign`, from what is known `before` the centres moved, if anything is."""
    if before is None:
        return _searched(rows, centers, geometry)
    drift = torch.linalg.vector_norm(centers - before.centers, dim=1)
    labels, distances = (part.clone() for part in before.assignment)
    _measure_own(rows, centers, labels, distances, drift > 0, geometry)
    plan = _plan(before.others - distances.sqrt(), drift)
    if plan is None:
        return _searched(rows, centers, geometry)
    moved, step = plan
    others = (before.others - step).clamp_(min=0).mul_(1 - 4 * torch.finfo(centers.dtype).eps)
    if len(moved):
        nearest = _nearest_moved(rows, centers, moved, labels, geometry)
        torch.minimum(others, _below(rows, nearest, centers, geometry), out=others)
    doubtful = torch.nonzero(distances + _slack(rows, centers, geometry) >= others.square())[:, 0]
    if len(doubtful):
        again = _searched(rows.take(doubtful), centers, geometry)
        labels[doubtful], distances[doubtful] = again.assignment
        others[doubtful] = again.others
    return Bounded(centers, Assignment(labels, distances), others)


def _searched(rows: Rows, centers: Tensor, geometry: Geometry) -> Bounded:
    assignment, second = assign_two(rows, centers, geometry)
    return Bounded(centers, assignment, _below(rows, second, centers, geometry))


def _slack(rows: Rows, centers: Tensor, geometry: Geometry) -> Tensor | float:
    """What rounding may change of a difference of two squared distances: (n,) or one for all.

    A product of d terms is off by at most d roundings of the product of the lengths.
    """
    unit = 8 * (rows.shape[1] + 8) * torch.finfo(centers.dtype).eps
    if geometry == "sphere":
        return unit
    return unit * (rows.length.square() + centers.square().sum(dim=1).max())


def _below(rows: Rows, distances: Tensor, centers: Tensor, geometry: Geometry) -> Tensor:
    """Distances (n,) that the true ones are not below, from computed squares."""
    return (distances - _slack(rows, centers, geometry)).clamp_(min=0).sqrt_()


def _measure_own(
    rows: Rows,
    centers: Tensor,
    labels: Tensor,
    distances: Tensor,
    changed: Tensor,
    geometry: Geometry,
) -> None:
    """Write the squared distances of rows whose own centre has changed."""
    index = torch.nonzero(changed[labels])[:, 0]
    for part in index.split(max(1, SCORES_IN_CACHE // rows.shape[1])) if len(index) else ():
        x = rows.dense(part)
        if geometry == "sphere":
            x = x * rows.inverse_length[part, None]
        distances[part] = (x - centers[labels[part]]).square_().sum(dim=1)


def _plan(gap: Tensor, drift: Tensor) -> tuple[Tensor, Tensor] | None:
    """Whom to compare with every row, and how far the others moved; None: search all anew.

    `gap` (n,) is how much nearer than its own centre another one would have to come.
    """
    k, order = len(drift), torch.argsort(drift, descending=True, stable=True)
    best, cheapest = None, 0.9
    for share in MOVED_SHARES:
        count = round(share * k)
        step = drift[order[count]]
        work = share + float((gap <= step).sum()) / len(gap)
        if work < cheapest:
            best, cheapest = (order[:count], step), work
        if step == 0:
            break
    return best


def _nearest_moved(
    rows: Rows, centers: Tensor, moved: Tensor, labels: Tensor, geometry: Geometry
) -> Tensor:
    """Squared distances (n,) to the nearest of the moved centres but the own one."""
    place = torch.full((len(centers),), -1, dtype=torch.long, device=centers.device)
    place[moved] = torch.arange(len(moved), device=centers.device)
    own, chosen = place[labels], centers[moved]
    bias = chosen.square().sum(dim=1) / 2 if geometry == "euclidean" else None
    best = torch.empty_like(rows.length)
    step = max(1024, min(DENSE_AT_ONCE // rows.shape[1], SCORES_IN_CACHE // len(moved)))
    for start in range(0, len(labels), step):
        stop = min(start + step, len(labels))
        scores = rows.products(chosen, start, stop)
        if bias is not None:
            scores -= bias
        at = torch.nonzero(own[start:stop] >= 0)[:, 0]
        scores[at, own[start:stop][at]] = -torch.inf
        torch.amax(scores, dim=1, out=best[start:stop])
    return to_distance(rows, best, geometry)
