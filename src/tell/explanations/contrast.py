"""What one cluster is unlike another: the margin between them, split over the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from tell.exceptions import InputError
from tell.explanations.points import split_margin
from tell.explanations.terms import DATE, Term, number_text
from tell.explanations.view import Floats
from tell.explanations.words import percent

if TYPE_CHECKING:
    from tell.explanations.facts import Explanation

#: Columns that a sentence names, and the least share of the margin that is worth a name.
N_NAMED, LEAST_SHARE = 3, 0.05


@dataclass(frozen=True, eq=False)
class Difference:
    """How one column tells two clusters apart.

    Attributes
    ----------
    name, index : the feature that shows it, in the terms of the data: "age", "country = Germany"
    column, level, kind : as in `FeatureFact`
    here, there : mean over the members of either cluster: of a category its share
    amount, share : what the column adds to the mean margin, and its part of that margin
    """

    name: str
    index: int
    column: str
    level: str | None
    kind: str
    here: float
    there: float
    amount: float
    share: float

    def words(self) -> str:
        """What is told of it: "high income (52,000 against 31,000)"."""
        values = " against ".join(self.values())
        if self.level is not None:
            return f"{self.name} ({values})"
        high, low = ("late", "early") if self.kind == DATE else ("high", "low")
        return f"{high if self.here > self.there else low} {self.name} ({values})"

    def values(self) -> tuple[str, str]:
        """The two means as they are printed."""
        if self.level is not None:
            return percent(self.here), percent(self.there)
        return number_text(self.here, self.kind), number_text(self.there, self.kind)


@dataclass(frozen=True, eq=False)
class Contrast:
    """Cluster `cluster` unlike cluster `other`.

    Attributes
    ----------
    margin : mean of ‖z − Ω_k‖² − ‖z − Ω_j‖² over the sampled members of cluster j; behind an
        encoder the sum of the squared differences of the means, in deviations of the members
    differences : every column, strongest first; their amounts sum to the margin
    exact : whether the amounts are those by which the model decides, (W_j − W_k) times the mean
        member less half-way; behind an encoder they say what the members look like
    """

    cluster: int
    other: int
    margin: float
    differences: tuple[Difference, ...]
    exact: bool
    summary: str


def contrast(facts: Explanation, cluster: int, other: int) -> Contrast:
    """Say what sets a cluster apart from one other; `Explanation.contrast` is the way to it."""
    _check(facts, cluster, other)
    exact = facts.model.centers_from == "model"
    amounts = _mean_margin(facts, cluster, other) if exact else _apart(facts, cluster, other)
    columns = facts.terms.columns
    firsts = np.array([column.features[0] for column in columns], np.intp)
    sums = np.add.reduceat(amounts, firsts)  # the features of a column stand together
    margin = float(sums.sum())
    order = np.argsort(-sums, kind="stable").tolist()
    found = tuple(
        _difference(facts, columns[c], cluster, other, amounts, float(sums[c]), margin)
        for c in order
    )
    return Contrast(cluster, other, margin, found, exact, _summary(facts, other, found))


def _check(facts: Explanation, *clusters: int) -> None:
    k = len(facts.clusters)
    for j in clusters:
        if j not in range(k):
            raise InputError(f"a contrast needs clusters from 0 to {k - 1}, got {j}")
        if not np.any(facts.sample.labels == j):
            raise InputError(
                f"a contrast needs clusters with rows, but none of the sampled rows is in {j}"
            )
    if len(set(clusters)) == 1:
        raise InputError(f"a contrast needs two different clusters, got {clusters[0]} twice")


def _mean_margin(facts: Explanation, j: int, k: int) -> Floats:
    """The mean margin contributions (d,) of the sampled members: linear, so that of their mean."""
    members = facts.sample.embedding[np.flatnonzero(facts.sample.labels == j)]
    mean = np.asarray(members.mean(axis=0), np.float64).ravel()
    own, other = facts.clusters[j].center, facts.clusters[k].center
    # As in `margin_contributions`: of sparse rows on the sphere only what is there speaks.
    from_zero = facts.model.geometry == "sphere" and sparse.issparse(facts.sample.embedding)
    return split_margin(mean, own, other, from_zero=from_zero)


def _apart(facts: Explanation, j: int, k: int) -> Floats:
    """Squared differences (d,) of the members' means, in deviations inside the two clusters."""
    own, other = facts.clusters[j], facts.clusters[k]
    spread = (own.deviation**2 + other.deviation**2) / 2
    squared = np.nan_to_num(own.mean - other.mean) ** 2
    # A column that is constant in both stands out most, but not infinitely.
    least = 0.01 * np.maximum(squared, spread)
    spread = np.maximum(spread, least)
    return np.divide(squared, spread, out=np.zeros_like(squared), where=spread > 0)


def _difference(
    facts: Explanation, column: Term, j: int, k: int, amounts: Floats, amount: float, margin: float
) -> Difference:
    """One column, by the feature of it that adds most."""
    readable = [f for f in column.features if facts.terms.readable[f]]
    f = max(readable, key=lambda f: float(amounts[f]))
    return Difference(
        name=facts.data.feature_names[f],
        index=f,
        column=column.name,
        level=column.level(f),
        kind=column.kind,
        here=float(facts.clusters[j].mean[f]),
        there=float(facts.clusters[k].mean[f]),
        amount=amount,
        share=amount / margin if margin else 0.0,
    )


def _summary(facts: Explanation, other: int, found: Sequence[Difference]) -> str:
    named = [one for one in found[:N_NAMED] if one.share >= LEAST_SHARE and one.here != one.there]
    name = facts.clusters[other].name
    title = f"unlike {name or f'cluster {other}'}"
    if not named:
        return f"{title}: no column tells them apart by itself"
    part = sum(one.share for one in named)
    return f"{title}: {', '.join(one.words() for one in named)}; {percent(part)} of the margin"
