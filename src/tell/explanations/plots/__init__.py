"""Figures, one function each: `ax=None` draws on a new figure, the axes come back.

Only facts go in; nothing is computed here that a fact could hold.
"""

from tell.explanations.plots.curves import plot_history, plot_loss_bound
from tell.explanations.plots.distributions import plot_margins, plot_silhouette
from tell.explanations.plots.image_grids import plot_centers, plot_morph
from tell.explanations.plots.matrices import plot_confusion, plot_features, plot_similarity
from tell.explanations.plots.scatter import plot_map

__all__ = [
    "plot_centers",
    "plot_confusion",
    "plot_features",
    "plot_history",
    "plot_loss_bound",
    "plot_map",
    "plot_margins",
    "plot_morph",
    "plot_silhouette",
    "plot_similarity",
]
