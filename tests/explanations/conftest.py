"""Models to explain: a table with names, images, and data whose true reasons are planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine

from tell import TELL, DeepTELL
from tell.explanations import Explanation, explain


@dataclass(frozen=True)
class Case:
    """A fitted model, its rows and known labels; `informative` columns where they are planted."""

    model: Any
    X: Any
    y: NDArray[Any]
    informative: tuple[int, ...] = ()

    @property
    def values(self) -> NDArray[Any]:
        return np.asarray(self.X)


@pytest.fixture(scope="session")
def wine() -> Case:
    data = load_wine(as_frame=True)
    model = TELL(3, standardize=True, random_state=0).fit(data.data)
    return Case(model, data.data, data.target.to_numpy())


@pytest.fixture(scope="session")
def digits() -> Case:
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    return Case(TELL(10, random_state=0).fit(X), X, y)


@pytest.fixture(scope="session")
def deep() -> Case:
    data = load_digits()
    images, y = data.images[:300], data.target[:300]
    return Case(DeepTELL(10, epochs=2, n_init=1, random_state=0).fit(images), images, y)


@pytest.fixture(scope="session", params=["k-means", "euclidean", "sphere"])
def planted(request: pytest.FixtureRequest) -> Case:
    """Three clusters that all differ in the same two features of twenty; the rest is noise."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 200)
    X = random.normal(scale=0.25, size=(600, 20))
    X[:, [4, 13]] += np.array([[0.0, 4.0], [4.0, -1.0], [-3.0, -3.5]])[y]
    if request.param == "k-means":
        model: Any = KMeans(3, n_init=5, random_state=0)
    else:
        model = TELL(3, geometry=request.param, random_state=0)
    return Case(model.fit(X), X, y, informative=(4, 13))


@pytest.fixture(scope="session")
def wine_facts(wine: Case) -> Explanation:
    return explain(wine.model, wine.X, wine.y, rows=[17, 83], map_method="pca")


@pytest.fixture(scope="session")
def digits_facts(digits: Case) -> Explanation:
    return explain(digits.model, "digits", map_method="pca")


@pytest.fixture(scope="session")
def deep_facts(deep: Case) -> Explanation:
    return explain(deep.model, deep.X, deep.y, rows=[3], map_method="pca")
