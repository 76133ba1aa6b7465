"""What a stream did to a model, as a page shows it: the latest of it, in one file of the folder.

`tell update` and a service that learns write it at every save. It is a log, not part of the model:
whoever removes it loses nothing but the past on the page.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tell.files import write_whole
from tell.persistence import JOURNAL
from tell.runtime.unusual import Unusual, unusual_rows
from tell.schema import NUMBER, TEXT, TRUTH, check, list_of, number, optional, record, whole

MOST_POINTS = 400  # saves of which the sizes are kept; older ones are thinned out
MOST_NUMBERS = 40_000  # sizes in all
FEWEST_POINTS = 20
MOST_EVENTS = 100
MOST_ROWS = 20

_COUNT = whole(0, 1 << 53)
_SCHEMA = record(
    {
        "points": list_of(
            record({"at": number(0), "seen": number(0), "sizes": list_of(number(0))}), MOST_POINTS
        ),
        "events": list_of(
            record({"at": number(0), "seen": number(0), "kind": TEXT, "text": TEXT}), MOST_EVENTS
        ),
        "rows": list_of(
            record(
                {
                    "at": number(0),
                    "row": _COUNT,
                    "cluster": _COUNT,
                    "rejected": TRUTH,
                    "reason": TEXT,
                    "clearness": optional(NUMBER),
                }
            ),
            MOST_ROWS,
        ),
        "revived": number(0),
    }
)


def rows_seen(model: Any) -> int:
    """Rows that a model has learned from in all."""
    if (seen := getattr(model, "n_seen_", None)) is not None:
        return int(seen)
    sizes = model.describe().sizes
    return 0 if sizes is None else round(float(np.sum(sizes)))


class Journal:
    """The past of a stream: sizes over time, events, and rows that did not fit.

    Attributes
    ----------
    points : list of dict
        One per save, thinned out: when, rows seen, and rows behind each centre.
    events : list of dict
        The latest: drift, clusters born and retired, centres that were placed anew.
    rows : list of dict
        The latest rows that were rejected or lay at a boundary, and why.
    has_news : bool
        Whether an event came since it was written.
    """

    def __init__(self, content: dict[str, Any] | None = None) -> None:
        found = content or {}
        self.points: list[dict[str, Any]] = list(found.get("points", []))
        self.events: list[dict[str, Any]] = list(found.get("events", []))
        self.rows: list[dict[str, Any]] = list(found.get("rows", []))
        self._revived_until = float(found.get("revived", 0.0))
        self.has_news = False

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Self:
        """The journal of a model folder; an empty one where there is none that can be read."""
        try:
            content = json.loads((Path(folder) / JOURNAL).read_bytes())
            check(content, _SCHEMA, JOURNAL)
        except (OSError, ValueError, RecursionError):
            return cls()
        return cls(content)

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Put it into the folder; a log that cannot be written stops nobody."""
        content = {
            "points": self.points,
            "events": self.events,
            "rows": self.rows,
            "revived": self._revived_until,
        }
        with suppress(OSError):
            write_whole(Path(folder) / JOURNAL, json.dumps(content).encode())
            self.has_news = False

    def add_event(self, kind: str, text: str, seen: float) -> None:
        """Note what happened after so many rows."""
        self.events = [
            *self.events[1 - MOST_EVENTS :],
            {"at": _now(), "seen": float(seen), "kind": kind, "text": text},
        ]
        self.has_news = True

    def add_model(self, model: Any, latest: NDArray[Any] | None = None) -> None:
        """Note the sizes of a model that was saved, and what is unusual in the latest rows (n, d).

        The rows are those that it has learned last.
        """
        seen = rows_seen(model)
        self._add_sizes(model, seen)
        self._add_revivals(model)
        if latest is not None and len(latest):
            found = unusual_rows(model, latest)
            first = max(0, seen - len(latest))
            self.rows = [*self.rows, *(_row(one, first) for one in found)][-MOST_ROWS:]

    def _add_sizes(self, model: Any, seen: float) -> None:
        sizes = model.describe().sizes
        if sizes is None:
            return
        # Clusters may be born meanwhile; a model with fewer is another one.
        known = [p for p in self.points if p["seen"] < seen and len(p["sizes"]) <= len(sizes)]
        counts = [round(float(size), 3) for size in sizes]
        self.points = [*known, {"at": _now(), "seen": float(seen), "sizes": counts}]
        most = max(FEWEST_POINTS, min(MOST_POINTS, MOST_NUMBERS // len(counts)))
        if len(self.points) > most:
            self.points = [*self.points[:-1:2], self.points[-1]]

    def _add_revivals(self, model: Any) -> None:
        """Centres that got almost no rows and were placed on rows that were served worst."""
        for entry in getattr(model, "stream_", []):
            seen, revived = float(entry.get("seen", 0.0)), int(entry.get("revived", 0))
            if revived and seen > self._revived_until:
                clusters = "1 cluster" if revived == 1 else f"{revived} clusters"
                text = f"{clusters} with almost no rows retired; as many born where rows fit worst"
                self.add_event("born", text, seen)
            self._revived_until = max(self._revived_until, seen)


def _row(one: Unusual, first: int) -> dict[str, Any]:
    return {
        "at": _now(),
        "row": first + one.place,
        "cluster": one.cluster,
        "rejected": one.rejected,
        "reason": one.reason,
        "clearness": one.clearness,
    }


def _now() -> float:
    return round(time.time(), 1)
