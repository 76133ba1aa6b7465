"""How fast and how well `TELL` clusters arrays: against eight other ways, at every loss.

Each method stops at another loss, so each is asked with budgets that grow (see
`shallow_methods.py`), and what counts is the time it needs to reach a given loss. Every one lives
in a process of its own (two OpenMP pools in one process slow each other down), and they take
turns, round by round, on the same rows; a fit ends with the labels of all rows. Run it on an idle
machine: it takes about a quarter of an hour.

    python benchmarks/shallow.py
    python benchmarks/shallow.py --cases '1M x 10' --geometries sphere --rounds 1
"""

from __future__ import annotations

import argparse
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recording import record
from shallow_methods import METHODS


@dataclass(frozen=True)
class Case:
    """Rows of a shape, and how long a fit may take before it is given up."""

    rows: int
    features: int
    clusters: int
    patience: float = 20.0
    embedding: bool = False  # overlapping, of a falling spectrum


CASES = {
    "300k x 12, k=12": Case(300_000, 12, 12),
    "1M x 10, k=10": Case(1_000_000, 10, 10),
    "120k x 96, k=80": Case(120_000, 96, 80),
    "50k x 700, k=10": Case(50_000, 700, 10),
    "500k x 128, k=1000": Case(500_000, 128, 1000, patience=30.0),
    "100k x 768, k=256": Case(100_000, 768, 256, embedding=True),
}
GEOMETRIES = ("sphere", "euclidean")
NOISE = 0.9  # length of a row's distance to its planted centre, which has length 1
REPEATED = 1.5  # seconds: a longer fit is measured once


def planted(case: Case, geometry: str) -> np.ndarray:
    """Return rows around uneven clusters; unit vectors for the sphere."""
    random = np.random.default_rng(0)
    n, d = case.rows, case.features
    spectrum = np.ones(d, dtype=np.float32)
    if case.embedding:
        spectrum = (1 + np.arange(d, dtype=np.float32)) ** -0.5
    spectrum /= np.sqrt(np.square(spectrum).sum())
    centers = spectrum * random.standard_normal((case.clusters, d)).astype(np.float32)
    share = random.dirichlet(np.full(case.clusters, 5.0))
    X = centers[random.choice(case.clusters, n, p=share)]
    X += NOISE * spectrum * random.standard_normal(X.shape, dtype=np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if geometry == "sphere" else 3 * X + 1


# --- in a method's process ---------------------------------------------------------------------


def mean_loss(X: np.ndarray, centers: np.ndarray, geometry: str) -> float:
    """Return the loss all are judged by: the mean squared distance to the nearest centre."""
    if geometry == "sphere":
        centers = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    half, total = np.square(centers).sum(axis=1) / 2, 0.0
    for at in range(0, len(X), 8192):
        rows = X[at : at + 8192]
        nearest = (rows @ centers.T - half).max(axis=1)
        total += np.square(rows).sum(dtype=np.float64) - 2 * nearest.sum(dtype=np.float64)
    return float(total / len(X))


def serve(who: str, file: str, clusters: int, geometry: str) -> None:
    """Fit once per line of standard input (a budget and a seed); print seconds and loss."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # what libraries print goes elsewhere
    os.dup2(2, 1)
    method, X = METHODS[who], np.load(file)
    try:
        few = X[: max(4096, 2 * clusters)]
        method.fit(few, clusters, geometry, 0, method.budgets[0])  # imports, thread pools
        print(json.dumps({"ready": True}), file=answers)
        for line in sys.stdin:
            budget, seed = json.loads(line)
            began = time.perf_counter()
            centers = method.fit(X, clusters, geometry, seed, method.budgets[budget])
            seconds = time.perf_counter() - began
            print(json.dumps([seconds, mean_loss(X, centers, geometry)]), file=answers)
    except Exception as error:
        print(json.dumps({"refused": reason(error)}), file=answers)


def reason(error: Exception) -> str:
    """Return why a method is not there: one line."""
    if isinstance(error, ImportError):
        return "not installed"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1][-120:]


# --- in the referee's process ------------------------------------------------------------------


@dataclass
class Competitor:
    """A process that fits when it is told to, and what it has done so far."""

    who: str
    process: subprocess.Popen[str]
    refused: str | None = None
    gave_up: bool = False
    points: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    @classmethod
    def start(cls, who: str, file: Path, case: Case, geometry: str) -> Competitor:
        command = [sys.executable, __file__, "--serve", who, str(file)]
        process = subprocess.Popen(
            [*command, str(case.clusters), geometry],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return cls(who, process)

    def answer(self, patience: float) -> Any:
        """Return what the process prints next, or None after so many seconds."""
        if not select.select([self.process.stdout], [], [], patience)[0]:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"refused": "the process died"}

    def wait_ready(self) -> None:
        said = self.answer(300.0)
        if not said or "refused" in said:
            self.refused = said["refused"] if said else "no answer"

    def run(self, budget: int, seed: int, patience: float) -> None:
        """Measure one fit, unless the last one like it was too long to repeat."""
        before = self.points.get(budget, [])
        if self.refused or self.gave_up or (before and before[-1][0] > REPEATED):
            return
        self.process.stdin.write(json.dumps([budget, seed]) + "\n")
        self.process.stdin.flush()
        said = self.answer(patience)
        if said is None:
            self.gave_up = True
            self.close()
        elif isinstance(said, dict):
            self.refused = said["refused"]
        else:
            self.points.setdefault(budget, []).append((said[0], said[1]))
        print(f"    {self.who:22s} {METHODS[self.who].budgets[budget]} {said}", flush=True)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def found(self) -> dict[str, Any]:
        """Return the curve, or why there is none."""
        method = METHODS[self.who]
        curve = [
            {
                "options": method.budgets[budget],
                "default": budget == method.default,
                "seconds": statistics.median(seconds for seconds, _ in runs),
                "loss": statistics.median(loss for _, loss in runs),
                "runs": runs,
            }
            for budget, runs in sorted(self.points.items())
        ]
        return {"curve": curve, "refused": self.refused, "gave_up": self.gave_up}


def compete(X: np.ndarray, case: Case, geometry: str, rounds: int) -> dict[str, Any]:
    """Let all take turns, with little work first; return each one's curve."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, X)
        everybody = []
        for who in METHODS:  # one after the other: warming up takes both cores
            everybody.append(Competitor.start(who, Path(file.name), case, geometry))
            everybody[-1].wait_ready()
        for seed in range(rounds):
            for budget in range(max(len(method.budgets) for method in METHODS.values())):
                for one in everybody:
                    if budget < len(METHODS[one.who].budgets):
                        one.run(budget, seed, case.patience)
        for one in everybody:
            one.close()
    return {one.who: one.found() for one in everybody}


def predict_ratio(X: np.ndarray, case: Case, geometry: str, rounds: int) -> float:
    """Return the median of our predict's time over that of a bare product and argmax."""
    import torch

    from tell import TELL

    model = TELL(case.clusters, geometry=geometry, n_init=1, tol=0.01, random_state=0)
    model.fit(X[:50_000])
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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", help="some of the cases, by the start of their name")
    parser.add_argument("--geometries", nargs="*", choices=GEOMETRIES, default=GEOMETRIES)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        who, file, clusters, geometry = options.serve
        serve(who, file, int(clusters), geometry)
        return
    began = time.perf_counter()
    results: dict[str, Any] = {}
    for name, case in CASES.items():
        if options.cases and not any(name.startswith(start) for start in options.cases):
            continue
        for geometry in options.geometries:
            print(f"  {name}, {geometry}", flush=True)
            X = planted(case, geometry)
            results[f"{name}, {geometry}"] = {
                "methods": compete(X, case, geometry, options.rounds),
                "predict_over_bare": predict_ratio(X, case, geometry, options.rounds),
                "patience": case.patience,
            }
    settings = {"rounds": options.rounds, "n_init": 1, "noise": NOISE, "repeated_below": REPEATED}
    record("shallow", settings, results, began=began)


if __name__ == "__main__":
    main()
