"""The nearest place at which a row would belong to another cluster."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from tell.explanations.view import AffineInput, Floats, ModelView


def nearest_other(view: ModelView, squared: Floats, own: int, *, default: int) -> int:
    """The cluster whose boundary with cluster `own` is nearest to a row.

    `squared` (k,) are its squared distances to the centres. The boundary with cluster k is
    (‖x − Ω_k‖² − ‖x − Ω_j‖²) / 2‖Ω_j − Ω_k‖ away. On the way to the nearest of these planes no
    other one is crossed, so that its foot belongs to cluster k. A centre at the very place of the
    own one has no such plane; `default` is for rows that know no other.
    """
    apart = np.linalg.norm(view.centers - view.centers[own], axis=1)
    far = np.full(len(apart), np.inf)
    distance = np.divide(squared - squared[own], apart, out=far, where=apart > 0)
    nearest = int(np.argmin(distance))
    return nearest if np.isfinite(distance[nearest]) else default


def nearest_in_cell(view: ModelView, row: Floats, target: int) -> Floats:
    """The point nearest to a scaled row (p,) that belongs to cluster `target`, on its boundary.

    Projection on the bisecting hyperplane of the two centres; on the sphere that plane goes
    through the origin, so the projection is a rotation towards the other centre. If a third
    cluster lies in between, the projection on the whole cell (Lawson and Hanson's least
    distance programme) takes its place.
    """
    centers = view.centers
    others = np.delete(np.arange(view.n_clusters), target)
    normals = centers[target] - centers[others]  # normals · x ≥ offsets inside the cell
    squares = np.einsum("ij,ij->i", centers, centers)
    offsets = np.zeros(len(others)) if view.on_sphere else (squares[target] - squares[others]) / 2
    shortfall = offsets - normals @ row
    widths = np.einsum("ij,ij->i", normals, normals)
    steps = np.divide(shortfall, widths, out=np.zeros_like(widths), where=widths > 0)
    worst = int(np.argmax(steps * np.sqrt(widths)))
    if steps[worst] <= 0:
        return row
    reached = row + steps[worst] * normals[worst]
    tolerance = 1e-9 * (1 + np.abs(offsets))
    if np.all(normals @ reached >= offsets - tolerance):
        return reached
    return row + _least_distance(normals, shortfall)


def just_inside(
    view: ModelView, path: AffineInput, reached: Floats, target: int, length: float
) -> Floats:
    """Go on from the boundary (p,) towards the centre until the model itself says `target`.

    A point on the boundary belongs to both clusters, and rounding would decide. `length` is that of
    the row, which the centre takes on the sphere.
    """
    center = view.centers[target] * (length if view.on_sphere else 1.0)
    for share in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2):
        inside = reached + share * (center - reached)
        if view.predict(path.undo(inside[None]))[0] == target:
            break
    return np.asarray(inside)


def _least_distance(G: Floats, h: Floats) -> Floats:
    """Shortest u with G u ≥ h, by non-negative least squares."""
    scale = max(float(np.abs(h).max()), 1e-300)
    system = np.vstack([G.T, h / scale])
    goal = np.zeros(len(system))
    goal[-1] = 1.0
    weights, _ = nnls(system, goal)
    residual = system @ weights - goal
    return -scale * residual[:-1] / residual[-1]
