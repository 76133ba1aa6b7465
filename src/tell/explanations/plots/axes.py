"""Axes to draw on, those given or those of a new figure; and foreign text to write on them."""

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


def written(value: object, longest: int = 60) -> str:
    """Text from data, on one line and as it is: a dollar sign does not begin a formula.

    >>> print(written("in US$\\n(2020)"), written("a long name", longest=6))
    in US\\$ (2020) a lon…
    """
    text = " ".join(str(value).split())
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    return text.replace("$", r"\$")


def bare(ax: Axes) -> None:
    """Take ticks and frame away."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def quiet(ax: Axes) -> None:
    """Keep the left and lower frame only."""
    ax.spines[["top", "right"]].set_visible(False)
