"""The evidence for a number of clusters as curves with their uncertainty."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tell.choosing.choice import Choice
from tell.contract import Floats, Record

#: Curve of the evidence → its title, and what it says.
CURVES = {
    "gap": ("Gap", "how much tighter the clusters are than those of structureless rows"),
    "stability": ("Stability", "how alike two halves of the rows are divided: 1 is identical"),
    "strength": ("Strength", "the same for the cluster that fares worst"),
    "silhouette": ("Silhouette", "how far the clusters lie apart: 1 is far, 0 not at all"),
    "elbow": ("Elbow", "how far the loss lies below a straight line"),
}
MODULARITY = ("Modularity", "how much more the neighbour graph binds inside groups than by chance")
BOND = ("Strongest bond", "of two groups, by what chance would bind: above 0.25 they are one")


@dataclass(frozen=True, eq=False)
class ChoiceCurve:
    """One kind of evidence over some numbers of clusters (m,); `error` where it is known."""

    title: str
    meaning: str
    n_clusters: Floats
    values: Floats
    error: Floats | None = None

    def at(self, k: int) -> float | None:
        """The value for k clusters, where there is one."""
        found = np.flatnonzero(self.n_clusters == k)
        return float(self.values[found[0]]) if len(found) else None


@dataclass(frozen=True, eq=False)
class ChoiceFacts:
    """Why there are so many clusters: the number, the next best, both in words, and the curves."""

    n_clusters: int
    runner_up: int | None
    reasons: str
    n_rows: int
    curves: tuple[ChoiceCurve, ...]


def describe_choice(kept: Record) -> ChoiceFacts:
    """What a model says of its choice, as facts."""
    content: dict[str, Any] = dict(kept)
    if "evidence" in content:
        choice = Choice.from_json(content)
        n_rows, curves = choice.evidence.n_rows, choice_curves(choice)
    else:
        n_rows, curves = content["n_rows"], _graph_curves(content)
    told = {name: content[name] for name in ("n_clusters", "runner_up", "reasons")}
    return ChoiceFacts(**told, n_rows=n_rows, curves=tuple(curves))


def choice_curves(choice: Choice) -> list[ChoiceCurve]:
    """All curves; none where there was nothing to choose from."""
    evidence = choice.evidence
    if len(evidence.n_clusters) < 2:
        return []
    numbers = evidence.n_clusters.astype(np.float64)
    return [
        ChoiceCurve(
            *words, numbers, getattr(evidence, name), getattr(evidence, f"{name}_error", None)
        )
        for name, words in CURVES.items()
    ]


def _graph_curves(content: Mapping[str, Any]) -> list[ChoiceCurve]:
    """Curves of the groups of a neighbour graph, which were merged from many to one."""
    numbers, found, bonds = (
        np.asarray(content[name], np.float64)[::-1] for name in ("numbers", "modularity", "bonds")
    )
    if len(numbers) < 2:
        return []
    curves = [ChoiceCurve(*MODULARITY, numbers, found)]
    # The bond that the next merger would have taken, so none for a single group.
    return curves + ([ChoiceCurve(*BOND, numbers[1:], bonds)] if len(bonds) > 1 else [])
