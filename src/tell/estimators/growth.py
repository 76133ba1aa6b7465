"""Clusters of a stream that were born and retired, for people and for what counts places."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from tell.contract import NAMES, cluster_names
from tell.core.online import StreamState

if TYPE_CHECKING:
    from tell.estimators.tell import TELL


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


def without_retired(model: TELL, live: Tensor) -> TELL:
    """A copy with the clusters at these places alone, called by the numbers that they had."""
    numbers, names = live.tolist(), cluster_names(model)
    slim = copy.copy(model)
    slim._state = model._state.only(live)
    place = np.full(model.n_clusters_, -1, np.int32)
    place[numbers] = np.arange(len(numbers))
    slim.labels_ = np.where(model.labels_ < 0, model.labels_, place[model.labels_])
    called = {str(i): names.get(j, f"cluster {j}") for i, j in enumerate(numbers)}
    slim.metadata_ = dict(getattr(model, "metadata_", None) or {}) | {NAMES: called}
    return slim
