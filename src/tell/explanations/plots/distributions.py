"""How sure the clustering is: margins and silhouettes, cluster by cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tell.explanations.palette import cluster_colors
from tell.explanations.plots.axes import axes, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tell.explanations.facts import Explanation


def plot_margins(facts: Explanation, *, ax: Axes | None = None) -> Axes:
    """Draw the distribution of the margin in every cluster: box from quartile to quartile."""
    k = facts.model.n_clusters
    ax = axes(ax, float(np.clip(2.5 + 0.35 * k, 4.4, 14)), 4.2)
    sample = facts.sample
    margins = [sample.margin[sample.labels == j] for j in range(k)]
    there = [j for j in range(k) if len(margins[j])]
    boxes = ax.boxplot(
        [margins[j] for j in there],
        positions=there,
        widths=0.7,
        patch_artist=True,
        showfliers=False,
        medianprops={"color": "black"},
    )
    colors = cluster_colors(k)
    for j, box in zip(there, boxes["boxes"], strict=True):
        box.set(facecolor=colors[j], edgecolor="0.3")
    _number_clusters(ax.set_xticks, k)
    ax.set_xlim(-0.6, k - 0.4)
    ax.set_ylim(bottom=0)
    ax.set_xlabel("cluster")
    ax.set_ylabel("margin to the runner-up")
    quiet(ax)
    return ax


def plot_silhouette(facts: Explanation, *, ax: Axes | None = None) -> Axes:
    """Draw the clearness of every sampled row, sorted within its cluster: knives of a silhouette.

    Clearness is 0 on the boundary with the next cluster, 1 as far from it as the own centre.
    """
    k = facts.model.n_clusters
    ax = axes(ax, 6.4, float(np.clip(2 + 0.3 * k, 3.6, 14)))
    sample, colors = facts.sample, cluster_colors(k)
    gap = max(1, len(sample.rows) // (20 * k))
    bottom, middles = 0, []
    for j in range(k):
        values = np.sort(sample.clearness[sample.labels == j])
        ax.fill_betweenx(bottom + np.arange(len(values)), 0, values, color=colors[j], lw=0)
        middles.append(bottom + len(values) / 2)
        bottom += len(values) + gap
    mean = float(sample.clearness.mean())
    ax.axvline(mean, color="0.3", lw=1, ls="--")
    ax.text(mean, bottom, f" mean {mean:.2f}", va="bottom", ha="center", fontsize=8)
    step = -(-k // 25)
    ax.set_yticks(middles[::step], [str(j) for j in range(0, k, step)], fontsize=8)
    ax.set_ylim(0, bottom)
    ax.set_xlim(left=0)
    ax.set_xlabel("clearness")
    ax.set_ylabel("cluster")
    quiet(ax)
    return ax


def _number_clusters(set_ticks: Any, k: int) -> None:
    step = -(-k // 25)
    set_ticks(range(0, k, step), [str(j) for j in range(0, k, step)], fontsize=8)
