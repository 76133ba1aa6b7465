"""Who follows clusters that move? A slow rotation, one abrupt swap, and one more cluster.

Every method starts from the same centres (k-means on the first rows) and then meets the stream in
batches of 100. Before it learns a batch its excess loss is measured: the mean squared distance to
its nearest centre, less that to the true centres of that moment. Zero is perfect tracking. In the
third stream a fourth cluster appears at half time: there TELL may grow.

    python benchmarks/drift.py --figure docs/figures/drift.svg
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from river import cluster
from sklearn.cluster import KMeans, MiniBatchKMeans

from recording import record
from tell import TELL
from tell.data.synthetic import Stream, make_stream
from tell.exceptions import DriftWarning, GrowthWarning

CLUSTERS = {"rotating": 5, "swap": 5, "arrival": 3}
START_ROWS = 1000
BATCH = 100
HALF_LIFE = 500.0  # rows; for every method that forgets


class Follower(Protocol):
    """A method in the experiment."""

    def learn(self, rows: np.ndarray) -> None:
        """Take one batch."""

    def centers(self) -> np.ndarray:
        """Return the centres of shape (k, d)."""


class FollowingTell:
    """TELL, euclidean because that is the loss measured here."""

    def __init__(
        self, start: np.ndarray, k: int, half_life: float | None, seed: int, *, grow: bool = False
    ) -> None:
        self.model = TELL(k, half_life=half_life, geometry="euclidean", random_state=seed)
        self.model.set_params(init=_start_centers(start, k, seed), n_init=1, grow=grow).fit(start)

    def learn(self, rows: np.ndarray) -> None:
        self.model.partial_fit(rows)

    def centers(self) -> np.ndarray:
        live = np.setdiff1d(np.arange(self.model.n_clusters_), self.model.retired_)
        return self.model.centers_in_units()[live]


class FollowingMiniBatch:
    """scikit-learn's MiniBatchKMeans: the step falls with all rows ever seen."""

    def __init__(self, start: np.ndarray, k: int, seed: int) -> None:
        centers = _start_centers(start, k, seed)
        self.model = MiniBatchKMeans(k, init=centers, n_init=1, random_state=seed)
        self.model.partial_fit(start)

    def learn(self, rows: np.ndarray) -> None:
        self.model.partial_fit(rows)

    def centers(self) -> np.ndarray:
        return self.model.cluster_centers_


class FollowingRiver:
    """river's KMeans: every row pulls its centre by a fixed part of the way."""

    def __init__(self, start: np.ndarray, k: int, seed: int, pull: float) -> None:
        self.model = cluster.KMeans(k, halflife=pull, seed=seed)
        for number, center in enumerate(_start_centers(start, k, seed)):
            self.model.centers[number].update(enumerate(center.tolist()))

    def learn(self, rows: np.ndarray) -> None:
        for row in rows.tolist():
            self.model.learn_one(dict(enumerate(row)))

    def centers(self) -> np.ndarray:
        features = range(len(self.model.centers[0]))
        clusters = range(len(self.model.centers))
        return np.array([[self.model.centers[c][f] for f in features] for c in clusters])


class FollowingSpark:
    """Spark's streaming k-means: centres and counts decay by a half-life of rows."""

    def __init__(self, start: np.ndarray, k: int, seed: int) -> None:
        self.means = _start_centers(start, k, seed)
        self.counts = np.bincount(self._nearest(start), minlength=k).astype(float)

    def _nearest(self, rows: np.ndarray) -> np.ndarray:
        return _distances(rows, self.means).argmin(axis=1)

    def learn(self, rows: np.ndarray) -> None:
        nearest = self._nearest(rows)
        counts = np.bincount(nearest, minlength=len(self.means))
        sums = np.zeros_like(self.means)
        np.add.at(sums, nearest, rows)
        self.counts *= 0.5 ** (len(rows) / HALF_LIFE)
        total = np.maximum(self.counts + counts, 1e-12)
        self.means = (self.means * self.counts[:, None] + sums) / total[:, None]
        self.counts = total

    def centers(self) -> np.ndarray:
        return self.means


def _start_centers(start: np.ndarray, k: int, seed: int) -> np.ndarray:
    return KMeans(k, n_init=10, random_state=seed).fit(start).cluster_centers_


def _distances(rows: np.ndarray, centers: np.ndarray) -> np.ndarray:
    return np.square(rows[:, None, :] - centers[None]).sum(axis=2)


def followers(motion: str, start: np.ndarray, seed: int) -> dict[str, Follower]:
    """Return all methods, started from the same rows."""
    k = CLUSTERS[motion]
    # river's rule forgets half of a centre's own past in log 2 / pull rows.
    pull = float(np.log(2) * k / HALF_LIFE)
    growing: dict[str, Follower] = {
        "TELL, half-life, grows": FollowingTell(start, k, HALF_LIFE, seed, grow=True),
        "TELL, never forgets, grows": FollowingTell(start, k, None, seed, grow=True),
    }
    return {
        "TELL, half-life": FollowingTell(start, k, HALF_LIFE, seed),
        "TELL, never forgets": FollowingTell(start, k, None, seed),
        "MiniBatchKMeans": FollowingMiniBatch(start, k, seed),
        "river KMeans (default)": FollowingRiver(start, k, seed, 0.5),
        "river KMeans (same half-life)": FollowingRiver(start, k, seed, pull),
        "Spark-style decay": FollowingSpark(start, k, seed),
        **(growing if motion == "arrival" else {}),
    }


def excess_curves(
    motion: str, stream: Stream, seed: int
) -> tuple[dict[str, list[float]], dict[str, list[dict[str, Any]]]]:
    """Return, for every method, the excess loss of each batch before it was learned; and births."""
    methods = followers(motion, stream.X[:START_ROWS], seed)
    curves: dict[str, list[float]] = {name: [] for name in methods}
    for begin in range(START_ROWS, len(stream.X), BATCH):
        rows = stream.X[begin : begin + BATCH]
        ideal = np.square(rows - stream.truth[begin : begin + BATCH]).sum(axis=1).mean()
        for name, method in methods.items():
            loss = _distances(rows, method.centers()).min(axis=1).mean()
            curves[name].append(float(loss - ideal))
            method.learn(rows)
    tells = {name: one.model for name, one in methods.items() if isinstance(one, FollowingTell)}
    return curves, {name: model.growth_ for name, model in tells.items() if model.grow}


def draw(curves: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Draw the mean curves of both streams side by side."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(curves), figsize=(11, 4.2), sharey=True)
    for ax, (motion, methods) in zip(axes, curves.items(), strict=True):
        for name, curve in methods.items():
            smooth = np.convolve(curve, np.ones(10) / 10, mode="valid")
            ax.plot(
                np.arange(len(smooth)) * BATCH + START_ROWS, np.maximum(smooth, 1e-4), label=name
            )
        ax.set(title=motion, xlabel="rows seen", yscale="log")
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("excess loss (0 = perfect)")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="lower center", ncol=3, frameon=False)
    figure.tight_layout(rect=(0, 0.2, 1, 1))
    plt.rcParams["svg.hashsalt"] = "tell"
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run the streams over all seeds, print the means and write results and figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=40_000)
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DriftWarning)  # the stream is meant to drift
    warnings.simplefilter("ignore", GrowthWarning)  # and one to grow
    began = time.perf_counter()
    curves: dict[str, dict[str, np.ndarray]] = {}
    results: dict[str, Any] = {}
    for motion, k in CLUSTERS.items():
        found = [
            excess_curves(
                motion, make_stream(motion, rows=options.rows, n_clusters=k, seed=seed), seed
            )
            for seed in range(options.seeds)
        ]
        runs = [run for run, _ in found]
        curves[motion] = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
        results[motion] = {
            name: {
                "mean": float(curve.mean()),
                "last_quarter": float(curve[-len(curve) // 4 :].mean()),
                "per_seed": [float(np.mean(r[name])) for r in runs],
                **({"growth": [g[name] for _, g in found]} if name in found[0][1] else {}),
            }
            for name, curve in curves[motion].items()
        }
        for name, one in results[motion].items():
            print(f"{motion:9} {name:30} excess loss {one['mean']:.4f}")
    settings = {
        "seeds": list(range(options.seeds)),
        "rows": options.rows,
        "batch": BATCH,
        "half_life": HALF_LIFE,
        "clusters": CLUSTERS,
    }
    record("drift", settings, results, began=began)
    if options.figure is not None:
        draw(curves, options.figure)


if __name__ == "__main__":
    main()
