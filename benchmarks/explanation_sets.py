"""Data for benchmarks/explanations.py: with reasons that were planted, and as people have it.

NumPy and scikit-learn only, so that peers in an environment of their own can read it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.preprocessing import StandardScaler

PACKAGES = Path(__file__).parents[1] / "docs" / "tutorials" / "data" / "packages.csv"


@dataclass(frozen=True)
class Case:
    """Rows (n, d) as they are clustered, into k clusters.

    `groups` (n,) and `markers` are set where reasons were planted: the columns that set each group
    apart. `decoys` follow a marker without having been planted. `absent` is the row that stands for
    "nothing known": the mean, or no words at all. `classes` (n,) are known labels, which nobody
    learns from. A set that is `deep` is clustered behind an encoder.
    """

    X: np.ndarray
    names: list[str]
    k: int
    geometry: str = "euclidean"
    deep: bool = False
    classes: np.ndarray | None = None
    groups: np.ndarray | None = None
    markers: list[set[int]] = field(default_factory=list)
    decoys: set[int] = field(default_factory=set)

    @property
    def absent(self) -> np.ndarray:
        from_zero = self.geometry == "sphere" and not self.deep
        return np.zeros(self.X.shape[1]) if from_zero else self.X.mean(axis=0)


def unit(X: np.ndarray) -> np.ndarray:
    """Rows at unit length; a row of zeros stays one."""
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(lengths > 0, lengths, 1.0)


@dataclass(frozen=True)
class Centres:
    """A clustering by its centres alone: all that explainers may ask."""

    centers: np.ndarray
    geometry: str

    def placed(self, X: np.ndarray) -> np.ndarray:
        """Rows as they are compared with the centres."""
        return X if self.geometry == "euclidean" else unit(X)

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


@dataclass(frozen=True)
class Network(Centres):
    """The same behind a fully connected encoder, by its weights alone: `layers` of (W, b)."""

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]

    def placed(self, X: np.ndarray) -> np.ndarray:
        """The embedding: linear layers with ReLU between them, at unit length."""
        Z = np.asarray(X, np.float32)
        for i, (weight, bias) in enumerate(self.layers):
            Z = (np.maximum(Z, 0) if i else Z) @ weight.T + bias
        return unit(Z.astype(float))


def as_arrays(model: Centres) -> dict[str, Any]:
    """A clustering as arrays by name, to hand it to another process."""
    layers = model.layers if isinstance(model, Network) else ()
    arrays = {f"layer {i} {part}": a for i, pair in enumerate(layers) for part, a in
              zip("Wb", pair, strict=True)}  # fmt: skip
    return {"centers": model.centers, "geometry": model.geometry, "depth": len(layers)} | arrays


def from_arrays(given: Any, prefix: str = "") -> Centres:
    """The clustering that `as_arrays` took apart."""
    centers, geometry = given[f"{prefix}centers"], str(given[f"{prefix}geometry"])
    depth = int(given[f"{prefix}depth"])
    layers = tuple(
        (given[f"{prefix}layer {i} W"], given[f"{prefix}layer {i} b"]) for i in range(depth)
    )
    return Network(centers, geometry, layers) if layers else Centres(centers, geometry)


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
    names = [str(name) for name in data.feature_names]
    return Case(np.asarray(X, float), names, k, classes=np.asarray(data.target))


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


def mnist(*, deep: bool = False) -> Case:
    """The first 10,000 images of MNIST, as IDC takes them: 784 columns from 0 to 1."""
    from tell.data.datasets import load

    data = load("mnist")
    X = np.asarray(data.X[:10_000], float).reshape(10_000, -1) / data.scale
    names = [f"pixel {i // 28}, {i % 28}" for i in range(784)]
    geometry = "sphere" if deep else "euclidean"
    return Case(X, names, 10, geometry=geometry, deep=deep, classes=np.asarray(data.y[:10_000]))


def deep_digits() -> Case:
    """The digits behind an encoder, whose embedding lies on the sphere."""
    flat = shipped(datasets.load_digits, 10, standardize=False)
    return replace(flat, geometry="sphere", deep=True)


#: Every set, by name, from a seed.
CASES: dict[str, Callable[[int], Case]] = {
    "planted": planted,
    "planted, decoys": lambda seed: planted(seed, decoys=True),
    "genes": genes,
    "wine": lambda _: shipped(datasets.load_wine, 3),
    "breast cancer": lambda _: shipped(datasets.load_breast_cancer, 2),
    "digits": lambda _: shipped(datasets.load_digits, 10, standardize=False),
    "MNIST": lambda _: mnist(),
    "texts": texts,
    "digits, deep": lambda _: deep_digits(),
    "MNIST, deep": lambda _: mnist(deep=True),
}
