"""How fast rows are learned as they come: against scikit-learn, river and the bare arithmetic.

Every learner lives in a process of its own; rounds are taken in turns and the median ratio is
reported with its quartiles. Run it on an idle machine; it takes about two minutes.

    python benchmarks/stream.py --rounds 7
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
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


# What is asked, and the ratio that is aimed at.
GOALS = {
    "batches of 256 against MiniBatchKMeans": 3.0,
    "batches of 4096 against matmul and argmax": 0.6,
    "learn_one against river KMeans": 20.0,
    "partial_fit of single rows against river KMeans": 20.0,
}


def learner(question: str, ours: bool) -> Callable[[], int]:
    """Return a warm round of ours or of theirs."""
    X = planted_rows()
    few = X[:2000]
    if question.startswith("batches"):
        batch = int(question.split()[2])
        if ours:
            return by_batches(TELL(CLUSTERS, random_state=0).fit(X[:4096]).partial_fit, X, batch)
        if batch == 4096:
            return bare(X, batch)
        peer = MiniBatchKMeans(CLUSTERS, random_state=0, n_init=1).fit(X[:4096])
        return by_batches(peer.partial_fit, X, batch)
    if not ours:
        return by_rows(cluster.KMeans(CLUSTERS, seed=0).learn_one, few)
    if question.startswith("learn_one"):
        return by_rows(RiverTELL(CLUSTERS, seed=0).learn_one, few)
    return by_batches(TELL(CLUSTERS, random_state=0).fit(X[:4096]).partial_fit, few, 1)


def work(question: str, ours: bool, asked: Connection) -> None:
    """Answer each wish for a round with its rate, until none comes."""
    learn = learner(question, ours)
    rate(learn)
    asked.send(0.0)
    while asked.recv():
        asked.send(rate(learn))


def rates(question: str, rounds: int) -> list[tuple[float, float]]:
    """Return the rates of ours and theirs, round by round in turns."""
    context, pipes, processes = multiprocessing.get_context("spawn"), [], []
    for ours in (True, False):
        here, there = context.Pipe()
        processes.append(context.Process(target=work, args=(question, ours, there)))
        processes[-1].start()
        here.recv()  # it is warm
        pipes.append(here)
    found = []
    for _ in range(rounds):
        pair = []
        for pipe in pipes:
            pipe.send(True)
            pair.append(pipe.recv())
        found.append((pair[0], pair[1]))
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send(False)
        process.join()
    return found


def main() -> None:
    """Measure, print and write the rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    began = time.perf_counter()
    results = {}
    for question, goal in GOALS.items():
        pairs = rates(question, options.rounds)
        ratios = [mine / other for mine, other in pairs]
        results[question] = {
            "rows_per_second": statistics.median(mine for mine, _ in pairs),
            "peer_rows_per_second": statistics.median(other for _, other in pairs),
            "ratio": statistics.median(ratios),
            "quartiles": np.quantile(ratios, [0.25, 0.75]).tolist(),
            "goal": goal,
        }
        one = results[question]
        print(f"{question}: {one['ratio']:.2f} (goal {goal}), {one['rows_per_second']:,.0f} rows/s")
    settings = {
        "features": FEATURES,
        "clusters": CLUSTERS,
        "rows": ROWS,
        "rounds": options.rounds,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
    }
    record("stream", settings, results, began=began)


if __name__ == "__main__":
    main()
