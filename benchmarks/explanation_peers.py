"""Explanations by SHAP, LIME and CLASSIX, and ExKMC's trees, for benchmarks/explanations.py.

Their packages do not go together with this project's: make an environment of their own,

    python -m venv peers && peers/bin/pip install shap lime ExKMC classixclustering
    python benchmarks/explanations.py --peers peers/bin/python

which starts this file itself. What is not installed there is left out and named. ExKMC 0.0.3 as it
is packaged builds on Python 3.10 and older; on 3.11 its C file must be made anew from its .pyx.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from explanation_sets import from_arrays

#: Evaluations of the model that KernelSHAP may ask for per row.
SAMPLES = 2048


class Job:
    """Rows (n, d) to explain, the cluster of each, and what is known of the model."""

    def __init__(self, given: Any, name: str) -> None:
        self.model = from_arrays(given, f"{name} ")
        self.rows, self.clusters = given[f"{name} rows"], given[f"{name} clusters"]
        self.X, self.absent = given["X"], given["absent"]

    def by_cluster(self, explain: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
        """Explain the rows cluster by cluster."""
        found = np.zeros(self.rows.shape)
        for j in np.unique(self.clusters):
            here = self.clusters == j
            found[here] = explain(int(j), self.rows[here])
        return found


def kernel_shap(job: Job) -> np.ndarray:
    """KernelSHAP of the margin, against the absent row.

    All columns may get an amount: by default it keeps ten, which would cost it on wide sets.
    """
    import shap

    def explain(j: int, rows: np.ndarray) -> np.ndarray:
        explainer = shap.KernelExplainer(lambda X: job.model.margin(X, j), job.absent[None])
        return np.asarray(explainer.shap_values(rows, nsamples=SAMPLES, l1_reg=False, silent=True))

    return job.by_cluster(explain)


def tree_shap(job: Job) -> np.ndarray:
    """TreeSHAP of a forest that imitates the clustering: the probability of the row's cluster."""
    import shap
    from sklearn.ensemble import RandomForestClassifier

    labels = job.model.predict(job.X)
    forest = RandomForestClassifier(100, max_depth=10, random_state=0).fit(job.X, labels)
    explainer = shap.TreeExplainer(forest)
    place = {int(j): c for c, j in enumerate(forest.classes_)}

    def explain(j: int, rows: np.ndarray) -> np.ndarray:
        values = np.asarray(explainer.shap_values(rows, check_additivity=False))
        return values[:, :, place[j]] if values.ndim == 3 else values

    return job.by_cluster(explain)


def lime(job: Job) -> np.ndarray:
    """LIME's linear model of the margin about a row."""
    from lime.lime_tabular import LimeTabularExplainer

    explainer = LimeTabularExplainer(
        job.X, mode="regression", discretize_continuous=False, random_state=0
    )
    d = job.rows.shape[1]

    def explain(j: int, rows: np.ndarray) -> np.ndarray:
        found = np.zeros(rows.shape)
        for i, row in enumerate(rows):
            about = explainer.explain_instance(
                row, lambda X: job.model.margin(X, j), num_features=d, num_samples=1000
            )
            slopes = dict(about.as_map()[1])  # 0 holds the same with the other sign
            for f, slope in slopes.items():
                found[i, f] = slope * (row[f] - job.absent[f])
        return found

    return job.by_cluster(explain)


def exkmc(X: np.ndarray, centers: np.ndarray, n_leaves: int) -> np.ndarray:
    """The clusters (n,) by ExKMC's own tree."""
    from ExKMC.Tree import Tree
    from sklearn.cluster import KMeans

    model = KMeans(len(centers), init=centers, n_init=1, max_iter=1).fit(X)
    model.cluster_centers_ = np.ascontiguousarray(centers, np.float64)
    return Tree(k=len(centers), max_leaves=n_leaves).fit(X, model).predict(X).astype(int)


EXPLAINERS = {"KernelSHAP": kernel_shap, "TreeSHAP": tree_shap, "LIME": lime}
PACKAGES = {"KernelSHAP": "shap", "TreeSHAP": "shap", "LIME": "lime"}


def classix(given: Any) -> dict[str, Any]:
    """CLASSIX's clusters, its groups, and what it prints of why two rows are together.

    Its radius is the one of a grid that gives a number of larger clusters nearest to k.
    """
    import classix

    seen, k = given["seen"], int(given["k"])
    least = max(2, len(seen) // 50)
    tried = []
    for radius in np.arange(0.05, 1.01, 0.05):
        model = classix.CLASSIX(radius=float(radius), minPts=least, verbose=0)
        model.fit(seen)
        sizes = np.bincount(np.unique(model.labels_, return_inverse=True)[1])
        kept = sizes[sizes >= least]
        smallest = int(kept.min()) if len(kept) else 0
        tried.append((abs(len(kept) - k), -smallest, float(radius), len(kept), model))
    _, _, radius, clusters, model = min(tried, key=lambda one: one[:3])
    labels, groups = np.asarray(model.labels_), np.asarray(model.groups_)
    words, paths, began = [], [], time.perf_counter()
    asked = np.random.default_rng(0).permutation(len(seen))[:24]
    for i in asked:
        together = np.flatnonzero(labels == labels[i])
        text = printed(lambda i=i, j=together[-1]: model.explain(seen, int(i), int(j)))
        words.append(len(text.split()))
        paths.append(text.count("<->") + 1)
    return {
        "radius": radius,
        "clusters": clusters,
        "labels": labels,
        "said": np.asarray(model.predict(given["unseen"])),
        "groups": np.array([seen[groups == g].mean(axis=0) for g in np.unique(groups)]),
        "group clusters": np.array([labels[groups == g][0] for g in np.unique(groups)]),
        "seconds": (time.perf_counter() - began) / len(asked),
        "words": float(np.mean(words)),
        "path": float(np.mean(paths)),
        "version": importlib.metadata.version("classixclustering"),
    }


def printed(say: Callable[[], object]) -> str:
    """What a function prints."""
    target = io.StringIO()
    with contextlib.redirect_stdout(target):
        say()
    return target.getvalue()


def explanations(given: Any, jobs: tuple[str, ...], notes: dict[str, Any]) -> dict[str, Any]:
    """Amounts by every explainer that is installed, and the seconds that it took."""
    found: dict[str, Any] = {}
    for name, explain in EXPLAINERS.items():
        if PACKAGES[name] in notes["left_out"]:
            continue
        for job in jobs:
            began = time.perf_counter()
            found[f"{job} {name}"] = explain(Job(given, job))
            found[f"{job} {name} seconds"] = time.perf_counter() - began
    return found


def trees(given: Any) -> dict[str, np.ndarray]:
    """The clusters by ExKMC's trees: for centres among the rows themselves."""
    if str(given["main geometry"]) != "euclidean":
        return {}
    return {
        f"tree {leaves}": exkmc(given["X"], given["main centers"], leaves)
        for leaves in given["leaves"].tolist()
    }


def installed() -> dict[str, Any]:
    """Versions of what is there, and what is not."""
    notes: dict[str, Any] = {"versions": {}, "left_out": {}}
    for package in ("shap", "lime", "ExKMC", "scikit-learn", "numpy"):
        try:
            notes["versions"][package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            notes["left_out"][package] = "not installed"
    return notes


def main(job: str, source: str, target: str) -> None:
    """Do a job ("explain", "time" or "classix") with what stands in one file; write another."""
    given, notes = np.load(source), installed()
    warnings.simplefilter("ignore")
    if job == "classix":
        found = classix(given)
    else:
        both = job == "explain" and "again rows" in given
        found = explanations(given, ("main", "again") if both else ("main",), notes)
        if job == "explain" and "ExKMC" not in notes["left_out"]:
            found |= trees(given)
    np.savez(target, notes=json.dumps(notes), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
