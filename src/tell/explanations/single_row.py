"""Why one row is where it is, by the model alone: for a service, which has no other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.adapter import as_model
from tell.explanations.counterfactual import learn_columns
from tell.explanations.points import PointFacts, describe_point
from tell.explanations.terms import learn_terms
from tell.explanations.view import Floats, ModelView, Reals, feature_names, view_model


def explain_row(model: Any, x: Reals, filled: NDArray[np.bool_] | None = None) -> PointFacts:
    """All facts of one row of features (d,); `filled` (d,) marks values that stand for a gap.

    Clusters are told by their place among those that still take rows: see `live_numbers`. Margin
    and contributions are those of `tell.explain`. The smallest change is looked for between
    the values of the centres, where `explain` knows the range of the data.

    >>> from sklearn.cluster import KMeans
    >>> model = KMeans(2, n_init=1, random_state=0).fit([[0.0, 0.0], [2.0, 4.0]])
    >>> point = explain_row(model, np.array([0.5, 0.5]))
    >>> round(point.margin, 6) == round(sum(one.amount for one in point.contributions), 6)
    True
    """
    view = view_model(model)
    shape = view.about.input_shape if len(view.about.input_shape) > 1 else None
    names = feature_names(view.about, None, len(x), shape)
    terms = learn_terms(getattr(model, "preparation_", None), names)
    row = np.asarray(x, np.float64)
    centers = centers_as_rows(view)
    known = terms.shown(row[None] if centers is None else np.vstack([centers, row]))
    titles = terms.titles(names)
    columns = learn_columns(
        titles,
        np.empty((0, len(row))),
        known.min(axis=0),
        known.max(axis=0),
        np.array([column.whole for column in terms.of], bool),
        terms=terms,
    )
    return describe_point(
        view,
        0,
        row,
        titles,
        typical_loss=view.about.loss or 1.0,
        reach=usual_reach(view),
        baseline=row if centers is None else _mean(view, centers),
        columns=columns,
        members={} if centers is None else dict(enumerate(centers)),
        called="The row",
        filled=filled,
        is_image=shape is not None,
    )


def live_numbers(model: Any) -> list[int]:
    """The numbers of the clusters that still take rows, by their place in a view of the model."""
    about = as_model(model).describe()
    return [j for j in range(about.n_clusters) if j not in about.retired]


def centers_as_rows(view: ModelView) -> Floats | None:
    """Centres as rows of features (k, d) in the data's units, where the model can draw them."""
    drawn = view.model.centers_in_units()
    return None if drawn is None else np.asarray(drawn, np.float64).reshape(view.n_clusters, -1)


def usual_reach(view: ModelView) -> Floats:
    """How clear (k,) the mean member is: 1, but on the sphere its cosine to the centre.

    By the mean loss of all rows, where a scan of the rows would know that of each cluster.
    """
    loss = view.about.loss if view.on_sphere else None
    cosine = 1.0 if loss is None else float(np.clip(1 - loss / 2, 1e-9, 1.0))
    return np.full(view.n_clusters, cosine)


def _mean(view: ModelView, centers: Floats) -> Floats:
    """The mean row, where an attribution starts."""
    sizes = view.about.sizes
    weights = None if sizes is None or not np.sum(sizes) else np.asarray(sizes, np.float64)
    return np.asarray(np.average(centers, axis=0, weights=weights))
