"""Models to explain: a table with names, images, and data whose true reasons are planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine

INFORMATIVE = (4, 13)


@dataclass(frozen=True)
class Case:
    """A fitted model, its rows, known labels and column names."""

    model: Any
    X: NDArray[Any]
    y: NDArray[Any]
    names: list[str] | None = None
    shape: tuple[int, ...] | None = None


@pytest.fixture(scope="session")
def wine() -> Case:
    data = load_wine()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    model = KMeans(3, n_init=5, random_state=0).fit(X)
    return Case(model, X, data.target, list(data.feature_names))


@pytest.fixture(scope="session")
def digits() -> Case:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    model = KMeans(10, n_init=2, random_state=0).fit(X)
    return Case(model, X, y, shape=(1, 8, 8))


@pytest.fixture(scope="session")
def planted() -> Case:
    """Three clusters that differ in two features out of twenty; the other eighteen are noise."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 200)
    X = random.normal(scale=0.3, size=(600, 20))
    X[:, INFORMATIVE] += np.array([[0.0, 4.0], [3.5, -2.0], [-3.5, -2.0]])[y]
    model = KMeans(3, n_init=5, random_state=0).fit(X)
    return Case(model, X, y)
