"""What is worth knowing about each cluster, as a table for people and as data for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tell.cli.console import out, plain, say, table

if TYPE_CHECKING:
    from tell.contract import ClusterModel, Floats, Ints, Reals
    from tell.data.chunks import Chunk
    from tell.explanations.terms import Terms

    Labels = NDArray[np.generic]
    #: What is known of one cluster, by name.
    Entry = dict[str, float | str | None]

MOST_SHOWN = 20


@dataclass(frozen=True)
class Assessment:
    """A model held against rows.

    Attributes
    ----------
    sizes : ndarray of shape (k,)
    spread : ndarray of shape (k,)
        Mean squared distance of the members to their centre; NaN for an empty cluster.
    labels : ndarray of shape (n,)
    y : ndarray of shape (n,) or None
    """

    sizes: Ints
    spread: Floats
    labels: NDArray[np.int32]
    y: Labels | None

    def metrics(self) -> dict[str, float] | None:
        """Score the labels of the rows whose class is known."""
        from tell.metrics import evaluate, has_class

        if self.y is None or not (known := has_class(self.y)).any():
            return None
        if not known.all():
            say(f"{int((~known).sum()):,} rows without a label are not scored")
        return evaluate(self.y[known], self.labels[known]).as_dict()


#: Wider rows are no table that people read, and more rows take long to read again: nothing is
#: noted of the members' columns then.
MOST_COLUMNS, MOST_ROWS = 1000, 1_000_000


def member_statistics(
    labels: NDArray[np.integer], k: int, chunks: Iterable[Chunk], terms: Terms
) -> dict[str, Any] | None:
    """What the members look like: mean and standard deviation (k, d) of the values that are there.

    In the units of the table; None where all members of a cluster have a gap. The same of all rows
    (d,) stands beside them.
    """
    from tell.explanations.matrices import cluster_sums

    sums: Floats | None = None
    squares = counts = np.zeros((0, 0))
    shift = np.zeros(0)
    start = 0
    for chunk in chunks:
        own = labels[start : start + len(chunk)]
        start += len(chunk)
        values = np.asarray(terms.shown(chunk.X))
        if sums is None:
            shift = values.mean(axis=0, dtype=np.float64)
            sums, squares, counts = (np.zeros((k, len(shift))) for _ in range(3))
        real = np.ones(values.shape) if chunk.filled is None else 1.0 - chunk.filled
        part = cluster_sums(np.where(real, values, shift), own, k, shift)
        sums, squares = sums + part[0], squares + part[1]
        counts = counts + cluster_sums(real, own, k, np.zeros(len(shift)))[0]
    if sums is None:
        return None
    everyone = (part.sum(axis=0, keepdims=True) for part in (sums, squares, counts))
    means, deviations = _moments(sums, squares, counts)
    mean_of_all, deviation_of_all = _moments(*everyone)
    return {
        "mean": _or_none(shift + means),
        "deviation": _or_none(deviations),
        "mean_of_all": _or_none(shift + mean_of_all)[0],
        "deviation_of_all": _or_none(deviation_of_all)[0],
    }


def _moments(sums: Floats, squares: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation; NaN where nothing was counted."""
    with np.errstate(invalid="ignore"):
        mean = sums / counts
        return mean, np.sqrt(np.maximum(squares / counts - mean**2, 0.0))


def _or_none(values: Floats) -> list[list[float | None]]:
    """As JSON has it, which knows no NaN."""
    return [[None if value != value else value for value in row] for row in values.tolist()]


def describe(model: ClusterModel, sizes: Reals | Ints, spread: Floats | None) -> list[Entry]:
    """One entry per cluster: size, share, how near its members are, and the cluster next to it."""
    from tell.contract import cluster_names, squared_distances

    geometry, centers = model.describe().geometry, model.cluster_centers_
    sphere = geometry == "sphere"
    gaps = np.sqrt(squared_distances(centers, centers, geometry))
    np.fill_diagonal(gaps, np.inf)
    names = cluster_names(model)
    # Rows that count less than one, by weight or by a stream's forgetting, have no number.
    counted = "weight" if np.any(np.asarray(sizes) % 1) else "size"
    entries: list[Entry] = []
    for cluster, size in enumerate(sizes):
        nearest = int(gaps[cluster].argmin()) if len(centers) > 1 else None
        gap = None if nearest is None else float(gaps[cluster, nearest])
        near = None if spread is None else float(spread[cluster])
        entries.append(
            {
                "cluster": cluster,
                **({"name": names.get(cluster)} if names else {}),
                counted: float(size) if counted == "weight" else int(size),
                "share": float(size / max(float(np.sum(sizes)), 1.0)),
                **({} if near is None else _nearness(near, sphere)),
                "nearest": nearest,
                **_gap(gap, sphere),
            }
        )
    return entries


def _nearness(spread: float, sphere: bool) -> dict[str, float]:
    # For unit vectors |x - c|² = 2 - 2 cos, so the mean cosine follows from the mean loss.
    return {"cohesion": 1 - spread / 2} if sphere else {"spread": float(np.sqrt(spread))}


def _gap(gap: float | None, sphere: bool) -> dict[str, float | None]:
    if not sphere:
        return {"distance": gap}
    if gap is None:
        return {"angle": None}
    return {"angle": float(np.degrees(2 * np.arcsin(min(gap / 2, 1.0))))}


def print_clusters(entries: Sequence[Entry]) -> None:
    """Print the table of clusters; of very many, the largest."""
    shown = entries
    if len(entries) > MOST_SHOWN:
        largest = sorted(entries, key=lambda entry: -_number(entry, "share"))[:MOST_SHOWN]
        shown = sorted(largest, key=lambda entry: _number(entry, "cluster"))
    grid = table(*shown[0], text=("name",))
    for entry in shown:
        grid.add_row(*(_cell(name, value) for name, value in entry.items()))
    out.print(grid)
    if len(shown) < len(entries):
        out.print(f"… the {MOST_SHOWN} largest of {len(entries):,} clusters; --json lists all")


def _number(entry: Entry, name: str) -> float:
    value = entry[name]
    return 0.0 if value is None or isinstance(value, str) else value


def _cell(name: str, value: float | str | None) -> str:
    from rich.markup import escape

    if value is None or value != value:
        return "–"
    if isinstance(value, str):
        return escape(plain(value))
    if name == "share":
        return f"{value:.1%}"
    if name == "weight":
        return f"{value:,.1f}"
    if name == "angle":
        return f"{value:.1f}°"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def print_metrics(scores: dict[str, dict[str, float]]) -> None:
    """Print the scores of one or more methods, side by side."""
    grid = table("", *scores, text=("",))
    for metric in next(iter(scores.values())):
        name = metric.upper() if len(metric) == 3 else metric.replace("_", "-")
        grid.add_row(name, *(f"{method[metric]:.3f}" for method in scores.values()))
    out.print(grid)
