"""Axes to draw on: those given, or those of a new figure of a fitting size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tell.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes(ax: Axes | None, width: float = 6.4, height: float = 4.8) -> Axes:
    """`ax` itself, or the axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "figures need matplotlib, which is not installed; "
            'install it with pip install "tell-clustering[report]"'
        ) from error
    # A figure of its own, outside pyplot's registry: nothing stays open, no window is needed.
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.add_subplot()


def bare(ax: Axes) -> None:
    """Take ticks and frame away."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def quiet(ax: Axes) -> None:
    """Keep the left and lower frame only."""
    ax.spines[["top", "right"]].set_visible(False)
