"""Where the two solvers of `TELL` end: closed-form steps, and the layer trained as in the paper.

    tell data get mnist && python benchmarks/solvers.py

Digits and MNIST as pixels, three seeds each; writes results/solvers.json.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from recording import record
from tell import TELL
from tell.data.datasets import load

SEEDS = (0, 1, 2)


def compare(X: np.ndarray) -> dict[str, list[dict[str, float]]]:
    """Return the loss and the seconds of both solvers for every seed."""
    found: dict[str, list[dict[str, float]]] = {"lloyd": [], "sgd": []}
    for seed in SEEDS:
        for solver, runs in found.items():
            started = time.perf_counter()
            model = TELL(10, solver=solver, random_state=seed).fit(X)
            seconds = time.perf_counter() - started
            runs.append({"seed": seed, "loss": model.loss_, "seconds": seconds})
            print(solver, runs[-1], flush=True)
    return found


def main() -> None:
    """Compare on both sets and write down what came out."""
    began, results = time.perf_counter(), {}
    for name in ("digits", "mnist"):
        data = load(name)
        X = np.asarray(data.X, dtype=np.float32).reshape(len(data.X), -1) / data.scale
        results[name] = compare(X)
    settings: dict[str, Any] = {"clusters": 10, "seeds": SEEDS}
    record("solvers", settings, results, began=began)


if __name__ == "__main__":
    main()
