"""What a model answers about rows: clusters, their names, attention and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tell.contract import TakesSources, cluster_names
from tell.data.arrays import ArraySource

#: Column name → values of shape (rows,), the same names for every chunk.
Columns = dict[str, NDArray[Any]]


def assignments(
    model: Any,
    X: NDArray[np.float32],
    *,
    proba: bool,
    distances: bool,
    reject: float | None = None,
) -> Columns:
    """The columns of the label file for these rows; rows with gaps get -1 and NaN.

    Clusters that people have named are called so, too.
    """
    whole = ~np.isnan(X).any(axis=1)
    rows = _askable(model, X if whole.all() else X[whole])
    columns: Columns = {"cluster": np.full(len(X), -1, dtype=np.int32)}
    if whole.any():
        more = {} if reject is None else {"reject": reject}
        columns["cluster"][whole] = model.predict(rows, **more)
    if names := cluster_names(model):
        called = [names.get(cluster, "") for cluster in columns["cluster"].tolist()]
        columns["cluster_name"] = np.array(called, dtype=object).astype(str)
    for name, wanted, answer in (
        ("probability", proba, "predict_proba"),
        ("distance", distances, "transform"),
    ):
        if wanted:
            values = np.full((len(X), len(model.cluster_centers_)), np.nan, dtype=np.float32)
            if whole.any():
                values[whole] = getattr(model, answer)(rows)
            columns |= {f"{name}_{cluster}": column for cluster, column in enumerate(values.T)}
    return columns


def _askable(model: Any, X: NDArray[Any]) -> Any:
    """Checked rows for a model: ours take them as a source, which spares looking at them again."""
    return ArraySource(X) if isinstance(model, TakesSources) and len(X) else X
