"""Data for benchmarks/explanations.py: with reasons that were planted, and as people have it.

NumPy and scikit-learn only, so that peers in an environment of their own can read it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

PACKAGES = Path(__file__).parents[1] / "docs" / "tutorials" / "data" / "packages.csv"


@dataclass(frozen=True)
class Case:
    """Rows (n, d) as they are clustered, into k clusters.

    `groups` (n,) and `markers` are set where reasons were planted: the columns that set each group
    apart. `decoys` follow a marker without having been planted. `absent` is the row that stands for
    "nothing known": the mean, or no words at all.
    """

    X: np.ndarray
    names: list[str]
    k: int
    geometry: str = "euclidean"
    groups: np.ndarray | None = None
    markers: list[set[int]] = field(default_factory=list)
    decoys: set[int] = field(default_factory=set)

    @property
    def absent(self) -> np.ndarray:
        return np.zeros(self.X.shape[1]) if self.geometry == "sphere" else self.X.mean(axis=0)


@dataclass(frozen=True)
class Centres:
    """A clustering by its centres alone: all that explainers may ask."""

    centers: np.ndarray
    geometry: str

    def placed(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are compared with the centres."""
        if self.geometry == "euclidean":
            return X
        lengths = np.linalg.norm(X, axis=1, keepdims=True)
        return X / np.where(lengths > 0, lengths, 1.0)

    def squared(self, X: np.ndarray) -> np.ndarray:
        """Squared distances (n, k)."""
        Z, C = self.placed(X), self.centers
        return (Z**2).sum(axis=1)[:, None] - 2 * Z @ C.T + (C**2).sum(axis=1)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.squared(X).argmin(axis=1)

    def margin(self, X: np.ndarray, j: int) -> np.ndarray:
        """How much nearer cluster j is than the nearest other one (n,)."""
        squared = self.squared(X)
        others = np.delete(squared, j, axis=1).min(axis=1)
        return others - squared[:, j]


def planted(seed: int, *, decoys: bool = False) -> Case:
    """Four groups in thirty columns; each is set apart by three columns of its own."""
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(4), 150)
    markers = [set(range(3 * j, 3 * j + 3)) for j in range(4)]
    X = random.normal(size=(600, 30))
    for j, columns in enumerate(markers):
        X[np.ix_(groups == j, sorted(columns))] += 4.0
    followers: set[int] = set()
    if decoys:  # columns 12 to 23 follow the twelve markers, and say nothing of their own
        X[:, 12:24] = 0.8 * X[:, :12] + 0.6 * random.normal(size=(600, 12))
        followers = set(range(12, 24))
    names = [f"column {f}" for f in range(30)]
    return Case(X, names, 4, groups=groups, markers=markers, decoys=followers)


def genes(seed: int) -> Case:
    """240 samples of 1,000 genes: four types with twenty marker genes each, and shared modules."""
    random = np.random.default_rng(seed)
    groups = np.repeat(np.arange(4), 60)
    modules = random.normal(size=(240, 10)) @ random.normal(scale=0.1, size=(10, 1000))
    X = modules + random.normal(size=(240, 1000))
    markers = [set(range(20 * j, 20 * j + 20)) for j in range(4)]
    for j, columns in enumerate(markers):
        X[np.ix_(groups == j, sorted(columns))] += 3.5
    names = [f"gene {f}" for f in range(1000)]
    return Case(StandardScaler().fit_transform(X), names, 4, groups=groups, markers=markers)


def shipped(load: Callable[..., object], k: int, *, standardize: bool = True) -> Case:
    """A table of scikit-learn's."""
    data = load()
    X = StandardScaler().fit_transform(data.data) if standardize else data.data / 16
    return Case(np.asarray(X, float), [str(name) for name in data.feature_names], k)


def texts(seed: int) -> Case:
    """Summaries of Debian packages as TF-IDF of the 500 most frequent words."""
    import csv

    from sklearn.feature_extraction.text import TfidfVectorizer

    with PACKAGES.open(encoding="utf-8") as file:
        summaries = [line["summary"] for line in csv.DictReader(file)]
    vectors = TfidfVectorizer(stop_words="english", max_features=500)
    X = vectors.fit_transform(summaries).toarray()
    names = [f"word {name}" for name in vectors.get_feature_names_out()]
    return Case(X[X.any(axis=1)], names, 8, geometry="sphere")


def cases(seed: int = 0) -> dict[str, Case]:
    """Every set, by name."""
    return {
        "planted": planted(seed),
        "planted, decoys": planted(seed, decoys=True),
        "genes": genes(seed),
        "wine": shipped(datasets.load_wine, 3),
        "breast cancer": shipped(datasets.load_breast_cancer, 2),
        "digits": shipped(datasets.load_digits, 10, standardize=False),
        "texts": texts(seed),
    }
