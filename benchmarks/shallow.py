"""How fast and how well `TELL` clusters arrays: against scikit-learn and faiss.

Every competitor lives in a process of its own (two OpenMP pools in one process slow each other
down) and they take turns, round by round, on the same unit vectors; a fit ends with the labels of
all rows. Run it on an idle machine.

    python benchmarks/shallow.py --rounds 5
"""

from __future__ import annotations

import argparse
import json
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from recording import record
from tell.data.datasets import load
from tell.exceptions import DataUnavailableError

CASES = {  # name: rows, features, clusters
    "1M x 10, k=10": (1_000_000, 10, 10),
    "200k x 64, k=100": (200_000, 64, 100),
    "70k x 784, k=10": (70_000, 784, 10),
    "500k x 128, k=1000": (500_000, 128, 1000),
}
PEERS = ["KMeans", "MiniBatchKMeans", "faiss"]
OURS = ["TELL", "TELL(tol=0.01)"]
PATIENCE = 60.0  # seconds after which a fit is given up


def planted(rows: int, features: int, clusters: int) -> np.ndarray:
    """Return unit vectors around uneven clusters, with a mean loss of about 0.37."""
    random = np.random.default_rng(0)
    centers = random.standard_normal((clusters, features)).astype(np.float32)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    share = random.dirichlet(np.full(clusters, 5.0))
    X = centers[random.choice(clusters, rows, p=share)]
    X += 0.72 / np.sqrt(features) * random.standard_normal(X.shape, dtype=np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def mnist() -> np.ndarray | None:
    """Return the digits' pixels as unit vectors, if the data set is on this machine."""
    try:
        X = load("mnist", download=False).X.reshape(70_000, -1).astype(np.float32)
    except DataUnavailableError:
        return None
    return X / np.linalg.norm(X, axis=1, keepdims=True)


# --- in a competitor's process -----------------------------------------------------------------


def fit(who: str, X: np.ndarray, clusters: int, seed: int) -> np.ndarray:
    """Fit, label every row, return the centres."""
    if who == "faiss":
        import faiss

        kmeans = faiss.Kmeans(X.shape[1], clusters, niter=25, spherical=True, seed=seed + 1)
        kmeans.train(X)
        kmeans.assign(X)
        return kmeans.centroids
    if who.startswith("TELL"):
        from tell import TELL

        tol = 0.01 if "tol" in who else 1e-4
        return TELL(clusters, n_init=1, tol=tol, random_state=seed).fit(X).cluster_centers_
    from sklearn import cluster

    return getattr(cluster, who)(clusters, n_init=1, random_state=seed).fit(X).cluster_centers_


def mean_loss(X: np.ndarray, centers: np.ndarray) -> float:
    """Return the loss all are judged by: 2 − 2 cos to the nearest centre, per row."""
    centers = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    best = [(X[at : at + 16384] @ centers.T).max(axis=1) for at in range(0, len(X), 16384)]
    return float(2 - 2 * np.concatenate(best).mean(dtype=np.float64))


def serve(who: str, file: str, clusters: int) -> None:
    """Fit once per line of standard input, which is a seed; print seconds and loss."""
    X = np.load(file)
    fit(who, X[: max(4096, 2 * clusters)], clusters, 0)  # warm up: imports, thread pools
    print("ready", flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        centers = fit(who, X, clusters, int(line))
        seconds = time.perf_counter() - began
        print(json.dumps([seconds, mean_loss(X, centers)]), flush=True)


# --- in the referee's process ------------------------------------------------------------------


class Competitor:
    """A process that fits when it is told to."""

    def __init__(self, who: str, file: Path, clusters: int) -> None:
        command = [sys.executable, __file__, "--serve", who, str(file), str(clusters)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.process.stdout.readline()

    def run(self, seed: int) -> tuple[float, float] | None:
        """Return seconds and loss, or None if patience ran out."""
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        if not ready:
            self.close()
            return None
        seconds, loss = json.loads(self.process.stdout.readline())
        return seconds, loss

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def compete(X: np.ndarray, clusters: int, rounds: int) -> dict[str, Any]:
    """Let all take turns; return medians, and ratios to the fastest peer."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, X)
        field = {who: Competitor(who, Path(file.name), clusters) for who in [*OURS, *PEERS]}
        runs: dict[str, list[tuple[float, float]]] = {who: [] for who in field}
        for seed in range(rounds):
            for who in [w for w in field if field[w].process.poll() is None]:
                result = field[who].run(seed)
                print(f"    {who:18s} {'gave up' if result is None else result}", flush=True)
                runs[who] += [] if result is None else [result]
        for competitor in field.values():
            competitor.close()
    return summary(runs)


def summary(runs: dict[str, list[tuple[float, float]]]) -> dict[str, Any]:
    """Return median seconds and loss of each, and our ratios to the fastest peer."""
    rows: dict[str, Any] = {
        who: {
            "seconds": statistics.median(s for s, _ in found) if found else None,
            "loss": statistics.median(loss for _, loss in found) if found else None,
            "runs": found,
        }
        for who, found in runs.items()
    }
    finished = [who for who in PEERS if rows[who]["seconds"]]
    fastest = min(finished, key=lambda who: rows[who]["seconds"])
    for who in OURS:
        rows[who]["times_faster_than_fastest_peer"] = (
            rows[fastest]["seconds"] / rows[who]["seconds"]
        )
        rows[who]["loss_against_fastest_peer"] = rows[who]["loss"] / rows[fastest]["loss"] - 1
    return {"fastest_peer": fastest, **rows}


def predict_ratio(X: np.ndarray, clusters: int, rounds: int) -> float:
    """Return the median of our predict's time over that of a bare product and argmax."""
    import torch

    from tell import TELL

    model = TELL(clusters, n_init=1, tol=0.01, random_state=0).fit(X[:50_000])
    rows, centers = torch.from_numpy(X), torch.from_numpy(model.cluster_centers_)
    ratios = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        model.predict(X)
        middle = time.perf_counter()
        (rows @ centers.T).argmax(dim=1)
        ratios.append((middle - began) / (time.perf_counter() - middle))
    return statistics.median(ratios[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="*", help="some of the cases, by the start of their name")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        who, file, clusters = options.serve
        serve(who, file, int(clusters))
        return
    began = time.perf_counter()
    results: dict[str, Any] = {}
    data = {name: (lambda shape=shape: planted(*shape)) for name, shape in CASES.items()}
    clusters = {name: shape[2] for name, shape in CASES.items()}
    data["MNIST pixels, k=10"], clusters["MNIST pixels, k=10"] = mnist, 10
    for name, make in data.items():
        if options.cases and not any(name.startswith(case) for case in options.cases):
            continue
        X = make()
        if X is None:
            continue
        print(f"  {name}", flush=True)
        rounds = options.rounds if clusters[name] < 1000 else max(1, options.rounds // 2)
        results[name] = compete(X, clusters[name], rounds)
        results[name]["predict_over_bare"] = predict_ratio(X, clusters[name], options.rounds)
    settings = {"rounds": options.rounds, "n_init": 1, "patience_seconds": PATIENCE}
    record("shallow", settings, results, began=began)


if __name__ == "__main__":
    main()
