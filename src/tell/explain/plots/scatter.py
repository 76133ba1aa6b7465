"""The map: rows on a plane, centres as stars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tell.explain.palette import cluster_colors
from tell.explain.plots.axes import axes, bare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_map(
    places: ArrayLike,
    groups: Sequence[Any],
    centers: ArrayLike | None = None,
    *,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw rows on a plane, one colour per group, and centres as numbered stars (figure 6).

    Parameters
    ----------
    places : (n, 2), as `project` gives them
    groups : (n,) clusters or known labels
    centers : (k, 2), optional
    title : for instance the epoch
    """
    ax = axes(ax, 7.2, 6.4)
    xy, found = np.asarray(places), np.asarray(groups)
    names = np.unique(found)
    size = float(np.clip(12000 / max(len(xy), 1), 1.5, 28))
    for name, color in zip(names, cluster_colors(len(names)), strict=True):
        inside = found == name
        ax.scatter(
            xy[inside, 0], xy[inside, 1], s=size, c=color, linewidths=0, alpha=0.75, label=str(name)
        )
    if centers is not None:
        _stars(ax, np.asarray(centers))
    elif len(names) <= 12:
        ax.legend(markerscale=max(1.0, 5 / size**0.5), frameon=False, loc="center left",
                  bbox_to_anchor=(1, 0.5), handletextpad=0.2)  # fmt: skip
    bare(ax)
    ax.set_aspect("equal", "datalim")
    ax.margins(0.06)
    if title:
        ax.set_title(title)
    return ax


def _stars(ax: Axes, centers: Any) -> None:
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
    for j, place in enumerate(spread_labels(ax, centers)):
        ax.annotate(
            str(j),
            xy=tuple(centers[j]),
            xytext=tuple(place),
            textcoords="data",
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold",
            zorder=4,
            bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
            arrowprops={"arrowstyle": "-", "color": "0.4", "lw": 0.6, "shrinkA": 0, "shrinkB": 3},
        )


def spread_labels(ax: Axes, anchors: Any, gap: float = 0.045) -> Any:
    """Places (k, 2) for labels next to their anchors (k, 2), pushed apart until none overlap."""
    limits = np.array([ax.get_xlim(), ax.get_ylim()])
    low, span = limits[:, 0], np.ptp(limits, axis=1)
    anchor = (anchors - low) / span
    place = anchor + np.array([0, gap * 0.7])
    for _ in range(200):
        apart = place[:, None] - place[None]
        distance = np.linalg.norm(apart, axis=2) + np.eye(len(place))
        push = np.where(distance < gap, (gap - distance) / 2, 0.0)
        np.fill_diagonal(push, 0)
        if not push.any():
            break
        # Two labels at the very same place part along a direction of their own.
        angle = np.arange(len(place)) * 2.4
        own = np.stack([np.cos(angle), np.sin(angle)], axis=1) * 1e-6
        apart = apart + own[:, None] - own[None]
        length = np.linalg.norm(apart, axis=2, keepdims=True) + np.eye(len(place))[:, :, None]
        place = place + (push[:, :, None] * apart / length).sum(axis=1)
    return low + place * span
