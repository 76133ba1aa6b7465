"""What speaks for each number of clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tell.choosing.choice import Choice
from tell.explanations.choice_curves import choice_curves
from tell.explanations.palette import cluster_colors
from tell.explanations.plots.axes import axes, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "-", "--", "-.", ":")


def plot_choice(choice: Choice, *, ax: Axes | None = None) -> Axes:
    """Draw the evidence of `tell.choose` over the numbers of clusters, with its uncertainty.

    Vertical lines mark the recommended number and the runner-up; bands are standard errors.
    """
    from matplotlib.ticker import MaxNLocator

    ax = axes(ax, 7.2, 4.4)
    curves = choice_curves(choice)
    for place, (curve, color) in enumerate(zip(curves, cluster_colors(5), strict=False)):
        ks, values = curve.n_clusters, curve.values
        ax.plot(ks, values, ls=_STYLES[place], color=color, label=curve.title.lower())
        if curve.error is not None:
            low, high = values - curve.error, values + curve.error
            ax.fill_between(ks, low, high, color=color, alpha=0.2, lw=0)
    marks = [(choice.n_clusters, "-", "chosen")]
    if choice.runner_up is not None:
        marks.append((choice.runner_up, ":", "next best"))
    for k, style, name in marks:
        ax.axvline(k, color="0.4", lw=1, ls=style, zorder=0, label=f"{name}: {k}")
    ax.set_xlabel("clusters")
    ax.set_ylabel("evidence")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=4, fontsize=9)
    quiet(ax)
    return ax
