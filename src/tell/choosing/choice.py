"""One rule that turns the evidence into a number of clusters, a runner-up and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tell.choosing.evidence import (
    MAX_ROWS,
    ROWS_PER_CLUSTER,
    Evidence,
    Sampled,
    gather,
    largest_number,
    sample,
)
from tell.contract import Floats, Ints
from tell.core.assignment import Rows
from tell.core.layer import Geometry

#: A number is considered if its clusters are tighter than those of structureless rows by this much.
LEAST_GAP = 0.05
#: Every cluster of it comes out again: prediction strength. A group cut in two has about 0.5.
CLEAR_STRENGTH = 0.7
#: Of such numbers those compete whose gap is at least this part of the largest: a small group
#: lowers the loss of all rows by little.
NEAR_THE_LARGEST = 0.8
#: The partition as a whole comes out again: adjusted Rand index.
LEAST_STABILITY = 0.5
#: Smaller clusters are outliers: in shares of a fair share of the rows, and in rows.
LEAST_SHARE, LEAST_MEMBERS = 0.05, 3
#: Outliers that take one of so few clusters for themselves may hide groups.
FEW_CLUSTERS = 5
#: The range is tried up to here first, and doubled while the gap still rises this much in its
#: upper half.
FIRST_RANGE, RISE = 20, 0.17
#: Where doubling ends.
MOST_CLUSTERS = 160
#: Fewer rows show no structure.
LEAST_ROWS = 20

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Choice:
    """How many clusters, and what speaks for it.

    Attributes
    ----------
    n_clusters : the recommended number; 1 if no cluster structure was found
    runner_up : the next best number, where there is one
    reasons : the same in words
    evidence : what was measured for every number that was tried
    """

    n_clusters: int
    runner_up: int | None
    reasons: str
    evidence: Evidence

    def __str__(self) -> str:
        return self.reasons

    def table(self) -> list[dict[str, float]]:
        """The evidence as one record per number of clusters."""
        columns = {
            f.name: getattr(self.evidence, f.name) for f in fields(Evidence) if f.name != "n_rows"
        }
        return [
            {name: values[i].item() for name, values in columns.items()}
            for i in range(len(self.evidence.n_clusters))
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything as plain numbers, lists and texts."""
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in asdict(self.evidence).items()
        }
        return {
            "n_clusters": self.n_clusters,
            "runner_up": self.runner_up,
            "reasons": self.reasons,
            "evidence": plain,
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> Self:
        """What `to_json` gave."""
        kept: dict[str, Any] = {
            name: np.asarray(value) if isinstance(value, list) else value
            for name, value in content["evidence"].items()
        }
        evidence = Evidence(**kept)
        return cls(content["n_clusters"], content["runner_up"], content["reasons"], evidence)


def choose_rows(
    rows: Rows,
    geometry: Geometry,
    *,
    max_clusters: int | None = None,
    trim: float = 0.0,
    seed: int = 0,
    categories: Sequence[Ints] = (),
    report: Callable[[int], None] = lambda tried: None,
) -> Choice:
    """Choose the number of clusters of rows as they are clustered.

    Without `max_clusters` the range is doubled while more clusters still pay; `report` hears how
    far it has come. `trim` is the share of the rows, those farthest from all others, that has no
    say.
    """
    largest = max_clusters or FIRST_RANGE
    while True:
        size = max(MAX_ROWS, ROWS_PER_CLUSTER * largest)
        looked_at = sample(rows, geometry, size, seed, categories).trimmed(trim)
        n = len(looked_at.values)
        range_end = largest_number(n, largest)
        if n < LEAST_ROWS or range_end == 1 or not np.ptp(looked_at.values, axis=0).any():
            return _nothing_to_choose(looked_at)
        evidence = gather(looked_at, range_end, seed)
        report(range_end)
        if max_clusters or range_end < largest or not _still_rising(evidence):
            return decide(evidence)
        if largest >= MOST_CLUSTERS:
            return decide(evidence)
        largest = min(2 * largest, MOST_CLUSTERS)


def _nothing_to_choose(rows: Sampled) -> Choice:
    """Too few rows, or all of them alike."""
    n = len(rows.values)
    alike = n >= LEAST_ROWS
    why = "all rows are alike" if alike else f"{n} rows are too few to tell groups from chance"
    one, nothing = np.ones(1), np.zeros(1)
    curves = {f.name: nothing for f in fields(Evidence)} | {"stability": one, "strength": one}
    known = {"n_clusters": np.ones(1, np.int64), "smallest": one, "n_rows": n}
    evidence = Evidence(**curves | known)  # type: ignore[arg-type] # an array each, and a number
    return Choice(1, None, f"No cluster structure found (k = 1): {why}.", evidence)


def _still_rising(evidence: Evidence) -> bool:
    """Whether more clusters than were tried may be better."""
    gap, m = evidence.gap, len(evidence.gap)
    rise = float(gap[-1] - gap[m // 2 - 1])
    return rise > RISE and int(gap.argmax()) >= 3 * m // 4 - 1


def decide(evidence: Evidence) -> Choice:
    """The rule.

    1. Considered are numbers whose clusters are tighter than those of structureless rows (the gap
       less its error is at least 0.05), and none of whose clusters is a handful of outliers. If
       there are none, the answer is 1.
    2. Of those whose every cluster comes out again from another half of the rows (strength at least
       0.7), the largest number whose gap is at least 0.8 of the largest gap among them.
    3. If there are none of these: the one with the largest product of stability and silhouette,
       among those with a stability of at least 0.5. If there are none, the answer is 1.
    """
    ks = evidence.n_clusters
    considered = (evidence.gap - evidence.gap_error >= LEAST_GAP) & (ks > 1)
    considered &= (evidence.smallest >= LEAST_SHARE) & (_members(evidence) >= LEAST_MEMBERS)
    if not considered.any():
        return Choice(1, None, _no_gap(evidence), evidence)
    clear = considered & (evidence.strength >= CLEAR_STRENGTH)
    stable = considered & (evidence.stability >= LEAST_STABILITY)
    by_product = evidence.stability * np.maximum(evidence.silhouette, 0)
    if clear.any():
        clear &= evidence.gap >= NEAR_THE_LARGEST * evidence.gap[clear].max()
        first, second = _best_two(clear, ks.astype(np.float64))
        if second is None:
            rest = stable & (ks != ks[first])
            second = _best_two(rest, by_product)[0] if rest.any() else None
        return _chosen(evidence, first, second, clear=True)
    if not stable.any():
        return Choice(1, None, _unstable(evidence, considered), evidence)
    return _chosen(evidence, *_best_two(stable, by_product), clear=False)


def _members(evidence: Evidence) -> Floats:
    """Rows of the smallest cluster: (m,)."""
    return np.round(evidence.smallest * evidence.n_rows / evidence.n_clusters)


def _best_two(among: Mask, score: Floats) -> tuple[int, int | None]:
    """Positions of the largest score and the next, among some."""
    order = np.argsort(-np.where(among, score, -np.inf), kind="stable")
    return int(order[0]), int(order[1]) if int(among.sum()) > 1 else None


def _chosen(evidence: Evidence, first: int, second: int | None, *, clear: bool) -> Choice:
    k = int(evidence.n_clusters[first])
    runner_up = None if second is None else int(evidence.n_clusters[second])
    tighter = f"{1 - np.exp(-evidence.gap[first]):.0%}"
    text = (
        f"{k} clusters: they are {tighter} tighter than those of structureless rows of the same "
        "covariance"
    )
    if clear:
        text += (
            ", and each comes out again from another half of the rows "
            f"(strength {evidence.strength[first]:.2f})."
        )
    else:
        text += (
            "; no number gives clusters that all come out again from another half of the rows, but "
            f"this one holds best (stability {evidence.stability[first]:.2f}, silhouette "
            f"{evidence.silhouette[first]:.2f})."
        )
    if runner_up is not None:
        text += f" Next best: {runner_up}."
    if _still_rising(evidence):
        text += (
            f" More than {int(evidence.n_clusters[-1])} clusters may be better still: raise "
            "max_clusters (--max)."
        )
    return Choice(k, runner_up, text, evidence)


def _no_gap(evidence: Evidence) -> str:
    best = float(evidence.gap[1:].max()) if len(evidence.gap) > 1 else 0.0
    if best < LEAST_GAP:
        why = "structureless rows of the same covariance give clusters as tight"
    else:
        why = "what is tighter than in structureless rows are only a few outliers"
    text = f"No cluster structure found (k = 1): {why}."
    if _members(evidence)[1:FEW_CLUSTERS].min(initial=LEAST_MEMBERS) < LEAST_MEMBERS:
        text += (
            " Rows that lie far from all others take clusters for themselves and may hide groups: "
            "trim=0.01 (--trim 1%) leaves such rows out."
        )
    return text


def _unstable(evidence: Evidence, considered: Mask) -> str:
    best = float(evidence.stability[considered].max())
    return (
        "No cluster structure found (k = 1): no division comes out again from another half of the "
        f"rows (stability at most {best:.2f})."
    )
