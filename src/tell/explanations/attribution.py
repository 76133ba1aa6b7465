"""Reasons through an encoder: attributions of the margin, and the decoded way to the boundary."""

from __future__ import annotations

import numpy as np

from tell.exceptions import MissingDependencyError
from tell.explanations.points import Counterfactual, Strips, nearest_in_cell
from tell.explanations.view import EncodedInput, Floats, ModelView, Reals, unit

#: Points on the line from the baseline to a row where gradients are taken: for a close look.
STEPS = 256
#: Pictures of the decoded way: from the row to the boundary, and on to the other centre.
PATH_STEPS = 8
#: Pictures along a direction of the embedding, from small entries to large ones.
STRIP_STEPS = 7


def encoded_reasons(
    view: ModelView,
    path: EncodedInput,
    x: Reals,
    j: int,
    k: int,
    target: int,
    baseline: Floats,
) -> tuple[Floats, float, Counterfactual | None]:
    """Attributions (d,), the baseline's margin, and the way of one row (d,) to cluster `target`."""
    amounts, rest = integrated_gradients(path, x[None], j, k, baseline)
    found = None if j == k else decoded_counterfactual(view, x, target)
    return amounts[0], rest, found


def integrated_gradients(
    path: EncodedInput, X: Reals, j: int, k: int, baseline: Floats, *, n_steps: int = STEPS
) -> tuple[Floats, float]:
    """Attribute the margin between clusters j and k to the inputs of a deep model.

    Parameters
    ----------
    path : from the columns through the encoder to the scores
    X : (n, d) rows
    baseline : (d,) where attribution starts: usually the mean row of the data
    n_steps : points on the line from there where gradients are taken

    Returns
    -------
    attributions : (n, d), summing to margin(x) − margin(baseline) up to the integration error
    baseline_margin : the margin of the baseline
    """
    try:
        from captum.attr import IntegratedGradients
    except ImportError as error:
        raise MissingDependencyError(
            "explaining DeepTELL needs captum, which is not installed; "
            'install it with pip install "tell-clustering[report]"'
        ) from error
    import torch

    def margin(rows: torch.Tensor) -> torch.Tensor:
        scores = path.scores(rows)
        return scores[:, j] - scores[:, k]

    # The model's own scale is linear per input, so attributions hold in the user's units too.
    start = path.tensor(baseline[None])
    with torch.no_grad():
        rest = float(margin(start)[0])
    found = IntegratedGradients(margin).attribute(
        path.tensor(X), baselines=start, n_steps=n_steps, internal_batch_size=max(n_steps, len(X))
    )
    return found.detach().cpu().numpy().astype(np.float64).reshape(len(X), -1), rest


def decoded_counterfactual(view: ModelView, x: Reals, k: int) -> Counterfactual:
    """From the embedding of a row (d,) to the boundary of cluster k, and on to its centre."""
    row = view.layer_rows(x[None])[0]
    reached = nearest_in_cell(view, row, k)
    distance = float(np.linalg.norm(reached - row))
    if not view.model.can_decode:
        return Counterfactual(k, distance, distance, (), None, None)
    ways = np.linspace(0, 1, PATH_STEPS // 2 + 1)[:, None]
    way = np.vstack(
        [row + ways * (reached - row), reached + ways[1:] * (view.centers[k] - reached)]
    )
    way = unit(way) if view.on_sphere else way
    drawn = np.asarray(view.model.decode(way), np.float64).reshape(len(way), -1)
    length = float(np.linalg.norm(row)) or 1.0
    return Counterfactual(k, distance, distance / length, (), None, drawn[PATH_STEPS // 2], drawn)


def decoded_strips(view: ModelView, row: Floats, ends: Floats) -> Strips | None:
    """Draw every direction of the embedding from a row (p,), between the entries `ends` (2, p).

    On the sphere the other entries shrink or grow together, so that the length stays one. What was
    drawn is embedded again: how far the encoder finds the entries that were meant.
    """
    if not view.model.can_decode:
        return None
    p = len(row)
    entries = np.linspace(ends[0], ends[1], STRIP_STEPS, axis=1)  # (p, steps)
    way = np.broadcast_to(row, (p, STRIP_STEPS, p)).copy()
    for d in range(p):
        if view.on_sphere:
            others = np.delete(row, d)
            left = np.sqrt(np.maximum(1 - entries[d] ** 2, 0) / max(float(others @ others), 1e-12))
            way[d] *= left[:, None]
        way[d, :, d] = entries[d]
    drawn = np.asarray(view.model.decode(way.reshape(-1, p)), np.float64).reshape(
        len(way) * STRIP_STEPS, -1
    )
    again = view.layer_rows(drawn).reshape(p, STRIP_STEPS, p)
    found = again[np.arange(p), :, np.arange(p)]
    return Strips(entries, drawn.reshape(p, STRIP_STEPS, -1), found)
