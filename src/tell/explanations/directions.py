"""A deep margin split exactly over the directions of the embedding, and what each of them means.

The layer is linear in the embedding, so the first step is exact. The second, from a direction to
the columns, passes the encoder: it is told by rows that are most active, by columns that go along,
and by what the decoder draws along it, together with how far each of these can say it at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tell.exceptions import InputError
from tell.explanations.matrices import dense
from tell.explanations.points import ATTRIBUTED, Strips, split_margin
from tell.explanations.view import Floats

if TYPE_CHECKING:
    from tell.explanations.facts import Explanation

#: Rows and columns that are named for a direction.
N_NAMED = 5


@dataclass(frozen=True, eq=False)
class Direction:
    """One direction of the embedding.

    Attributes
    ----------
    index : its place among the p directions
    amount : what it adds to the margin of the row, exact: the amounts of all sum to the margin
    value : the row's own entry
    most, least : sampled rows by number whose entries are the largest and the smallest
    columns : the columns that go along with it most, with their correlation over the sampled rows
    explained : share of its variance that a linear function of the columns can say, measured on
        rows it was not fitted to; the rest of this second step is beyond a list of columns
    entries, strip : (steps,) entries from among the smallest of the sampled rows to the largest,
        and (steps, d) what the decoder draws for them, from this row; None without a decoder
    moved : the columns that change most along the strip, with their values at both ends
    redrawn : share of the changes along the strip that the encoder finds again in what was drawn
        (squared correlation): 0 where the pictures do not show the direction
    """

    index: int
    amount: float
    value: float
    most: tuple[int, ...]
    least: tuple[int, ...]
    columns: tuple[tuple[str, float], ...]
    explained: float
    entries: Floats | None = None
    strip: Floats | None = None
    moved: tuple[tuple[str, float, float], ...] = ()
    redrawn: float | None = None


@dataclass(frozen=True, eq=False)
class Meanings:
    """What sampled rows say of all p directions: columns X (n, d) and embedding Z (n, p)."""

    X: Floats
    Z: Floats
    correlations: Floats
    explained: Floats


def learn_meanings(facts: Explanation) -> Meanings:
    """Hold the directions of the embedding against the columns, once for all explained rows."""
    Z = np.asarray(dense(facts.sample.embedding), np.float64)
    X = np.asarray(dense(facts.terms.shown(facts.sample.values)), np.float64).reshape(len(Z), -1)
    return Meanings(X, Z, _correlations(X, Z), _explained(X, Z))


def describe_directions(
    facts: Explanation, row: int, meanings: Meanings | None = None
) -> tuple[Direction, ...]:
    """Split the margin of a row that was looked at closely; `Explanation.directions` is the way."""
    point = next((one for one in facts.points if one.row == row), None)
    if point is None:
        known = ", ".join(str(one.row) for one in facts.points)
        raise InputError(f"directions need a row that was explained ({known}), got {row}")
    if point.method != ATTRIBUTED:
        raise InputError(
            "directions are those of an encoder's embedding, which this model does not have; its "
            "columns themselves are in point.contributions"
        )
    own, other = (facts.clusters[j].center for j in (point.cluster, point.runner_up))
    amounts = split_margin(point.layer_row, own, other)
    meant = learn_meanings(facts) if meanings is None else meanings
    spread = meant.X.std(axis=0)
    order = np.argsort(-np.abs(amounts), kind="stable").tolist()
    return tuple(
        Direction(
            index=d,
            amount=float(amounts[d]),
            value=float(point.layer_row[d]),
            most=_ends(facts, meant.Z[:, d], largest=True),
            least=_ends(facts, meant.Z[:, d], largest=False),
            columns=_columns(facts, meant.correlations[:, d]),
            explained=float(meant.explained[d]),
            **_drawn(facts, point.strips, d, spread),
        )
        for d in order
    )


def _drawn(facts: Explanation, strips: Strips | None, d: int, spread: Floats) -> dict[str, Any]:
    """The decoder's side of one direction."""
    if strips is None:
        return {}
    shown = np.asarray(facts.terms.shown(strips.rows[d]), np.float64)
    change = shown[-1] - shown[0]
    apart = np.divide(change, spread, out=np.zeros_like(change), where=spread > 0)
    order = np.argsort(-np.abs(apart), kind="stable")[:N_NAMED]
    return {
        "entries": strips.entries[d],
        "strip": strips.rows[d],
        "moved": tuple(
            (facts.data.feature_names[f], float(shown[0, f]), float(shown[-1, f])) for f in order
        ),
        "redrawn": _redrawn(strips.entries[d], strips.found[d]),
    }


def _redrawn(meant: Floats, found: Floats) -> float:
    """Squared correlation of the entries that were meant and found; 0 where they part ways.

    Rows between clusters are rare, so that the encoder draws what lies there nearer to one of them:
    the size of a step is not kept, its order is.
    """
    if meant.std() == 0 or found.std() == 0:
        return 0.0
    return max(0.0, float(np.corrcoef(meant, found)[0, 1])) ** 2


def _ends(facts: Explanation, values: Floats, *, largest: bool) -> tuple[int, ...]:
    order = np.argsort(-values if largest else values, kind="stable")[:N_NAMED]
    return tuple(facts.sample.rows[order].tolist())


def _correlations(X: Floats, Z: Floats) -> Floats:
    """Correlation (d, p) of every column with every direction; 0 where one is constant."""
    X, Z = X - X.mean(axis=0), Z - Z.mean(axis=0)
    lengths = np.outer(np.linalg.norm(X, axis=0), np.linalg.norm(Z, axis=0))
    products = X.T @ Z
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)


def _columns(facts: Explanation, correlations: Floats) -> tuple[tuple[str, float], ...]:
    order = np.argsort(-np.abs(correlations), kind="stable")[:N_NAMED]
    return tuple((facts.data.feature_names[f], float(correlations[f])) for f in order)


def _explained(X: Floats, Z: Floats) -> Floats:
    """R² (p,) of a ridge regression on the columns, fitted to every other row; at least 0."""
    from sklearn.linear_model import Ridge

    spread = X.std(axis=0)
    scaled = np.divide(X - X.mean(axis=0), spread, out=np.zeros_like(X), where=spread > 0)
    learn, check = slice(0, None, 2), slice(1, None, 2)
    if len(X) < 4:
        return np.zeros(Z.shape[1])
    said = Ridge(alpha=float(X.shape[1])).fit(scaled[learn], Z[learn]).predict(scaled[check])
    missed = ((Z[check] - said.reshape(len(said), -1)) ** 2).sum(axis=0)
    total = ((Z[check] - Z[check].mean(axis=0)) ** 2).sum(axis=0)
    ratio = np.divide(missed, total, out=np.ones_like(missed), where=total > 0)
    return np.asarray(np.clip(1 - ratio, 0.0, 1.0))
