"""A pass of dask-ml's KMeans over a Parquet file; run by the Python of an environment that has it.

python benchmarks/dask_passes.py rows.parquet start.npy 2
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import dask
import dask.dataframe as dd
import dask_ml
import numpy as np
from dask_ml.cluster import KMeans

FEW, MORE = 1, 4  # steps of two fits, whose difference is steps alone


def fit(path: str, start: np.ndarray, steps: int) -> tuple[float, Any]:
    """Return the seconds of a fit and the model."""
    began = time.perf_counter()
    X = dd.read_parquet(path).to_dask_array(lengths=True)
    model = KMeans(len(start), init=start, max_iter=steps, tol=0).fit(X)
    return time.perf_counter() - began, model


def main() -> None:
    """Print the seconds of a pass and the loss as JSON."""
    path, start, workers = sys.argv[1], np.load(sys.argv[2]), int(sys.argv[3])
    with dask.config.set(scheduler="threads", num_workers=workers):
        few, _ = fit(path, start, FEW)
        more, model = fit(path, start, MORE)
    found = {
        "pass": (more - few) / (MORE - FEW),
        "loss": float(model.inertia_) / len(model.labels_),
        "steps": int(model.n_iter_),
        "version": dask_ml.__version__,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
