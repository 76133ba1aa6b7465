"""`DeepTELL("auto")`: as many clusters as the neighbour graph has groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.utils.estimator_checks import parametrize_with_checks

from tell import DeepTELL, DistilRecipe, ParameterError, TellRecipe, load
from tell.estimators.deep.recipes.communities import (
    GraphChoice,
    choose_number,
    communities,
    merged,
    modularity,
)
from tell.estimators.deep.recipes.graph import GraphStart
from tell.estimators.deep.recipes.partition import count_clusters, find_graph

pytestmark = pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
QUICK = TellRecipe(epochs=1, start=GraphStart(epochs=1, layout_epochs=5, distil_steps=2))


def counted(X: Any, seed: int = 0, most: int | None = None) -> GraphChoice:
    x = torch.as_tensor(np.asarray(X), dtype=torch.float32)
    graph = find_graph(x, 1, rows=100_000, neighbours=15, seed=seed)
    return count_clusters(graph, seed, most)


@parametrize_with_checks(
    [DeepTELL("auto", embedding_dim=2, recipe=DistilRecipe(start=replace(QUICK.start, epochs=1)))]
)
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def blobs() -> np.ndarray:
    return make_blobs(400, centers=4, n_features=8, random_state=0)[0].astype(np.float32)


@pytest.fixture(scope="module")
def model(blobs: np.ndarray) -> DeepTELL:
    return DeepTELL("auto", recipe=QUICK, random_state=0).fit(blobs)


@pytest.mark.parametrize("k", [3, 8, 20])
def test_groups_that_lie_apart_are_counted(k: int) -> None:
    assert counted(make_blobs(1500, centers=k, n_features=16, random_state=k)[0]).n_clusters == k


def test_structureless_rows_are_one_cluster() -> None:
    random = np.random.default_rng(0)
    for X in (random.normal(size=(1500, 16)), random.uniform(size=(1500, 8))):
        choice = counted(X)
        assert choice.n_clusters == 1
        assert "No cluster structure found" in str(choice)


@pytest.mark.parametrize("seed", range(3))
def test_digits_are_about_ten(seed: int) -> None:
    images = load_digits().images[:, None] / 16
    choice = counted(images, seed)
    assert choice.n_clusters in (10, 11)
    assert choice.runner_up in (9, 10, 11, 12)


def test_a_known_graph() -> None:
    """Three cliques of four in a ring, each bound to the next by one edge of weight 0.1."""
    graph = np.kron(np.eye(3), 1 - np.eye(4))
    for a, b in ((0, 4), (4, 8), (8, 0)):
        graph[a, b] = graph[b, a] = 0.1
    graph = sp.csr_array(graph)
    labels = communities(graph, 0)
    assert len(np.unique(labels)) == 3
    assert all(len(np.unique(labels[i : i + 4])) == 1 for i in (0, 4, 8))
    total, inside, degree = 36.6, 12.0, 12.2
    by_hand = 3 * (inside / total - (degree / total) ** 2)
    assert modularity(graph, labels) == pytest.approx(by_hand)
    numbers, found, bonds = merged(graph, labels)
    assert numbers.tolist() == [3, 2, 1]
    assert found[0] == pytest.approx(by_hand)
    assert bonds[1] == pytest.approx(0.1 / total / (degree / total) ** 2)
    assert choose_number(graph, 0, None).n_clusters == 3
    assert choose_number(graph, 0, 2).n_clusters == 2


def test_the_number_is_chosen_kept_and_told(model: DeepTELL, blobs: np.ndarray) -> None:
    assert model.n_clusters == "auto"
    assert model.n_clusters_ == model.choice_.n_clusters == 4
    assert model.cluster_centers_.shape[0] == len(model.cluster_sizes_) == 4
    given = DeepTELL(4, recipe=QUICK, random_state=0).fit(blobs)
    assert np.array_equal(given.labels_, model.labels_)
    assert not hasattr(clone(model).set_params(n_clusters=4).fit(blobs), "choice_")
    assert (
        DeepTELL("auto", max_clusters=3, recipe=QUICK, random_state=0).fit(blobs).n_clusters_ == 3
    )
    assert model.refit(blobs, 1).n_clusters_ == 4


def test_it_comes_back_from_a_folder(model: DeepTELL, blobs: np.ndarray, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert isinstance(again, DeepTELL)
    assert again.n_clusters == "auto"
    assert again.choice_.to_json() == model.choice_.to_json()
    assert np.array_equal(again.predict(blobs), model.predict(blobs))
    assert np.array_equal(clone(again).fit(blobs).labels_, model.labels_)


def test_few_rows_are_one_cluster_and_other_starts_need_a_number(blobs: np.ndarray) -> None:
    assert DeepTELL("auto", recipe=QUICK, random_state=0).fit(blobs[:4]).n_clusters_ == 1
    for options in ({"start": "k-means++"}, {"recipe": "paper"}):
        with pytest.raises(ParameterError, match='"auto" must come with a start from the neigh'):
            DeepTELL("auto", **options).fit(blobs)
    with pytest.raises(ParameterError, match=r"n_clusters must be a whole number of at least 1 or"):
        DeepTELL("many").fit(blobs)
