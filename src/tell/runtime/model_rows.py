"""Rows for a fitted model: its columns, by name and in its order, prepared as it learned them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tell.exceptions import InputError
from tell.schema import (
    NUMBER,
    OBJECT,
    TEXT,
    TRUTH,
    list_of,
    mapping_of,
    optional,
    record,
    rule,
    whole,
)

if TYPE_CHECKING:
    from tell.data.chunks import Source

# What the command itself writes into a model's metadata, and reads again.
_ROWS = whole(0, 1 << 53)
_COLUMN = list_of(optional(NUMBER))
_MEMBERS = record(
    {
        **dict.fromkeys(("mean", "deviation"), list_of(_COLUMN)),
        **dict.fromkeys(("mean_of_all", "deviation_of_all"), _COLUMN),
        "features": optional(list_of(TEXT)),
        "kinds": list_of(TEXT),
        "readable": list_of(TRUTH),
    }
)


def _fit_together(members: Any) -> bool:
    """Whether all statistics of the members are about the same columns."""
    if next(_MEMBERS.misfits("", members), None) is not None:
        return False
    rows = [*members["mean"], *members["deviation"], *(members[name] for name in members
            if name not in ("mean", "deviation") and members[name] is not None)]  # fmt: skip
    return len({len(row) for row in rows}) == 1


_NOTES = {
    "members": optional(rule("statistics of the members", _fit_together)),
    "data": optional(TEXT),
    "label": optional(TEXT),
    "rows_seen": optional(_ROWS),
    "preparation": optional(OBJECT),
    "metrics": optional(mapping_of(NUMBER)),
    "spread": optional(list_of(optional(NUMBER))),
    "choice": optional(OBJECT),
    "update": optional(record({"data": TEXT, "rows": _ROWS, "finished": TRUTH})),
    "unfinished": optional(mapping_of(_ROWS)),
}


def open_like(
    model: Any,
    data: str,
    *,
    label: str | None = None,
    keep_gaps: bool = False,
    chunk_rows: int = 65536,
    memory: str | None = None,
) -> Source:
    """Open rows for a fitted model: its columns, by name and in its order, prepared its way.

    `memory` bounds what a chunk takes, with all that is computed for its rows.
    """
    from tell.data.prepared_tables import open_prepared
    from tell.data.sources import open_source

    if memory is not None:
        chunk_rows = min(chunk_rows, _rows_within(memory, model))
    preparation = getattr(model, "preparation_", None)
    if preparation is not None:
        return open_prepared(
            data, preparation, keep_gaps=keep_gaps, label=label, chunk_rows=chunk_rows
        )
    columns, image_size = feature_names(model), kept(model).get("image_size")
    if columns is None:  # of an array: they are asked for by number, as in the fit
        choice = kept(model).get("choice") or {}
    else:
        choice = {"columns": columns, "by_name": True}
    source = open_source(data, **choice, label=label, chunk_rows=chunk_rows, image_size=image_size)
    if source.n_features != model.n_features_in_:
        raise InputError(
            f"{source.name}: the model needs {model.n_features_in_} columns, got "
            f"{source.n_features}; give the columns it was fitted with"
        )
    return source


def feature_names(model: object) -> list[str] | None:
    """The names of the model's features, if its data had names."""
    found = getattr(model, "feature_names_in_", kept(model).get("features"))
    return None if found is None else [str(name) for name in found]


def kept(model: object) -> dict[str, Any]:
    """What the command noted in the model; nothing if it was saved from Python.

    A note of somebody else's under the same name is not taken for the command's own.
    """
    found = getattr(model, "metadata_", None)
    notes = dict(found) if isinstance(found, dict) else {}
    fits = {name: rule for name, rule in _NOTES.items() if name in notes}
    return {
        name: value
        for name, value in notes.items()
        if name not in fits or next(fits[name].misfits(name, value), None) is None
    }


def _rows_within(memory: str, model: Any) -> int:
    """Rows of a chunk that takes a quarter of `memory`, its distances and shares included."""
    from tell.data.limits import as_bytes

    per_row = 32 * model.n_features_in_ + 64 * len(model.cluster_centers_)
    return max(1, as_bytes(memory) // (4 * per_row))
