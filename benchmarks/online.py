"""The paper's online experiment (table 4, rows with a dagger), on raw pixels.

1,000 random digits of MNIST's test part train; then the 60,000 of its training part arrive in
batches, each seen once. Static k-means can only assign them; TELL moves its centres with each batch
and then assigns it.

    python benchmarks/online.py --seeds 5
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from recording import record
from tell import TELL, evaluate
from tell.data.datasets import load

TRAINING_DIGITS = 1000
CLUSTERS = 10
# Table 4 of the paper, raw pixels: ACC, NMI, ARI in per cent.
PAPER = {"k-means": (48.52, 46.75, 31.25), "TELL": (54.59, 50.80, 38.33)}


def run(seed: int, batch: int, first: np.ndarray, later: np.ndarray, y: np.ndarray) -> Any:
    """Return the scores of both methods for one random choice of digits and order."""
    random = np.random.default_rng(seed)
    start = first[random.choice(len(first), TRAINING_DIGITS, replace=False)]
    order = random.permutation(len(later))
    means = KMeans(CLUSTERS, n_init=10, random_state=seed).fit(start)
    own = TELL(CLUSTERS, n_init=10, random_state=seed).fit(start)
    same = TELL(CLUSTERS, init=means.cluster_centers_, n_init=1, random_state=seed).fit(start)
    found = {
        "k-means": means.predict(later[order]),
        "TELL, not updated": own.predict(later[order]),
        "TELL": follow(own, later[order], batch),
        "TELL from k-means' centres": follow(same, later[order], batch),
    }
    return {name: evaluate(y[order], labels).as_dict() for name, labels in found.items()}


def follow(model: TELL, rows: np.ndarray, batch: int) -> np.ndarray:
    """Let the rows arrive in batches: move the centres with each, then assign it."""
    parts = (rows[begin : begin + batch] for begin in range(0, len(rows), batch))
    return np.concatenate([model.partial_fit(part).predict(part) for part in parts])


def main() -> None:
    """Run all seeds, print the table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--data-dir")
    options = parser.parse_args()
    began = time.perf_counter()
    train, test = (load(f"mnist-{part}", options.data_dir) for part in ("train", "test"))
    first, later = (np.asarray(part.X, dtype=np.float32) / 255 for part in (test, train))
    runs = []
    for seed in range(options.seeds):
        runs.append(run(seed, options.batch, first, later, train.y))
        print(seed, {name: f"{100 * scores['acc']:.2f}" for name, scores in runs[-1].items()})
    means = {
        name: {key: float(np.mean([run[name][key] for run in runs])) for key in runs[0][name]}
        for name in runs[0]
    }
    for name, scores in means.items():
        shown = "  ".join(f"{key} {100 * scores[key]:.2f}" for key in ("acc", "nmi", "ari"))
        print(f"{name:26} {shown}   paper: {PAPER.get(name, '')}")
    settings = {"seeds": list(range(options.seeds)), "batch": options.batch}
    record("online", settings, {"mean": means, "runs": runs, "paper": PAPER}, began=began)


if __name__ == "__main__":
    main()
