"""How good the optima are that `TELL` finds: against scikit-learn's `KMeans`, seed by seed.

Both get the same rows and restarts and are judged by one loss per row: on the sphere 2 − 2 cos to
the nearest centre on unit vectors, else the squared distance. No timing here.

    python benchmarks/shallow_quality.py --seeds 20
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.preprocessing import normalize

from recording import record
from tell import TELL
from tell.data.datasets import load
from tell.exceptions import DataUnavailableError

RESTARTS = 3


def data_sets() -> dict[str, tuple[np.ndarray, int]]:
    """Return rows and number of clusters by name; MNIST where it is on this machine."""
    found = {"digits": (load_digits(return_X_y=True)[0], 10)}
    for k in (10, 50, 100):
        X, _ = make_blobs(20_000, 32, centers=k, cluster_std=6.0, random_state=k)
        found[f"blobs, k={k}"] = (X, k)
    try:
        pixels = load("mnist", download=False).X.reshape(70_000, -1)
        found["MNIST pixels"] = (pixels.astype(np.float32) / 255, 10)
    except DataUnavailableError:
        pass
    return found


def loss(X: np.ndarray, centers: np.ndarray, geometry: str) -> float:
    """Return the mean squared distance to the nearest centre."""
    if geometry == "sphere":
        centers = normalize(centers)
    total = 0.0
    for at in range(0, len(X), 4096):
        rows = X[at : at + 4096]
        distances = (rows**2).sum(1)[:, None] - 2 * rows @ centers.T + (centers**2).sum(1)
        total += float(distances.min(axis=1).sum(dtype=np.float64))
    return total / len(X)


def compare(X: np.ndarray, k: int, geometry: str, seeds: int) -> dict[str, Any]:
    """Return the losses of both over the seeds, and our mean against their best."""
    X = np.ascontiguousarray(normalize(X) if geometry == "sphere" else X, dtype=np.float32)
    ours, theirs = [], []
    for seed in range(seeds):
        model = TELL(k, geometry=geometry, n_init=RESTARTS, random_state=seed).fit(X)
        ours.append(loss(X, model.cluster_centers_, geometry))
        peer = KMeans(k, n_init=RESTARTS, random_state=seed).fit(X)
        theirs.append(loss(X, peer.cluster_centers_, geometry))
    return {
        "tell_mean": statistics.mean(ours),
        "tell_worst": max(ours),
        "kmeans_best": min(theirs),
        "kmeans_mean": statistics.mean(theirs),
        "mean_above_their_best_percent": 100 * (statistics.mean(ours) / min(theirs) - 1),
        "seeds": seeds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--mnist-seeds", type=int, default=5)
    options = parser.parse_args()
    began = time.perf_counter()
    results: dict[str, Any] = {}
    for name, (X, k) in data_sets().items():
        for geometry in ("sphere", "euclidean"):
            seeds = options.mnist_seeds if name.startswith("MNIST") else options.seeds
            found = compare(X, k, geometry, seeds)
            results[f"{name}, {geometry}"] = found
            print(
                f"{name}, {geometry}: {found['mean_above_their_best_percent']:+.3f} %", flush=True
            )
    settings = {"n_init": RESTARTS, "seeds": options.seeds, "mnist_seeds": options.mnist_seeds}
    record("shallow_quality", settings, results, began=began)


if __name__ == "__main__":
    main()
