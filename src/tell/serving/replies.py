"""Answers as they are sent: JSON, or the columns of a label file as CSV or Arrow."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from tell.explanations.plain import as_plain
from tell.explanations.points import PointFacts
from tell.runtime.answers import Columns
from tell.serving.bodies import ARROW, CSV, JSON
from tell.serving.service import Json

_FAMILIES = ("probability", "distance")


def as_json(content: Any) -> bytes:
    """One JSON document; numbers that are not finite become null."""
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return json.dumps(as_plain(content), separators=(",", ":")).encode()


def labels_reply(columns: Columns, notes: list[str], accept: str) -> tuple[bytes, str]:
    """The answer to /predict and its content type, as the caller accepts it."""
    if ARROW in accept:
        return _arrow(columns), ARROW
    if CSV in accept:
        return _csv(columns), CSV
    content: Json = {
        name: values.tolist()
        for name, values in columns.items()
        if not name.startswith(tuple(f"{family}_" for family in _FAMILIES))
    }
    for family in _FAMILIES:
        parts = [values for name, values in columns.items() if name.startswith(f"{family}_")]
        if parts:
            content[family] = np.stack(parts, axis=1).astype(np.float64).tolist()
    if notes:
        content["warnings"] = notes
    return as_json(content), JSON


def _table(columns: Columns) -> Any:
    import pyarrow as pa

    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _arrow(columns: Columns) -> bytes:
    import pyarrow as pa

    table, sink = _table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _csv(columns: Columns) -> bytes:
    from pyarrow import csv

    file = io.BytesIO()
    csv.write_csv(_table(columns), file)
    return file.getvalue()


def reasons(point: PointFacts, numbers: list[int], names: dict[int, str], notes: list[str]) -> Json:
    """The answer to /explain; `numbers` are those of the clusters that still take rows."""
    found, own = point.counterfactual, numbers[point.cluster]
    attention, distances = (
        dict(zip(map(str, numbers), values.tolist(), strict=True))
        for values in (point.attention, point.squared_distances)
    )
    change: Json | None = None
    if found is not None:
        change = {
            "cluster": numbers[found.cluster],
            "distance": found.distance,
            "columns": [
                {"column": one.name, "from": one.text()[0], "to": one.text()[1]}
                for one in found.changes
            ],
        }
    return {
        "cluster": own,
        "name": names.get(own),
        "runner_up": numbers[point.runner_up],
        "margin": point.margin,
        "clearness": point.clearness,
        "method": point.method,
        "attention": attention,
        "squared_distances": distances,
        "contributions": [
            {"column": one.name, "value": one.value, "amount": one.amount, "filled": one.filled}
            for one in point.contributions
        ],
        "change": change,
        "summary": point.summary,
        **({"warnings": notes} if notes else {}),
    }
