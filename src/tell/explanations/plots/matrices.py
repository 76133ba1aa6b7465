"""Tables of numbers as colours: similarity of centres, confusion, features by cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tell.explanations.plots.axes import axes, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tell.explanations.facts import Explanation

#: Numbers are written into cells up to this many columns; beyond, colour alone speaks.
WRITTEN = 16


def plot_similarity(facts: Explanation, *, ax: Axes | None = None) -> Axes:
    """Draw how alike the centres are: cosines on the sphere, else distances."""
    k = facts.model.n_clusters
    cosine = facts.model.geometry == "sphere"
    ax = axes(ax, *_size(k, k))
    names = [str(j) for j in range(k)]
    _matrix(
        ax, facts.model.similarity, names, names, "viridis" if cosine else "viridis_r", "{:.2f}"
    )
    ax.set_title("cosine between centres" if cosine else "distance between centres")
    ax.set_xlabel("cluster")
    ax.set_ylabel("cluster")
    return ax


def plot_confusion(
    matrix: ArrayLike, classes: Sequence[Any], clusters: Sequence[Any], *, ax: Axes | None = None
) -> Axes:
    """Draw a confusion matrix after optimal matching, as `tell.metrics.matched_confusion` gives it.

    Parameters
    ----------
    matrix : (classes, clusters) counts
    """
    counts = np.asarray(matrix)
    ax = axes(ax, *_size(*counts.shape[::-1]))
    _matrix(ax, counts, list(map(str, classes)), list(map(str, clusters)), "Blues", "{:.0f}")
    ax.set_xlabel("cluster")
    ax.set_ylabel("known label")
    return ax


def plot_features(facts: Explanation, *, n_features: int = 24, ax: Axes | None = None) -> Axes:
    """Draw features by cluster: signed effect sizes, the strongest columns first."""
    effects = np.array([cluster.effects for cluster in facts.clusters]).T
    strongest = np.argsort(-np.abs(effects).max(axis=1), kind="stable")[:n_features]
    table = effects[strongest]
    ax = axes(ax, *_size(facts.model.n_clusters, len(strongest)))
    limit = float(np.abs(table).max()) or 1.0
    names = [facts.data.feature_names[f] for f in strongest]
    columns = [str(j) for j in range(facts.model.n_clusters)]
    _matrix(ax, table, names, columns, "RdBu_r", "{:+.1f}", (-limit, limit))
    ax.set_xlabel("cluster")
    ax.set_title("effect size: members against all other rows")
    return ax


def _size(columns: int, rows: int) -> tuple[float, float]:
    return float(np.clip(2.4 + 0.45 * columns, 4.4, 12)), float(np.clip(1.6 + 0.4 * rows, 3.2, 12))


def _matrix(
    ax: Axes,
    values: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    colors: str,
    form: str,
    limits: tuple[float | None, float | None] = (None, None),
) -> None:
    image = ax.imshow(values, cmap=colors, aspect="auto", vmin=limits[0], vmax=limits[1])
    figure = ax.get_figure(root=True)
    if figure is not None:
        figure.colorbar(image, ax=ax, fraction=0.046, pad=0.02)
    _ticks(ax.set_xticks, columns)
    _ticks(ax.set_yticks, rows)
    ax.tick_params(length=0)
    if len(columns) > WRITTEN:
        return
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.55
            ink = "white" if dark else "black"
            ax.text(j, i, form.format(value), ha="center", va="center", color=ink, fontsize=7)


def _ticks(set_ticks: Any, names: Sequence[str]) -> None:
    """Write at most about 25 names, evenly spread, so that none overlap."""
    step = -(-len(names) // 25)
    set_ticks(range(0, len(names), step), [written(n, 28) for n in names[::step]], fontsize=8)
