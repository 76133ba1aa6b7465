"""What became of the clusters of an earlier model, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tell.contract import Record
from tell.explanations.words import counted, joined


@dataclass(frozen=True, eq=False)
class Ancestor:
    """The fate of one cluster since the model that `fit(X, like=...)` began with.

    Attributes
    ----------
    was, cluster : its number in the earlier model and in this one; None where it has none
    fate : "kept", "moved", "split", "merged", "died" or "born"
    rows_before, rows : of the fitted rows, how many the earlier model puts into it, and how many
        are in `cluster` now
    shared : of the first, the share that is in `cluster` now
    shift : how far its centre moved, in widths of the earlier cluster
    into : clusters with at least a quarter of its rows
    """

    was: int | None
    cluster: int | None
    fate: str
    rows_before: int | None
    rows: int | None
    shared: float | None
    shift: float | None
    into: tuple[int, ...]
    summary: str


def describe_lineage(lineage: Sequence[Record]) -> tuple[Ancestor, ...]:
    """The entries of `lineage_` as facts."""
    return tuple(_ancestor(dict(entry)) for entry in lineage)


def _ancestor(entry: Mapping[str, Any]) -> Ancestor:
    return Ancestor(
        was=entry["was"],
        cluster=entry["cluster"],
        fate=entry["fate"],
        rows_before=entry.get("rows_before"),
        rows=entry.get("rows"),
        shared=entry.get("shared"),
        shift=entry.get("shift"),
        into=tuple(entry.get("into", ())),
        summary=in_words(entry),
    )


def in_words(entry: Mapping[str, Any]) -> str:
    """One line for people.

    >>> in_words({"was": 3, "cluster": 3, "fate": "kept", "shared": 0.98, "shift": 0.05})
    'cluster 3 was kept: 98% of its rows are still together, its centre moved by 0.05 widths'
    >>> in_words({"was": None, "cluster": 4, "fate": "born", "rows": 120})
    'cluster 4 was born: 120 rows'
    >>> in_words({"was": 1, "cluster": 1, "fate": "split", "shared": 0.5, "into": [1, 4]})
    'cluster 1 was split into 1 and 4'
    """
    if entry["was"] is None:
        return f"cluster {entry['cluster']} was born: {counted(entry['rows'], 'row')}"
    if entry["cluster"] is None:
        return f"cluster {entry['was']} died: none of its rows came again"
    together = f"{entry['shared']:.0%} of its rows"
    if entry["fate"] == "split":
        return f"cluster {entry['was']} was split into {joined([str(j) for j in entry['into']])}"
    if entry["fate"] in ("merged", "died"):
        end = "was merged into" if entry["fate"] == "merged" else "died; most of its rows are in"
        return f"cluster {entry['was']} {end} {entry['cluster']}: {together}"
    verb = "was kept" if entry["fate"] == "kept" else "moved"
    return (
        f"cluster {entry['was']} {verb}: {together} are still together, its centre moved by "
        f"{entry['shift']:.2g} widths"
    )
