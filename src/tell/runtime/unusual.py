"""Rows that do not fit: rejected ones and those at a boundary, each with its reason in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.estimators.validation import NotFittedError
from tell.explanations.explained_rows import Block
from tell.explanations.points import contributions, margin_contributions
from tell.explanations.scan import BORDERLINE
from tell.explanations.single_row import live_numbers, usual_reach
from tell.explanations.terms import Terms, learn_terms
from tell.explanations.view import (
    AffineInput,
    Assigned,
    Floats,
    ModelView,
    assign,
    feature_names,
    view_model,
)
from tell.explanations.words import percent

REJECT = 0.01  # share of a cluster's rows that lie farther out than a row may
MOST_EACH = 3  # rows of either kind
_NAMED = 2  # columns that a reason names


@dataclass(frozen=True)
class Unusual:
    """One row: its place among those given, where it is, and why it is told."""

    place: int
    cluster: int
    rejected: bool
    clearness: float
    reason: str


def unusual_rows(model: Any, X: NDArray[Any], most: int = MOST_EACH) -> list[Unusual]:
    """The rows (n, d) that lie farthest beyond their cluster's limit, and the least clear ones.

    In the order in which they came.
    """
    view = view_model(model)
    names = feature_names(view.about, None, X.shape[1], None)
    terms = learn_terms(getattr(model, "preparation_", None), names)
    placed = assign(view, Block(X, None, np.arange(len(X)))).relative_to(usual_reach(view))
    beyond = placed.distance**2 / _limits(view)[placed.labels]
    numbers = live_numbers(model)
    rejected = [int(i) for i in np.argsort(-beyond, kind="stable")[:most] if beyond[i] > 1]
    unclear = np.argsort(placed.clearness, kind="stable")
    borderline = [
        int(i)
        for i in unclear[: most + len(rejected)]
        if placed.clearness[i] < BORDERLINE and i not in rejected and view.n_clusters > 1
    ][:most]
    return [
        Unusual(
            i,
            numbers[int(placed.labels[i])],
            i in rejected,
            float(placed.clearness[i]),
            _too_far(view, terms, placed, i) if i in rejected else _between(view, terms, placed, i),
        )
        for i in sorted([*rejected, *borderline])
    ]


def _limits(view: ModelView) -> Floats:
    """Squared distances (k,) beyond which rows are rejected; infinite where nobody knows them."""
    model: Any = view.model
    try:
        return np.asarray(model.reject_limits(REJECT), np.float64)
    except (AttributeError, NotFittedError):
        return np.full(view.n_clusters, np.inf)


def _too_far(view: ModelView, terms: Terms, placed: Assigned, i: int) -> str:
    """Which columns make the squared distance to the own centre: it is a sum over them."""
    own = int(placed.labels[i])
    far = f"farther from its centre than {percent(1 - REJECT)} of {view.called(own)}"
    x = np.asarray(placed.X[i], np.float64)
    if not isinstance(view.path, AffineInput):
        return far
    squares = np.square(view.layer_rows(x[None])[0] - view.centers[own])
    parts = contributions(terms, x, squares)[:_NAMED]
    total = float(squares.sum()) or 1.0
    told = [
        f"{one.name} = {one.text()} ({percent(one.amount / total)} of the distance)"
        for one in parts
        if one.amount > 0.05 * total
    ]
    return f"{far}; {' and '.join(told)}" if told else far


def _between(view: ModelView, terms: Terms, placed: Assigned, i: int) -> str:
    """What speaks for the own cluster, and what for the other."""
    own, other = int(placed.labels[i]), int(placed.runner_up[i])
    unclear = f"only {percent(float(placed.clearness[i]))} clear of {view.called(other)}"
    if not isinstance(view.path, AffineInput):
        return unclear
    x = np.asarray(placed.X[i], np.float64)
    amounts = margin_contributions(view, view.layer_rows(x[None]), own, other)[0]
    parts = contributions(terms, x, amounts)
    told = [
        f"{one.name} = {one.text()} speaks for {view.called(side)}"
        for side, sign in ((own, 1), (other, -1))
        for one in [part for part in parts if sign * part.amount > 0][:1]
    ]
    return f"{unclear}; {', '.join(told)}" if told else unclear
