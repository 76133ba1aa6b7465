"""How many clusters: the number chosen against the true one, beside other ways to choose it.

    python benchmarks/choose.py                      # tell and what scikit-learn offers
    python benchmarks/choose.py --peers other.json   # and what benchmarks/choose_peers.py found
    python benchmarks/choose.py --time               # on an idle machine: the cost against a fit

Data with a known answer, ten seeds each: 20 to 29. The rule and its constants were set on seeds 0
to 19 and 100 to 109. Every number is kept in benchmarks/results/choose.json as it is found, so that
a run that was stopped goes on. `python benchmarks/summary.py` writes the table in docs/choosing.md.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "choose.json"
SEEDS = range(20, 30)
#: Largest number that the methods with a range may answer.
LARGEST = 60
CLEAR, OVERLAPPING, NONE = "clear", "overlapping", "none"

Make = Callable[[int], np.ndarray]


@dataclass(frozen=True)
class Case:
    """Rows for every seed, and the numbers of clusters that are right."""

    kind: str
    true: tuple[int, ...]
    geometry: str
    make: Make


def centers_apart(random: np.random.Generator, k: int, d: int, apart: float) -> np.ndarray:
    """Centres (k, d) of which the nearest two lie `apart` from each other."""
    drawn = random.normal(size=(k, d))
    if k == 1:
        return np.zeros((1, d))
    gaps = np.linalg.norm(drawn[:, None] - drawn[None], axis=2) + 1e9 * np.eye(k)
    return drawn * (apart / gaps.min())


def blobs(
    k: int, d: int = 10, apart: float = 6.0, *, uneven: bool = False, tails: float | None = None
) -> Make:
    """Round groups of deviation 1; uneven: the largest has ten times the rows of the smallest."""

    def make(seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        n = max(1000, 40 * k)
        share = np.geomspace(1, 10, k) if uneven else np.ones(k)
        labels = random.choice(k, n, p=share / share.sum())
        noise = random.normal(size=(n, d)) if tails is None else random.standard_t(tails, (n, d))
        return centers_apart(random, k, d, apart)[labels] + noise

    return make


def cloud(seed: int) -> np.ndarray:
    """One long cloud in ten correlated columns."""
    random = np.random.default_rng(seed)
    return random.normal(size=(1000, 10)) @ random.normal(size=(10, 10))


def uniform(d: int) -> Make:
    """Noise that fills a cube."""
    return lambda seed: np.random.default_rng(seed).uniform(size=(1000, d))


def directions(k: int, d: int = 16) -> Make:
    """Rows about k directions, or in all of them, of lengths that tell nothing."""

    def make(seed: int) -> np.ndarray:
        random = np.random.default_rng(seed)
        if k == 1:
            rows = random.normal(size=(1000, d))
        else:
            centers = random.normal(size=(k, d))
            centers /= np.linalg.norm(centers, axis=1, keepdims=True)
            rows = centers[random.integers(0, k, 1000)] + 0.12 * random.normal(size=(1000, d))
        return rows * random.lognormal(0, 1, size=(1000, 1))

    return make


def heavy_tailed(seed: int) -> np.ndarray:
    """One cloud with Student's tails (3 degrees of freedom)."""
    return np.random.default_rng(seed).standard_t(3, size=(1000, 5))


def skewed(seed: int) -> np.ndarray:
    """One cloud of log-normal columns."""
    return np.random.default_rng(seed).lognormal(0, 0.7, size=(1000, 4))


def shipped(load: Callable[..., Any], *, standardize: bool) -> Make:
    """Nine tenths of a data set of scikit-learn's, drawn anew for every seed."""

    def make(seed: int) -> np.ndarray:
        X = load(return_X_y=True)[0]
        random = np.random.default_rng(seed)
        X = X[np.sort(random.permutation(len(X))[: int(0.9 * len(X))])]
        return StandardScaler().fit_transform(X) if standardize else X

    return make


def cases() -> dict[str, Case]:
    """Every set, by name."""
    e, s = "euclidean", "sphere"
    found = {}
    for k in (3, 8, 20, 50):
        found[f"blobs, {k} equal"] = Case(CLEAR, (k,), e, blobs(k))
        found[f"blobs, {k} uneven"] = Case(CLEAR, (k,), e, blobs(k, uneven=True))
        found[f"blobs, {k} overlapping"] = Case(OVERLAPPING, (k,), e, blobs(k, apart=3.5))
    for k in (3, 8, 20):
        found[f"blobs in the plane, {k}"] = Case(CLEAR, (k,), e, blobs(k, d=2))
    found["heavy tails, 5"] = Case(CLEAR, (5,), e, blobs(5, d=5, apart=10, tails=3))
    found["directions, 6"] = Case(CLEAR, (6,), s, directions(6))
    found["directions, 15"] = Case(CLEAR, (15,), s, directions(15))
    found["wine"] = Case(CLEAR, (3,), e, shipped(datasets.load_wine, standardize=True))
    found["iris"] = Case(CLEAR, (2, 3), e, shipped(datasets.load_iris, standardize=False))
    found["digits"] = Case(CLEAR, (10,), s, shipped(datasets.load_digits, standardize=False))
    found["one blob"] = Case(NONE, (1,), e, blobs(1))
    found["one long cloud"] = Case(NONE, (1,), e, cloud)
    found["uniform, 2 columns"] = Case(NONE, (1,), e, uniform(2))
    found["uniform, 10 columns"] = Case(NONE, (1,), e, uniform(10))
    found["all directions"] = Case(NONE, (1,), s, directions(1))
    found["one cloud with heavy tails"] = Case(NONE, (1,), e, heavy_tailed)
    found["one skewed cloud"] = Case(NONE, (1,), e, skewed)
    return found


def rows_of(case: Case, seed: int) -> np.ndarray:
    """Rows as every method gets them: of unit length where directions are meant."""
    X = np.asarray(case.make(seed), np.float64)
    return X / np.linalg.norm(X, axis=1, keepdims=True) if case.geometry == "sphere" else X


def by_tell(X: np.ndarray, case: Case, seed: int) -> int:
    """What `tell.choose` answers."""
    from tell import choose

    return choose(X, geometry=case.geometry, random_state=seed).n_clusters  # type: ignore[arg-type]


def by_hdbscan(X: np.ndarray, case: Case, seed: int) -> int:
    """Groups that scikit-learn's HDBSCAN finds, without noise; none is one."""
    from sklearn.cluster import HDBSCAN

    return max(1, len(set(HDBSCAN(copy=True).fit(X).labels_) - {-1}))


def inertia(X: np.ndarray, k: int, seed: int) -> float:
    """Sum of squares of scikit-learn's k-means."""
    from sklearn.cluster import KMeans

    return float(KMeans(k, n_init=1, random_state=seed).fit(X).inertia_)


def by_gap(X: np.ndarray, case: Case, seed: int) -> int:
    """The gap statistic as published: uniform boxes along the main axes, five draws, first k."""
    random = np.random.default_rng(seed)
    middle = X.mean(axis=0)
    _, _, axes = np.linalg.svd(X - middle, full_matrices=False)
    turned = (X - middle) @ axes.T
    low, high = turned.min(axis=0), turned.max(axis=0)
    draws = [random.uniform(low, high, size=turned.shape) for _ in range(5)]
    before = _gap_at(X, draws, 1, seed)[0]
    for k in range(2, min(LARGEST, len(X) // 5) + 1):
        gap, error = _gap_at(X, draws, k, seed)
        if before >= gap - error:
            return k - 1
        before = gap
    return k


def _gap_at(X: np.ndarray, draws: list[np.ndarray], k: int, seed: int) -> tuple[float, float]:
    reference = np.log([inertia(draw, k, seed) for draw in draws])
    gap = reference.mean() - np.log(inertia(X, k, seed))
    return float(gap), float(reference.std() * np.sqrt(1 + 1 / len(draws)))


METHODS: dict[str, Callable[[np.ndarray, Case, int], int]] = {
    "tell": by_tell,
    "HDBSCAN": by_hdbscan,
    "gap statistic": by_gap,
}


def run(methods: list[str], names: list[str], path: Path, *, again: bool = False) -> None:
    """Fill what is missing in the results, one number at a time; or measure all of it again."""
    results = json.loads(path.read_text()) if path.exists() else {"chosen": {}}
    every = cases()
    for name in names or list(every):
        for method in methods:
            found = results["chosen"].setdefault(name, {}).setdefault(method, {})
            if again:
                found.clear()
            for seed in SEEDS:
                if str(seed) not in found:
                    X = rows_of(every[name], seed)
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        found[str(seed)] = METHODS[method](X, every[name], seed)
            write(results, path)
            print(f"{name}: {method} {list(found.values())}", flush=True)


def write(results: dict[str, Any], path: Path) -> None:
    """Keep the results with what they were measured with."""
    import sklearn

    results["cases"] = {
        name: {"kind": case.kind, "true": list(case.true)} for name, case in cases().items()
    }
    results["versions"] = {"python": platform.python_version(), "scikit-learn": sklearn.__version__}
    path.write_text(json.dumps(results, indent=1) + "\n")


def merge(path: Path, other: Path) -> None:
    """Add the numbers of another file."""
    results, added = json.loads(path.read_text()), json.loads(other.read_text())
    for name, methods in added["chosen"].items():
        results["chosen"].setdefault(name, {}).update(methods)
    results.setdefault("peers", {}).update(added.get("versions", {}))
    write(results, path)


def measure_time(repeats: int = 5) -> dict[str, float]:
    """Seconds of choosing among 2 … 30 and of one fit with 30 clusters: 200,000 × 64, medians."""
    from tell import TELL, choose

    random = np.random.default_rng(0)
    X = (
        random.normal(size=(200_000, 64))
        + 3 * random.normal(size=(30, 64))[random.integers(0, 30, 200_000)]
    )
    X = X.astype(np.float32)
    choosing, fitting = [], []
    for seed in range(repeats):
        began = time.perf_counter()
        TELL(30, n_init=3, geometry="euclidean", random_state=seed).fit(X)
        fitting.append(time.perf_counter() - began)
        began = time.perf_counter()
        choose(X, max_clusters=30, geometry="euclidean", random_state=seed)
        choosing.append(time.perf_counter() - began)
    fit, choice = statistics.median(fitting), statistics.median(choosing)
    return {"fit": fit, "choose": choice, "ratio": choice / fit}


def main() -> None:
    """Measure, or take over what was measured elsewhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--cases", nargs="*", default=[])
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--again", action="store_true", help="measure anew what is there")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.time:
        timed = measure_time()
        results = json.loads(options.out.read_text())
        write(results | {"seconds": timed}, options.out)
        print(timed)
        return
    if options.peers:
        merge(options.out, options.peers)
    else:
        run(options.methods, options.cases, options.out, again=options.again)
    print("python benchmarks/summary.py writes the table")


if __name__ == "__main__":
    main()
