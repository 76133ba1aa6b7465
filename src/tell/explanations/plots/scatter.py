"""The map: rows on a plane, centres as stars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tell.contract import Floats, Ints
from tell.explanations.explained_rows import as_labels, known_labels
from tell.explanations.palette import cluster_colors
from tell.explanations.plots.axes import axes, bare, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_map(
    places: ArrayLike,
    groups: Iterable[object],
    centers: ArrayLike | None = None,
    *,
    names: Sequence[object] | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw rows on a plane, one colour per group, and centres as numbered stars (figure 6).

    Parameters
    ----------
    places : (n, 2), as `project` gives them
    groups : (n,) clusters or known labels; rows without one are drawn in grey
    centers : (k, 2), optional
    names : (k,) written at the centres; default their numbers
    title : for instance the epoch
    """
    ax = axes(ax, 7.2, 6.4)
    xy, present, number = np.asarray(places), *_numbered(groups)
    size = float(np.clip(12000 / max(len(xy), 1), 1.5, 28))
    dots: dict[str, Any] = {"s": size, "linewidths": 0, "alpha": 0.75}
    if np.any(number < 0):
        x, y = xy[number < 0].T
        ax.scatter(x, y, c="0.8", **dots)
    for i, color in enumerate(cluster_colors(len(present))):
        x, y = xy[number == i].T
        ax.scatter(x, y, c=color, label=written(present[i]), **dots)
    if centers is not None:
        stars = np.asarray(centers)
        _stars(ax, stars, range(len(stars)) if names is None else names)
    elif len(present) <= 12:
        ax.legend(markerscale=max(1.0, 5 / size**0.5), frameon=False, loc="center left",
                  bbox_to_anchor=(1, 0.5), handletextpad=0.2)  # fmt: skip
    bare(ax)
    ax.set_aspect("equal", "datalim")
    ax.margins(0.06)
    if title:
        ax.set_title(written(title))
    return ax


def _numbered(groups: Iterable[object]) -> tuple[list[object], Ints]:
    """The groups in order, and the place of each row's among them (n,); −1 without one."""
    found = as_labels(groups)
    known, labels = known_labels(found)
    present, place = np.unique(labels, return_inverse=True)
    number = np.full(len(found), -1)
    number[known] = place
    return present.tolist(), number


def _stars(ax: Axes, centers: Floats, names: Sequence[object]) -> None:
    from matplotlib.collections import LineCollection

    ax.scatter(
        centers[:, 0],
        centers[:, 1],
        marker="*",
        s=140,
        c="black",
        edgecolors="white",
        linewidths=0.8,
        zorder=3,
    )
    ax.update_datalim(centers)
    ax.autoscale_view()
    places = spread_labels(ax, centers)
    for name, (x, y) in zip(names, places.tolist(), strict=True):
        label = ax.text(
            x, y, written(name), ha="center", va="center", fontsize=8, fontweight="bold"
        )
        label.set(zorder=4, in_layout=False)
    leaders = np.stack([places, centers], axis=1)
    ax.add_collection(LineCollection(list(leaders), colors="0.4", linewidths=0.6, zorder=2))


def spread_labels(ax: Axes, anchors: Floats, gap: float = 0.045) -> Floats:
    """Places (k, 2) for labels next to their anchors (k, 2), pushed off anchors and each other."""
    limits = np.array([ax.get_xlim(), ax.get_ylim()])
    low, span = limits[:, 0], np.ptp(limits, axis=1)
    fixed = (anchors - low) / span
    k = len(fixed)
    # Labels at the very same place part along directions of their own.
    angle = np.arange(k) * 2.4
    place = (
        fixed + np.array([0, 0.8 * gap]) + 1e-4 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    )
    reach = np.concatenate([np.full((k, k), gap), np.full((k, k), 0.75 * gap)], axis=1)
    reach[np.arange(k), np.arange(k)] = 0  # a label does not push itself
    for _ in range(120):
        apart = place[:, None] - np.concatenate([place, fixed])[None]
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-9)
        push = np.maximum(reach - distance, 0)
        if not push.any():
            break
        place = place + 0.5 * ((push / distance)[:, :, None] * apart).sum(axis=1)
    return low + place * span
