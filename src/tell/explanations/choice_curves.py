"""The evidence for a number of clusters as curves with their uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tell.choosing.choice import Choice
from tell.contract import Floats

#: Curve of the evidence → its title, and what it says.
CURVES = {
    "gap": ("Gap", "how much tighter the clusters are than those of structureless rows"),
    "stability": ("Stability", "how alike two halves of the rows are divided: 1 is identical"),
    "strength": ("Strength", "the same for the cluster that fares worst"),
    "silhouette": ("Silhouette", "how far the clusters lie apart: 1 is far, 0 not at all"),
    "elbow": ("Elbow", "how far the loss lies below a straight line"),
}


@dataclass(frozen=True, eq=False)
class ChoiceCurve:
    """One kind of evidence over all numbers of clusters (m,); `error` where it is known."""

    name: str
    title: str
    meaning: str
    n_clusters: Floats
    values: Floats
    error: Floats | None

    def at(self, k: int) -> float:
        """The value for k clusters."""
        return float(self.values[int(np.flatnonzero(self.n_clusters == k)[0])])


def choice_curves(choice: Choice) -> list[ChoiceCurve]:
    """All curves; none where there was nothing to choose from."""
    evidence = choice.evidence
    if len(evidence.n_clusters) < 2:
        return []
    return [
        ChoiceCurve(
            name,
            title,
            meaning,
            evidence.n_clusters.astype(np.float64),
            getattr(evidence, name),
            getattr(evidence, f"{name}_error", None),
        )
        for name, (title, meaning) in CURVES.items()
    ]
