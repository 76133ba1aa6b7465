"""What further rows do to a stream: when it is seeded, and what a step has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tell.core.online import StreamState

STREAM_HISTORY = 1024  # latest batches of which `stream_` tells
WARM_UP_ROWS = 8  # rows per cluster that a stream is seeded from
GROW_ROWS = 1000  # that a gathering of rows must last, if nobody says how many
AUTO_ROWS, AUTO_WARM_UP = 32, 16  # rows that a number is first chosen from; doublings: up to 512


def seeding_rows(n_clusters: int | str) -> list[int]:
    """After how many rows a stream is seeded, and again: 8 per cluster are enough, or 512.

    >>> seeding_rows(10)
    [10, 20, 40, 80]
    """
    auto = n_clusters == "auto"
    first = AUTO_ROWS if auto else int(n_clusters)
    doublings = (AUTO_WARM_UP if auto else WARM_UP_ROWS).bit_length()
    return [first << i for i in range(doublings)]


def growth_rows(grow: bool | int) -> float | None:
    """Rows after which clusters may be born; None if they may not."""
    if grow is False:
        return None
    return float(GROW_ROWS if grow is True else grow)


def in_parts(X: Any, weight: Any, most: float | None) -> Iterator[tuple[Any, Any]]:
    """No more rows at once than a gathering must last: a cluster may be born of some."""
    if most is None or X.shape[0] <= most:
        yield X, weight
        return
    for start in range(0, X.shape[0], int(most)):
        part = slice(start, start + int(most))
        yield X[part], None if weight is None else weight[part]


def growth_events(before: StreamState, after: StreamState) -> list[dict[str, Any]]:
    """What a step has changed: clusters that were born, and those that were retired."""
    seen = round(after.seen)
    born = [
        {"event": "born", "cluster": j, "seen": seen, "rows": round(float(after.memory.counts[j]))}
        for j in range(len(before.centers), len(after.centers))
    ]
    return born + [
        {"event": "retired", "cluster": j, "seen": seen} for j in _retired(after) - _retired(before)
    ]


def _retired(state: StreamState) -> set[int]:
    return set() if state.growth is None else set(state.growth.retired.nonzero()[:, 0].tolist())


def in_words(entry: Mapping[str, Any]) -> str:
    """One line for people.

    >>> in_words({"event": "born", "cluster": 3, "seen": 21500, "rows": 57})
    'cluster 3 was born after 21,500 rows, of 57 rows that no cluster would have'
    >>> in_words({"event": "retired", "cluster": 1, "seen": 40000})
    'cluster 1 was retired after 40,000 rows: none came to it any more; its number stays its own'
    """
    who = f"cluster {entry['cluster']} was {entry['event']} after {entry['seen']:,} rows"
    if entry["event"] == "born":
        return f"{who}, of {entry['rows']:,} rows that no cluster would have"
    return f"{who}: none came to it any more; its number stays its own"


def drift_in_words(record: Mapping[str, float], half_life: float | None) -> str:
    """What to do about rows that are served worse than those before."""
    return (
        f"the loss of recent rows is {record['running_loss']:.4g}, usual is "
        f"{record['baseline_loss']:.4g}: the data drifts from what the model learned; "
        f"{'set' if half_life is None else 'shorten'} half_life to follow it, or fit again"
    )
