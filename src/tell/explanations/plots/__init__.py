"""Figures, one function each: `ax=None` draws on a new figure, the axes come back.

Only facts go in; nothing is computed here that a fact could hold.
"""

from tell.explanations.plots.choices import plot_choice
from tell.explanations.plots.curves import plot_history, plot_loss_bound
from tell.explanations.plots.image_grids import plot_centers
from tell.explanations.plots.scatter import plot_map

__all__ = ["plot_centers", "plot_choice", "plot_history", "plot_loss_bound", "plot_map"]
