"""Why rows changed their cluster between two models, in exact parts where that can be had."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from scipy import sparse

from tell.exceptions import InputError
from tell.explanations.comparison import placed, rows_of_both, side_by_side
from tell.explanations.explained_rows import Rows
from tell.explanations.matrices import cluster_sums
from tell.explanations.plain import as_plain
from tell.explanations.points import margin_contributions
from tell.explanations.terms import LOGARITHM, NUMBER, Terms, learn_terms
from tell.explanations.view import (
    AffineInput,
    Assigned,
    Floats,
    Ints,
    ModelView,
    feature_names,
    view_model,
)
from tell.explanations.words import counted, percent, short, signed_short

#: What happened to the two clusters: both live on, the target is new, or the source is gone.
BOUNDARY, NEW, GONE = "boundary", "new", "gone"
#: Columns that a sentence names, and the least effect that is worth a name.
N_NAMED, NAMED_EFFECT = 2, 0.5


@dataclass(frozen=True, eq=False)
class Reason:
    """What one column has to do with a move.

    Attributes
    ----------
    name : the column
    amount : what it adds, per row, to the change of the margin between the two clusters; NaN where
        a model has an encoder
    moved, stayed : mean over the rows that moved, and over those of the same cluster that stayed,
        of the values that are there; NaN where the column is no number, or none stayed
    effect : their difference in pooled standard deviations
    """

    name: str
    amount: float
    moved: float
    stayed: float
    effect: float


@dataclass(frozen=True, eq=False)
class Move:
    """Rows that went from one cluster to another.

    Attributes
    ----------
    old, new : the clusters, numbered as in either model
    kind : "boundary" (both clusters live on), "new" (`new` has no older counterpart) or "gone"
        (`old` has no newer one)
    rows, n_rows, share : the rows by number, how many, and which part of the old cluster they are
    before, after : mean margin of the new cluster over the old one, by the old model and by the new
        one: below 0 before, above 0 after; None where a counterpart is missing
    reasons : every column, strongest first: amounts sum to `after` − `before` where both are there,
        to `after` where only that is
    """

    old: int
    new: int
    kind: str
    rows: Ints = field(metadata={"json": False})
    n_rows: int
    share: float
    before: float | None
    after: float | None
    reasons: tuple[Reason, ...]
    summary: str


@dataclass(frozen=True, eq=False, repr=False)
class Moves:
    """All that moved between two models.

    Attributes
    ----------
    n_rows, n_moved : rows that were compared, and those whose cluster is not the counterpart of
        their old one
    counterparts : old cluster → new cluster that shares most rows with it, each at most once
    moves : by number of rows, most first
    """

    n_rows: int
    n_moved: int
    counterparts: Mapping[int, int]
    moves: tuple[Move, ...] = field(default=())

    def __repr__(self) -> str:
        share = percent(self.n_moved / self.n_rows)
        lines = [f"{self.n_moved:,} of {counted(self.n_rows, 'row')} moved ({share})"]
        return "\n".join(lines + [f"  {move.summary}" for move in self.moves])

    def of(self, old: int, new: int) -> Move:
        """The move from one cluster to another."""
        for move in self.moves:
            if (move.old, move.new) == (old, new):
                return move
        raise InputError(
            f"no row moved from cluster {old} to {new}; moves are "
            + (", ".join(f"{m.old} to {m.new}" for m in self.moves[:12]) or "none")
        )

    def to_dict(self) -> dict[str, object]:
        """Plain lists, numbers and texts, ready for JSON."""
        found = as_plain(self)
        return found if isinstance(found, dict) else {}

    def to_json(self, indent: int | None = None) -> str:
        """One JSON document."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)


def explain_change(old: object, new: object, X: object, *, X_old: object = None) -> Moves:
    """Say which rows changed their cluster between two models, and why.

    Clusters are matched by the rows they share. A row has moved where its new cluster is not the
    counterpart of its old one. For models without an encoder the change of its margin is split over
    the columns without a rest: how much nearer the new cluster came along each of them.

    Parameters
    ----------
    old, new : fitted models, as `explain` takes them
    X : the rows (n, d), or anything that can be read twice
    X_old : the same rows with the columns of `old`, where these are others

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.cluster import KMeans
    >>> X = np.array([[0.0], [1.0], [4.0], [9.0], [10.0]])
    >>> old = KMeans(2, init=X[[0, 4]], n_init=1).fit(X)
    >>> new = KMeans(2, init=X[[0, 2]], n_init=1).fit(X[[0, 1, 2, 3]])
    >>> found = explain_change(old, new, X)
    >>> found.moves[0].rows, found.moves[0].before < 0 < found.moves[0].after
    (array([2]), True)
    """
    views = view_model(old), view_model(new)
    seen = rows_of_both(old, new, X, X_old)
    for view, rows in zip(views, seen, strict=True):
        view.check_columns(rows.n_features)
    terms = tuple(_terms(view, rows) for view, rows in zip(views, seen, strict=True))
    overlap = np.zeros((views[0].n_clusters, views[1].n_clusters), np.int64)
    for one, other in _pairs(views, seen):
        np.add.at(overlap, (one.labels, other.labels), 1)
    if not overlap.any():
        raise InputError("X needs at least one row, got none; pass the rows to compare on")
    matched = _counterparts(overlap)
    gathered = _Gathered(views, terms, matched)
    for one, other in _pairs(views, seen):
        gathered.add(one, other)
    moves = sorted(gathered.moves(overlap), key=lambda move: (-move.n_rows, move.old, move.new))
    n_moved = sum(move.n_rows for move in moves)
    return Moves(int(overlap.sum()), n_moved, matched, tuple(moves))


_Views = tuple[ModelView, ModelView]


def _pairs(views: _Views, seen: tuple[Rows, Rows]) -> Iterator[tuple[Assigned, Assigned]]:
    return side_by_side(placed(views[0], seen[0]), placed(views[1], seen[1]))


def _terms(view: ModelView, rows: Rows) -> Terms:
    names = feature_names(view.about, rows.feature_names, rows.n_features, rows.shape)
    return learn_terms(rows.preparation, names)


def _counterparts(overlap: Ints) -> dict[int, int]:
    """Old cluster → new one, so that the matched clusters share as many rows as can be.

    >>> _counterparts(np.array([[5, 0], [4, 1]]))
    {0: 0, 1: 1}
    """
    from scipy.optimize import linear_sum_assignment

    old, new = linear_sum_assignment(-overlap)
    pairs = zip(old.tolist(), new.tolist(), strict=True)
    return {i: j for i, j in pairs if overlap[i, j]}


class _Sums:
    """Rows of one kind: how many, their sums and squares by feature, and their margins."""

    def __init__(self, n_features: int) -> None:
        self.numbers: list[Ints] = []
        self.count = 0
        self.real = np.zeros(n_features, np.int64)  # values that do not stand for a gap
        self.total, self.squares = np.zeros(n_features), np.zeros(n_features)
        self.parts: dict[str, float] = {}
        self.before = self.after = 0.0

    def add(self, rows: Assigned, terms: Terms) -> None:
        values = terms.shown(rows.X)
        self.numbers.append(rows.rows)
        self.count += len(rows)
        self.real += len(rows)
        if rows.filled is not None:
            self.real -= rows.filled.sum(axis=0)
            values = np.where(rows.filled, 0.0, values)
        all_alike = np.zeros(len(rows), np.int64)
        sums, squares = cluster_sums(values, all_alike, 1, np.zeros(values.shape[1]))
        self.total += sums[0]
        self.squares += squares[0]

    @property
    def mean(self) -> Floats:
        return self.total / np.maximum(self.real, 1)

    @property
    def variance(self) -> Floats:
        return np.maximum(self.squares / np.maximum(self.real, 1) - self.mean**2, 0.0)


class _Gathered:
    """Takes rows of both models side by side and sums what the moves are explained by."""

    def __init__(self, views: _Views, terms: tuple[Terms, ...], matched: dict[int, int]) -> None:
        self.views, self.terms, self.matched = views, terms, matched
        self.back = {new: old for old, new in matched.items()}
        self.exact = all(isinstance(view.path, AffineInput) for view in views)
        self.moved: dict[tuple[int, int], _Sums] = {}
        self.stayed: dict[int, _Sums] = {}

    def add(self, one: Assigned, other: Assigned) -> None:
        """Take rows in, as the old model placed them and as the new one did."""
        pairs = list(zip(one.labels.tolist(), other.labels.tolist(), strict=True))
        order = sorted(range(len(pairs)), key=pairs.__getitem__)
        d = len(self.terms[1].of)
        for (i, j), places in groupby(order, key=pairs.__getitem__):
            rows = list(places)
            here = other.take(rows)
            if self.matched.get(i) == j:
                self.stayed.setdefault(i, _Sums(d)).add(here, self.terms[1])
                continue
            sums = self.moved.setdefault((i, j), _Sums(d))
            sums.add(here, self.terms[1])
            self._add_margins(sums, i, j, one.take(rows), here)

    def _add_margins(self, sums: _Sums, i: int, j: int, one: Assigned, other: Assigned) -> None:
        """Add the margins of the new cluster over the old one, by both models."""
        earlier, later = self.back.get(j), self.matched.get(i)
        if earlier is not None:
            sums.before += self._margin(0, sums, one, earlier, i, -1.0)
        if later is not None:
            sums.after += self._margin(1, sums, other, j, later, 1.0)

    def _margin(
        self, which: int, sums: _Sums, rows: Assigned, j: int, k: int, sign: float
    ) -> float:
        """The sum of the margins of cluster j over k by one model; parts go to their columns."""
        view, terms = self.views[which], self.terms[which]
        squared = view.distances(rows.X)
        if self.exact:
            # Linear in the row, so that the mean row stands for all of them.
            mean = np.asarray(view.placed(rows.X).mean(axis=0), np.float64).reshape(1, -1)
            empty = sparse.issparse(rows.X)
            amounts = len(rows) * margin_contributions(view, mean, j, k, from_zero=empty)[0]
            for column in terms.columns:
                part = sign * float(amounts[list(column.features)].sum())
                sums.parts[column.name] = sums.parts.get(column.name, 0.0) + part
        return float((squared[:, k] - squared[:, j]).sum())

    def moves(self, overlap: Ints) -> list[Move]:
        """Everything that moved."""
        sizes = overlap.sum(axis=1)
        return [
            self._move(i, j, sums, sums.count / int(sizes[i]))
            for (i, j), sums in self.moved.items()
        ]

    def _move(self, i: int, j: int, sums: _Sums, share: float) -> Move:
        earlier, later = self.back.get(j), self.matched.get(i)
        before = None if earlier is None else sums.before / sums.count
        after = None if later is None else sums.after / sums.count
        kind = GONE if later is None else NEW if earlier is None else BOUNDARY
        reasons = self._reasons(sums, self.stayed.get(i), told=kind != GONE)
        names = [view.called(number) for view, number in zip(self.views, (i, j), strict=True)]
        return Move(
            old=i,
            new=j,
            kind=kind,
            rows=np.sort(np.concatenate(sums.numbers)),
            n_rows=sums.count,
            share=share,
            before=before,
            after=after,
            reasons=reasons,
            summary=_summary(names, kind, sums.count, share, before, after, reasons),
        )

    def _reasons(self, sums: _Sums, stayed: _Sums | None, *, told: bool) -> tuple[Reason, ...]:
        """One entry per column: its part of the margins, and how the rows that moved differ."""
        exact = self.exact and told
        entries = []
        for column in self.terms[1].columns:
            number = column.kind in (NUMBER, LOGARITHM)
            moved, left, effect = _compared(column.features[0], sums, stayed if number else None)
            amount = sums.parts.get(column.name, 0.0) / sums.count if exact else np.nan
            entries.append(Reason(column.name, amount, moved, left, effect))
        known = {entry.name for entry in entries}
        if exact:  # columns that only the old model had
            gone = {name: part for name, part in sums.parts.items() if name not in known}
            entries += [
                Reason(name, part / sums.count, np.nan, np.nan, 0.0) for name, part in gone.items()
            ]
        return tuple(sorted(entries, key=lambda one: -abs(one.amount if exact else one.effect)))


def _compared(f: int, moved: _Sums, stayed: _Sums | None) -> tuple[float, float, float]:
    """Means of those that moved and of those that stayed, and the effect."""
    if stayed is None or not moved.real[f] or not stayed.real[f]:
        return np.nan, np.nan, 0.0
    first, second = float(moved.mean[f]), float(stayed.mean[f])
    counts = np.array([moved.real[f], stayed.real[f]])
    pooled = float(np.average([moved.variance[f], stayed.variance[f]], weights=counts))
    effect = (first - second) / np.sqrt(pooled) if pooled > 0 else 0.0
    return first, second, float(effect)


def _summary(
    names: Sequence[str],
    kind: str,
    n_rows: int,
    share: float,
    before: float | None,
    after: float | None,
    reasons: Sequence[Reason],
) -> str:
    source, target = names
    text = (
        f"{counted(n_rows, 'row')} ({percent(share)} of the old {source}) moved to the new {target}"
    )
    if kind == GONE:
        text += f": the old {source} has no counterpart any more"
    elif kind == NEW:
        text += f", which is new{_along(reasons, after)}"
    elif before is not None and after is not None:
        text += f": their margin for it went from {signed_short(before)} to {signed_short(after)}"
        text += _along(reasons, after - before)
    return text + _told_apart(reasons)


def _along(reasons: Sequence[Reason], total: float | None) -> str:
    """The columns along which most of it happened; nothing where a model has an encoder."""
    if total is None:
        return ""
    named = [one for one in reasons if one.amount > 0][:N_NAMED]
    parts = " and ".join(f"{one.name} ({signed_short(one.amount)})" for one in named)
    return f", most along {parts}" if parts else ""


def _told_apart(reasons: Sequence[Reason]) -> str:
    """How those that moved differ from those that stayed."""
    strong = sorted(reasons, key=lambda one: -abs(one.effect))[:N_NAMED]
    parts = [
        f"{'high' if one.effect > 0 else 'low'} {one.name} ({short(one.moved)} against "
        f"{short(one.stayed)})"
        for one in strong
        if abs(one.effect) >= NAMED_EFFECT
    ]
    return f"; unlike those that stayed they have {' and '.join(parts)}" if parts else ""
