"""What may stand in the folder of a `TELL`: the rules for its description and its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.schema import (
    ANYTHING,
    NUMBER,
    OBJECT,
    TEXT,
    TRUTH,
    either,
    list_of,
    mapping_of,
    number,
    optional,
    record,
    whole,
)

Arrays = Mapping[str, NDArray[Any]]

PLAIN = (
    "loss_",
    "n_iter_",
    "history_",
    "runs_",
    "stream_",
    "metadata_",
    "n_features_in_",
    "lineage_",
    "growth_",
)
_COUNT = whole(0, 1 << 53)
_LINES = list_of(OBJECT)
_LEARNED = {
    "loss_": NUMBER,
    "n_iter_": _COUNT,
    "history_": _LINES,
    "runs_": _LINES,
    "stream_": list_of(mapping_of(NUMBER)),
    "metadata_": ANYTHING,
    "lineage_": _LINES,
    "growth_": _LINES,
    "n_features_in_": whole(1, 1 << 53),
    "feature_names_in_": list_of(TEXT),
}
_LATER = ("metadata_", "feature_names_in_", "lineage_", "growth_")
GROWTH = ("rows", "weights", "when", "last", "retired")  # tensors of `Growth`
_WATCH = {
    **dict.fromkeys(("rows", "squares", "watched"), number(0)),
    **dict.fromkeys(("mean", "running"), NUMBER),
}
_OPTIONS = {
    "init": either(TEXT, list_of(list_of(NUMBER))),
    "random_state": optional(whole(0, (1 << 32) - 1)),
    "standardize": either(TRUTH, NUMBER),
    "verbose": either(TRUTH, NUMBER),
}
# What `describe` writes; the other options are checked as those of a user are.
SCHEMA = record(
    {
        "options": record(_OPTIONS, others=ANYTHING),
        "learned": record(_LEARNED, may_lack=_LATER),
        "seed": optional(whole(0, (1 << 32) - 1)),
        "usual_loss": NUMBER,
        "seen": number(0),
        "revived_at": number(0),
        "looked_at": optional(number(0)),
        "watch": record({**_WATCH, "drifting": TRUTH, "fitted": TRUTH}),
    },
    may_lack=("usual_loss", "looked_at"),
    others=ANYTHING,
)


def check_arrays(arrays: Arrays, k: int, d: int) -> None:
    """Check type and shape of what every later step relies on."""
    check_floats(arrays, {"centers": (k, d), "sums": (k, d), "counts": (k,), "lengths": (k,)})
    check_floats(arrays, {name: (d,) for name in ("offset", "scale") if name in arrays})
    if "growth.when" in arrays:
        _check_growth(arrays, k, d)
    labels = arrays["labels"]
    if labels.ndim != 1 or labels.dtype != np.int32:
        raise ValueError(f"labels must be int32 of shape (n,), got {labels.dtype}")
    if len(labels) and not -1 <= int(labels.min()) <= int(labels.max()) < k:
        raise ValueError(f"labels must lie between -1 and {k - 1}")


def check_floats(arrays: Arrays, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that these are there, numbers, and of their shapes."""
    for name, shape in shapes.items():
        found = arrays[name]
        if found.shape != shape or found.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"{name} must be floats of shape {shape}, got {found.dtype}{found.shape}"
            )


def _check_growth(arrays: Arrays, k: int, d: int) -> None:
    """Check the rows that wait outside of a stream."""
    m = len(arrays["growth.when"])
    shapes = {"rows": (m, d), "weights": (m,), "when": (m,), "last": (k,), "retired": (k,)}
    for name, shape in shapes.items():
        found = arrays[f"growth.{name}"]
        if found.shape != shape or (found.dtype == np.bool_) != (name == "retired"):
            raise ValueError(f"growth.{name} must have shape {shape}, got {found.shape}")
        if not np.isfinite(found).all():
            raise ValueError(f"growth.{name} must be finite")
    if arrays["growth.retired"].all():
        raise ValueError("growth.retired must leave a cluster")
