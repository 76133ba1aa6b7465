"""Reasons through an encoder: attributions of the margin, and the decoded way to the boundary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.exceptions import MissingDependencyError
from tell.explanations.boundary import nearest_in_cell
from tell.explanations.points import Change, Counterfactual
from tell.explanations.view import Floats, ModelView, unit

#: Points on the line from the baseline to a row where gradients are taken: for a close look.
STEPS = 256
#: Pictures of the decoded way: from the row to the boundary, and on to the other centre.
PATH_STEPS = 8


def deep_reasons(
    view: ModelView,
    x: NDArray[Any],
    j: int,
    k: int,
    target: int,
    names: Sequence[str],
    baseline: Floats,
) -> tuple[Floats, float, Counterfactual | None]:
    """Attributions (d,), the baseline's margin, and the way of one row (d,) to cluster `target`."""
    amounts, rest = integrated_gradients(view, x[None], j, k, baseline)
    return amounts[0], rest, None if j == k else decoded_counterfactual(view, x, target, names)


def integrated_gradients(
    view: ModelView, X: NDArray[Any], j: int, k: int, baseline: Floats, *, n_steps: int = STEPS
) -> tuple[Floats, float]:
    """Attribute the margin between clusters j and k to the inputs of a deep model.

    Parameters
    ----------
    view : a deep view
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

    model = view.model
    device = next(model.encoder_.parameters()).device

    def margin(rows: torch.Tensor) -> torch.Tensor:
        scores = model.layer_(model.encoder_(rows)).scores
        return scores[:, j] - scores[:, k]

    def tensor(rows: NDArray[Any]) -> torch.Tensor:
        # The model's own scale is linear per input, so attributions hold in the user's units too.
        channel = (1,) if len(model.input_shape_) == 2 else ()
        shaped = rows.reshape(len(rows), *channel, *model.input_shape_)
        return torch.as_tensor(model.scale_.apply(shaped), device=device)

    model.encoder_.eval()
    start = tensor(baseline[None])
    with torch.no_grad():
        rest = float(margin(start)[0])
    found = IntegratedGradients(margin).attribute(
        tensor(X), baselines=start, n_steps=n_steps, internal_batch_size=max(n_steps, len(X))
    )
    return found.detach().cpu().numpy().astype(np.float64).reshape(len(X), -1), rest


def decoded_counterfactual(
    view: ModelView, x: NDArray[Any], k: int, names: Sequence[str]
) -> Counterfactual:
    """From the embedding of a row (d,) to the boundary of cluster k, and on to its centre."""
    row = view.layer_rows(x[None])[0]
    reached = nearest_in_cell(view, row, k)
    distance = float(np.linalg.norm(reached - row))
    if getattr(view.model, "decoder_", None) is None:
        return Counterfactual(k, distance, distance, (), None)
    ways = np.linspace(0, 1, PATH_STEPS // 2 + 1)[:, None]
    way = np.vstack(
        [row + ways * (reached - row), reached + ways[1:] * (view.centers[k] - reached)]
    )
    way = unit(way) if view.on_sphere else way
    decoded = np.asarray(view.model.inverse_transform(way.astype(np.float32)), np.float64)
    path = decoded.reshape(len(way), -1)
    length = float(np.linalg.norm(row)) or 1.0
    here, there = path[0], path[PATH_STEPS // 2]
    spread = np.broadcast_to(view.model.scale_.scale, view.model.input_shape_).ravel()
    order = np.argsort(-np.abs(there - here) / spread, kind="stable")
    changes = tuple(Change(names[f], int(f), float(here[f]), float(there[f])) for f in order)
    return Counterfactual(k, distance, distance / length, changes, there, path)
