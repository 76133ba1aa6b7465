"""How fast rows are learned as they come: against scikit-learn, river and the bare arithmetic.

Rounds are interleaved and the median ratio is reported; run it on an idle machine.

    python benchmarks/stream.py --rounds 7
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from river import cluster
from sklearn.cluster import MiniBatchKMeans

from recording import record
from tell import TELL
from tell.estimators.river import RiverTELL

FEATURES = 64
CLUSTERS = 20
ROWS = 1 << 16


def planted_rows(seed: int = 0) -> np.ndarray:
    """Return rows around as many centres as are looked for."""
    random = np.random.default_rng(seed)
    centers = random.standard_normal((CLUSTERS, FEATURES))
    noise = 0.5 * random.standard_normal((ROWS, FEATURES))
    return (centers[random.integers(CLUSTERS, size=ROWS)] + noise).astype(np.float32)


def rate(learn: Callable[[], int]) -> float:
    """Return rows per second of one round."""
    began = time.perf_counter()
    rows = learn()
    return rows / (time.perf_counter() - began)


def by_batches(learn: Callable[[np.ndarray], Any], X: np.ndarray, batch: int) -> Callable[[], int]:
    """Return a round that learns all rows in batches."""

    def learn_all() -> int:
        for begin in range(0, len(X) - batch + 1, batch):
            learn(X[begin : begin + batch])
        return len(X) // batch * batch

    return learn_all


def by_rows(learn: Callable[[dict[int, float]], Any], X: np.ndarray) -> Callable[[], int]:
    """Return a round that learns rows one by one, as river has them."""
    rows = [dict(enumerate(row)) for row in X.tolist()]

    def learn_all() -> int:
        for row in rows:
            learn(row)
        return len(rows)

    return learn_all


def bare(X: np.ndarray, batch: int) -> Callable[[], int]:
    """Return a round of nothing but the product with the centres and the search for the largest."""
    centers = torch.from_numpy(X[:CLUSTERS].copy())  # torch: one pool of threads for both
    return by_batches(lambda rows: (torch.from_numpy(rows) @ centers.T).argmax(dim=1), X, batch)


def questions(X: np.ndarray) -> dict[str, tuple[Callable[[], int], Callable[[], int]]]:
    """Return ours and theirs for every question; learners are warm."""

    def tell() -> TELL:
        return TELL(CLUSTERS, random_state=0).fit(X[:4096])

    peer = MiniBatchKMeans(CLUSTERS, random_state=0, n_init=1).fit(X[:4096])
    ours, theirs = RiverTELL(CLUSTERS, seed=0), cluster.KMeans(CLUSTERS, seed=0)
    few = X[:2000]
    return {
        "batches of 256 against MiniBatchKMeans": (
            by_batches(tell().partial_fit, X, 256),
            by_batches(peer.partial_fit, X, 256),
        ),
        "batches of 4096 against matmul and argmax": (
            by_batches(tell().partial_fit, X, 4096),
            bare(X, 4096),
        ),
        "learn_one against river KMeans": (
            by_rows(ours.learn_one, few),
            by_rows(theirs.learn_one, few),
        ),
    }


def main() -> None:
    """Measure, print and write the rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    began = time.perf_counter()
    X = planted_rows()
    results = {}
    for question, (ours, theirs) in questions(X).items():
        rate(ours), rate(theirs)
        pairs = [(rate(ours), rate(theirs)) for _ in range(options.rounds)]
        results[question] = {
            "rows_per_second": statistics.median(mine for mine, _ in pairs),
            "peer_rows_per_second": statistics.median(other for _, other in pairs),
            "ratio": statistics.median(mine / other for mine, other in pairs),
        }
        shown = {key: f"{value:,.2f}" for key, value in results[question].items()}
        print(f"{question}: {shown}")
    settings = {"features": FEATURES, "clusters": CLUSTERS, "rows": ROWS, "rounds": options.rounds}
    record("stream", settings, results, began=began)


if __name__ == "__main__":
    main()
