"""Who finds rows that belong nowhere? Planted outliers, ranked by several scores.

Rows of clusters and a share of planted outliers are given to every method without saying which are
which; the area under the ROC curve says how well its score ranks the outliers above the others
(1: perfectly, 0.5: by chance). TELL is told the number of clusters; with `trim` also the share of
the outliers. The others have their defaults.

    python benchmarks/outliers.py
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.cluster import HDBSCAN
from sklearn.datasets import load_digits, make_moons
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from recording import record
from tell import TELL

SHARE = 0.05  # of the rows are planted


class Planted(NamedTuple):
    """Rows, which of them are planted, how many clusters there are, and what TELL compares."""

    X: np.ndarray
    planted: np.ndarray
    k: int
    geometry: str


def _join(rows: np.ndarray, outliers: np.ndarray, k: int, geometry: str) -> Planted:
    X = np.concatenate([rows, outliers])
    return Planted(X, np.arange(len(X)) >= len(rows), k, geometry)


def _count(n: int) -> int:
    return round(n * SHARE / (1 - SHARE))


def _groups(random: np.random.Generator, n: int, tails: float | None = None) -> np.ndarray:
    """Five groups in eight columns, of which the widest is five times as wide as the narrowest."""
    centers, widths = 8 * random.normal(size=(5, 8)), np.linspace(0.5, 2.5, 5)
    labels = random.integers(0, 5, n)
    shape = (n, 8)
    noise = random.normal(size=shape) if tails is None else random.standard_t(tails, shape)
    return centers[labels] + widths[labels, None] * noise


def scattered(seed: int) -> Planted:
    """Outliers fill the box of the rows."""
    random = np.random.default_rng(seed)
    rows = _groups(random, 2000)
    box = random.uniform(rows.min(axis=0), rows.max(axis=0), size=(_count(2000), 8))
    return _join(rows, box, 5, "euclidean")


def heavy_tails(seed: int) -> Planted:
    """The same among groups with Student's tails (3 degrees of freedom)."""
    random = np.random.default_rng(seed)
    rows = _groups(random, 2000, tails=3.0)
    low, high = np.percentile(rows, [0.5, 99.5], axis=0)
    return _join(rows, random.uniform(low, high, size=(_count(2000), 8)), 5, "euclidean")


def near_a_narrow_group(seed: int) -> Planted:
    """Outliers are five of its widths away from a narrow group: nothing for a wide one."""
    random = np.random.default_rng(seed)
    narrow, wide = np.zeros(8), np.full(8, 12.0)
    rows = np.concatenate(
        [narrow + 0.3 * random.normal(size=(1000, 8)), wide + 3 * random.normal(size=(1000, 8))]
    )
    ways = random.normal(size=(_count(2000), 8))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    return _join(rows, narrow + 5 * 0.3 * np.sqrt(8) / 2 * ways, 2, "euclidean")


def directions(seed: int) -> Planted:
    """Rows about six directions of any length; outliers point anywhere."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(6, 16))
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    rows = centers[random.integers(0, 6, 2000)] + 0.12 * random.normal(size=(2000, 16))
    X = np.concatenate([rows, random.normal(size=(_count(2000), 16))])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return Planted(X, np.arange(len(X)) >= 2000, 6, "sphere")


def digits(seed: int) -> Planted:
    """Outliers are images of digits whose pixels were shuffled."""
    random = np.random.default_rng(seed)
    X = load_digits().data
    some = X[random.permutation(len(X))[: _count(len(X))]]
    return _join(X, random.permuted(some, axis=1), 10, "sphere")


def moons(seed: int) -> Planted:
    """Two crescents, which are no balls; outliers fill their box."""
    random = np.random.default_rng(seed)
    rows = make_moons(2000, noise=0.05, random_state=seed)[0]
    box = random.uniform(rows.min(axis=0), rows.max(axis=0), size=(_count(2000), 2))
    return _join(rows, box, 2, "euclidean")


CASES: dict[str, Callable[[int], Planted]] = {
    "scattered among five groups": scattered,
    "the same, heavy tails": heavy_tails,
    "beside a narrow group": near_a_narrow_group,
    "directions": directions,
    "digits, pixels shuffled": digits,
    "two crescents": moons,
}


def by_tell(case: Planted, seed: int) -> np.ndarray:
    model = TELL(case.k, geometry=case.geometry, random_state=seed)  # type: ignore[arg-type]
    return model.fit(case.X).outlier_score(case.X)


def by_tell_trimmed(case: Planted, seed: int) -> np.ndarray:
    model = TELL(case.k, geometry=case.geometry, trim=SHARE, random_state=seed)  # type: ignore[arg-type]
    return model.fit(case.X).outlier_score(case.X)


def by_hdbscan(case: Planted, seed: int) -> np.ndarray:
    """One minus the strength of its membership, which is 0 for noise."""
    return 1 - HDBSCAN(copy=True).fit(case.X).probabilities_


def by_forest(case: Planted, seed: int) -> np.ndarray:
    return -IsolationForest(random_state=seed).fit(case.X).score_samples(case.X)


def by_factor(case: Planted, seed: int) -> np.ndarray:
    return -LocalOutlierFactor().fit(case.X).negative_outlier_factor_


METHODS: dict[str, Callable[[Planted, int], np.ndarray]] = {
    "TELL": by_tell,
    "TELL, trim=0.05": by_tell_trimmed,
    "HDBSCAN": by_hdbscan,
    "IsolationForest": by_forest,
    "LocalOutlierFactor": by_factor,
}


def main() -> None:
    """Measure all methods on all cases and seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    results: dict[str, dict[str, list[float]]] = {}
    for name, make in CASES.items():
        found: dict[str, list[float]] = {method: [] for method in METHODS}
        for seed in range(options.seeds):
            case = make(seed)
            for method, score in METHODS.items():
                found[method].append(float(roc_auc_score(case.planted, score(case, seed))))
        results[name] = found
        means = {method: round(float(np.mean(values)), 3) for method, values in found.items()}
        print(f"{name}: {means}", flush=True)
    settings = {"seeds": list(range(options.seeds)), "planted": SHARE}
    record("outliers", settings, results, began=began)


if __name__ == "__main__":
    main()
