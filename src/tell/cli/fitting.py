"""From options to a fitted, assessed and saved model."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from tell.cli.cluster_table import Assessment, assess, describe
from tell.data.chunks import Source
from tell.data.preparation import Preparation
from tell.exceptions import ParameterError

# Columns are compared on the first rows; only a difference of this size is worth a word.
SAMPLE_ROWS = 10_000
MUCH_WIDER = 30


def build(
    clusters: int,
    *,
    deep: bool = False,
    geometry: str = "sphere",
    standardize: bool = False,
    n_init: int | None = None,
    half_life: float | None = None,
    seed: int,
    visible: bool,
) -> Any:
    """Make the estimator that the options describe; what is None is left to the estimator."""
    from tell import estimators

    shared: dict[str, Any] = {"random_state": seed, "verbose": int(visible)}
    if n_init is not None:
        shared["n_init"] = n_init
    if not deep:
        shared |= {"geometry": geometry, "standardize": standardize, "half_life": half_life}
        return estimators.TELL(clusters, **shared)
    if standardize or half_life is not None or geometry != "sphere":
        raise ParameterError(
            "--deep learns its own features and clusters them on the sphere; leave out "
            "--standardize, --geometry and --half-life"
        )
    return estimators.DeepTELL(clusters, **shared)


def fit_and_save(
    model: Any,
    source: Source,
    folder: Path,
    *,
    label: str | None = None,
    preparation: Preparation | None = None,
    choice: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Fit, hold the model against its rows, save it, and say all that came out as data."""
    started = time.perf_counter()
    if hasattr(model, "encoder"):
        # Deep models tell images from tables by their shape.
        model.fit(source.read().X.reshape(-1, *source.shape))
    else:
        model.fit(source)
    seconds = time.perf_counter() - started
    found = assess(model, source.chunks())
    result = _summary(model, found) | {
        "seconds": round(seconds, 3),
        "data": source.name,
        "model": str(folder),
    }
    # What later commands need: how rows were read, how many there were, how near they lie.
    kept = {
        "data": source.name,
        "label": label,
        "features": source.feature_names,
        "choice": choice,
        "preparation": None if preparation is None else preparation.to_json(),
        "rows_seen": result["rows"],
        "spread": found.spread.tolist(),
        "metrics": result["metrics"],
    }
    model.save(folder, metadata=kept)
    return result


def advice(source: Source) -> str | None:
    """Warn of a column that is so much wider than another that it decides alone."""
    if source.feature_names is None:
        return None
    widths = source.read(SAMPLE_ROWS).X.std(axis=0)
    widest, narrowest = int(widths.argmax()), int(np.where(widths > 0, widths, np.inf).argmin())
    if not widths[widest] > MUCH_WIDER * widths[narrowest] > 0:
        return None
    name = source.feature_names[widest]
    remedy = "--standardize gives all columns the same weight"
    if not name:
        remedy = "it looks like the numbers of the rows: --drop '' leaves it out"
    return (
        f"note: column {name!r} spreads {widths[widest] / widths[narrowest]:,.0f} times as wide as "
        f"{source.feature_names[narrowest]!r} and decides almost alone; {remedy}"
    )


def _summary(model: Any, found: Assessment) -> dict[str, Any]:
    return {
        "kind": type(model).__name__,
        "rows": len(found.labels),
        "features": int(model.n_features_in_),
        "n_clusters": len(model.cluster_centers_),
        "geometry": getattr(model, "geometry", "sphere"),
        "seed": model.random_state,
        "loss": float(model.loss_),
        "iterations": int(model.n_iter_),
        "metrics": found.metrics(),
        "clusters": describe(model, found.sizes, found.spread),
    }
