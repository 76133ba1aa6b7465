"""Curves over time: losses and metrics; and the toy figure of the loss bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tell.explanations.palette import cluster_colors
from tell.explanations.plots.axes import axes, quiet, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--", "-.", ":")


def plot_history(
    losses: Mapping[str, Sequence[float]],
    metrics: Mapping[str, Sequence[float]] | None = None,
    *,
    epochs: Sequence[float] | None = None,
    stages: Mapping[str, float] | None = None,
    ranges: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw metrics on the left axis and losses on the right one, over epochs (figures 7 and 8).

    Parameters
    ----------
    losses, metrics : curves by name; without metrics the losses take the left axis
    epochs : places of the values; default 0, 1, 2, …
    stages : epochs at which the parts of the training begin, by name
    ranges : smallest and largest values by the name of their curve, drawn as a band around it
    """
    from matplotlib.ticker import MaxNLocator

    ax = axes(ax, 7.2, 4.2)
    handles = []
    for place, (name, values) in enumerate((metrics or {}).items()):
        handles += ax.plot(_places(values, epochs), values, **_style(place, name))
    right = ax
    if metrics:
        ax.set_ylabel("clustering metrics")
        right = ax.twinx()
        right.spines["top"].set_visible(False)
    offset = len(metrics or {})
    for place, (name, values) in enumerate(losses.items(), start=offset):
        handles += right.plot(_places(values, epochs), values, **_style(place, name))
    for place, name in enumerate((*(metrics or {}), *losses)):
        if ranges and name in ranges:
            low, high = ranges[name]
            panel, color = (ax if place < offset else right), _style(place, name)["color"]
            panel.fill_between(_places(low, epochs), low, high, color=color, alpha=0.2, lw=0)
    right.set_ylabel("loss")
    ax.set_xlabel("epoch")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    for name, begin in (stages or {}).items():
        ax.axvline(begin, color="0.75", lw=0.8, zorder=0)
        ax.text(
            begin,
            0.02,
            f" {written(name)}",
            transform=ax.get_xaxis_transform(),
            color="0.4",
            fontsize=9,
        )
    ax.legend(handles=handles, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1),
              ncols=max(1, min(5, len(handles))))  # fmt: skip
    if right is ax:
        quiet(ax)
    else:
        ax.spines["top"].set_visible(False)
    return ax


def _style(place: int, name: str) -> dict[str, Any]:
    """Style, colour and name of the curve at this place."""
    color = cluster_colors(10)[place % 10]
    return {"ls": _STYLES[place % 4], "color": color, "label": written(name)}


def _places(values: Sequence[float], epochs: Sequence[float] | None) -> Sequence[float]:
    return range(len(values)) if epochs is None else epochs


def plot_loss_bound(
    *, limit: float = 100.0, temperature: float = 1.0, n: int = 400, ax: Axes | None = None
) -> Axes:
    """Draw the loss of one cluster for one-dimensional points between ±limit (appendix).

    With z = (Wᵀx − 2)/τ for two centres the loss −τ p z stays between the dashed lines as long as
    z stays between ±limit. The legend says how steep it gets beside theorem 1's ε = τ + 2τ max|z|,
    which is to bound the slope.
    """
    ax = axes(ax, 6.4, 4.2)
    z = np.linspace(-limit, limit, n)
    weight = 1 / (1 + np.exp(np.clip(-z, -700, 700)))  # softmax of (z, 0)
    loss = -temperature * weight * z
    slope = np.abs(temperature * weight * (1 + (1 - weight) * z)).max()
    epsilon = temperature + 2 * temperature * limit
    label = (
        f"loss of one cluster; its slope is at most {slope:.2f}, theorem 1 allows ε = {epsilon:g}"
    )
    ax.plot(z, loss, color=cluster_colors(1)[0], label=label)
    bounds = float(loss.min()), float(loss.max())
    label = f"its bounds for |z| ≤ {limit:g}: {bounds[0]:.3g} and {bounds[1]:.2f}"
    ax.axhline(bounds[0], ls="--", color="0.5", lw=1, label=label)
    ax.axhline(bounds[1], ls="--", color="0.5", lw=1)
    ax.set_xlabel("z")
    ax.set_ylabel("loss")
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
    quiet(ax)
    return ax
