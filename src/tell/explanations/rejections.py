"""Rows that belong to no cluster, and what is unusual about each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tell.contract import RejectingModel
from tell.exceptions import ParameterError
from tell.explanations.clusters import ClusterFacts
from tell.explanations.matrices import Matrix, cluster_sums, dense
from tell.explanations.points import Contribution, contributions
from tell.explanations.terms import CATEGORY, Term, Terms, number_text
from tell.explanations.view import Assigned, Floats, Ints, ModelView, Reals
from tell.explanations.words import counted, joined, percent

#: Rejected rows of which more than a count is kept: those farthest out.
MOST_KEPT = 1000
#: Columns are named until they make up this part of the excess, and no more than so many.
NAMED_PART, MOST_NAMED = 0.5, 3
#: Columns of a rejected row that are kept.
MOST_COLUMNS = 20


@dataclass(frozen=True, eq=False)
class Rejection:
    """Why one row is rejected.

    Attributes
    ----------
    row, name : its number in the data, counted from 0, and what people call it, where known
    cluster : whose centre is nearest
    score : share of that cluster's fitted rows that lie nearer to the centre: `outlier_score`
    distance, limit : to the centre, and how far is still accepted, in the layer's space
    excess : how much larger its squared distance is than the mean over the sampled members that are
        not rejected
    columns : what columns add to the excess, most first, at most 20; empty for images
    rest : what all other columns add: with it they sum to the excess
    usual : what the members have in the first of these columns, as text
    reason : the same in words
    """

    row: int
    name: str | None
    cluster: int
    score: float
    distance: float
    limit: float
    excess: float
    columns: tuple[Contribution, ...]
    rest: float
    usual: tuple[str, ...]
    reason: str
    values: Reals = field(metadata={"json": False})

    def unusual(self) -> tuple[Contribution, ...]:
        """The few columns that make up half of the excess; none where it takes many."""
        return unusual(self.columns, self.excess)


def unusual(columns: tuple[Contribution, ...], excess: float) -> tuple[Contribution, ...]:
    """The first columns, as many as make up half of the excess; none where it takes many."""
    if excess <= 0:
        return ()
    parts = np.cumsum([one.amount for one in columns[:MOST_NAMED]])
    enough = np.flatnonzero(parts >= NAMED_PART * excess)
    return columns[: int(enough[0]) + 1] if len(enough) else ()


@dataclass(frozen=True, eq=False)
class Rejections:
    """All rows that are rejected at one share.

    Attributes
    ----------
    share : the share of usual rows that is given up: `reject`
    count : rejected rows
    by_cluster : (k,) the same by the cluster whose centre is nearest
    limits : (k,) distances to the centre beyond which rows are rejected
    rows : those farthest out, at most 1,000
    """

    share: float
    count: int
    by_cluster: Ints
    limits: Floats
    rows: tuple[Rejection, ...]

    def summary(self, n_rows: int) -> str:
        """How many of the rows are rejected."""
        verb = "is" if self.count == 1 else "are"
        return (
            f"At {share_asked(self.share)}, {self.count:,} of {counted(n_rows, 'row')} {verb} "
            "rejected: they belong to no cluster."
        )


class Rejecter:
    """Asks a model which rows it rejects, block by block, and keeps those farthest out."""

    def __init__(self, view: ModelView, share: float) -> None:
        model = view.model
        if not isinstance(model, RejectingModel):
            raise ParameterError(
                f"reject needs a TELL, which keeps the distances of its rows, got "
                f"{view.about.kind}; leave it out"
            )
        self.share, self._view, self._model = share, view, model
        self.limits = np.sqrt(np.asarray(model.reject_limits(share), np.float64))
        self.by_cluster = np.zeros(view.n_clusters, np.int64)
        self.kept: Assigned | None = None
        self.scores = np.empty(0)

    def add(self, part: Assigned) -> None:
        """Take one block of rows in."""
        outside = np.flatnonzero(self.outside(part.X))
        found = part.take(outside)
        self.by_cluster += np.bincount(found.labels, minlength=len(self.by_cluster))
        scores = np.concatenate([self.scores, self.score(found.X)])
        joined = found if self.kept is None else self.kept.join(found)
        order = np.lexsort((joined.rows, -scores))[:MOST_KEPT]
        self.kept, self.scores = joined.take(order), scores[order]

    def outside(self, X: Matrix) -> NDArray[np.bool_]:
        """Which rows (n,) the model rejects, by its own word."""
        labels = self._view.ask(lambda rows: self._model.predict(rows, reject=self.share), X)
        return np.asarray(labels < 0)

    def score(self, X: Matrix) -> Floats:
        """How far out rows (n,) lie."""
        if not X.shape[0]:
            return np.empty(0)
        return np.asarray(self._view.ask(self._model.outlier_score, X), np.float64)


class Reasons:
    """Says of rejected rows what is unusual about them."""

    def __init__(
        self,
        view: ModelView,
        rejecter: Rejecter,
        sample: Assigned,
        clusters: Sequence[ClusterFacts],
        terms: Terms,
        *,
        is_image: bool,
    ) -> None:
        self._view, self._rejecter, self._clusters = view, rejecter, clusters
        self._terms, self._is_image = terms, is_image
        self._usual = usual_parts(view, sample.take(np.flatnonzero(~rejecter.outside(sample.X))))

    def of(
        self, row: int, x: Reals, score: float, name: str | None, filled: NDArray[np.bool_] | None
    ) -> Rejection:
        """The facts of one row (d,) that the model rejects."""
        squared = self._view.distances(x[None])[0]
        j = int(np.argmin(squared))
        parts = np.square(self._view.layer_rows(x[None])[0] - self._view.centers[j])
        excess = float(squared[j] - self._usual[j].sum())
        columns: tuple[Contribution, ...] = ()
        if not self._is_image:
            amounts = parts - self._usual[j]
            columns = contributions(self._terms, x, amounts, filled, most=MOST_COLUMNS, signed=True)
        return Rejection(
            row=row,
            name=name,
            cluster=j,
            score=score,
            distance=float(np.sqrt(squared[j])),
            limit=float(self._rejecter.limits[j]),
            excess=excess,
            columns=columns,
            rest=excess - sum(one.amount for one in columns),
            usual=tuple(self._members(one, j) for one in columns[:MOST_NAMED]),
            reason=self._reason(score, x, columns, excess),
            values=x,
        )

    def _members(self, one: Contribution, j: int) -> str:
        """What the members of a cluster have in a column."""
        column = next(c for c in self._terms.columns if c.features[0] == one.index)
        return members_text(column, self._clusters[j], one)

    def _reason(
        self, score: float, x: Reals, columns: tuple[Contribution, ...], excess: float
    ) -> str:
        far = f"farther from its nearest centre than {share_text(score)} of that cluster"
        if self._view.on_sphere and not np.any(x):
            return f"{far}; a row of zeros has no direction"
        if self._is_image:
            return far
        named = unusual(columns, excess)
        if not named:
            return f"{far}; not a few columns are unusual, but many a little"
        verb = "is" if len(named) == 1 else "are"
        return f"{far}; {joined([one.words() for one in named])} {verb} what is unusual"


def usual_parts(view: ModelView, members: Assigned) -> Floats:
    """Mean of (z_f − Ω_jf)² over the members of each cluster (k, p); 0 where there are none.

    Sums over f are the clusters' mean squared distances, so that what a row has beyond them is
    split over the columns with nothing left over.
    """
    Z, k = view.placed(members.X), view.n_clusters
    sizes = np.maximum(np.bincount(members.labels, minlength=k), 1)[:, None]
    if not sparse.issparse(Z):
        parts = np.zeros(view.centers.shape)
        for j in np.unique(members.labels).tolist():
            own = Z[members.labels == j]
            parts[j] = np.square(own - view.centers[j]).mean(axis=0)
        return parts
    sums, squares = cluster_sums(Z, members.labels, k, np.zeros(Z.shape[1]))
    there = np.bincount(members.labels, minlength=k)[:, None] > 0
    mean = squares / sizes - 2 * view.centers * sums / sizes + np.square(view.centers)
    return np.where(there, np.maximum(mean, 0.0), 0.0)


def members_text(column: Term, cluster: ClusterFacts, one: Contribution) -> str:
    """What is usual in a column, for people: the median, or how frequent the category is."""
    if column.kind == CATEGORY:
        level = one.value if isinstance(one.value, str) else ""
        if level not in column.levels:
            return "a value that the model does not know"
        place = column.features[column.levels.index(level)]
        return f"{percent(float(cluster.mean[place]))} of the cluster"
    if column.levels:
        share = float(cluster.mean[column.features[0]])
        share = share if one.value == column.levels[1] else 1 - share
        return f"{percent(share)} of the cluster"
    return f"median {number_text(float(cluster.median[column.features[0]]), column.kind)}"


def share_text(score: float) -> str:
    """A share near 1, rounded down so that it is never overstated.

    >>> share_text(0.99789), share_text(0.9), share_text(0.999994)
    ('99.7 %', '90.0 %', 'over 99.9 %')
    """
    if score > 0.999:
        return "over 99.9 %"
    return f"{math.floor(1000 * score + 1e-9) / 10:.1f} %"


def share_asked(share: float) -> str:
    """The share that a user asked for.

    >>> share_asked(0.01), share_asked(0.0025)
    ('1 %', '0.25 %')
    """
    return f"{100 * share:.6g} %"


def describe_rejections(
    rejecter: Rejecter, reasons: Reasons, names: Sequence[object] | None
) -> Rejections:
    """The facts of all rows that were rejected."""
    kept = rejecter.kept
    rows = () if kept is None else tuple(
        reasons.of(
            int(kept.rows[i]),
            dense(kept.X[[i]])[0],
            float(rejecter.scores[i]),
            called(names, int(kept.rows[i])),
            None if kept.filled is None else kept.filled[i],
        )
        for i in range(len(kept))
    )  # fmt: skip
    return Rejections(
        share=rejecter.share,
        count=int(rejecter.by_cluster.sum()),
        by_cluster=rejecter.by_cluster,
        limits=rejecter.limits,
        rows=rows,
    )


def called(names: Sequence[object] | None, row: int) -> str | None:
    """What people call a row, where they do."""
    return None if names is None or row >= len(names) else str(names[row])
