"""The tools of benchmarks/explanations.py, held against the models and against other formulas."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tell import DeepTELL

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from explainers import Question, gradients, torch_path
from explanation_gates import matched_greedily
from explanation_measures import Study, curve, size
from explanation_models import by_weights
from explanation_sets import Case, Centres, Network, as_arrays, from_arrays
from reader import by_members, printed_groups


@pytest.fixture(scope="module")
def deep() -> tuple[DeepTELL, np.ndarray, Network]:
    X = (load_digits().data[:300] / 16).astype(np.float32)
    model = DeepTELL(5, encoder="fcn", epochs=1, n_init=1, random_state=0).fit(X)
    return model, X, by_weights(model)


def test_a_network_by_its_weights_is_the_model(deep: tuple[DeepTELL, np.ndarray, Network]) -> None:
    model, X, network = deep
    assert network.placed(X) == pytest.approx(model.embed(X), abs=1e-5)
    assert (network.predict(X) == model.predict(X)).all()
    scores = torch_path(network).scores(torch_path(network).tensor(X)).numpy()
    assert -scores == pytest.approx(model.transform(X) ** 2, abs=1e-4)
    again = from_arrays(
        {f"main {name}": part for name, part in as_arrays(network).items()}, "main "
    )
    assert np.array_equal(again.placed(X), network.placed(X))


def test_integrated_gradients_sum_to_the_margin(deep: tuple[DeepTELL, np.ndarray, Network]) -> None:
    _, X, network = deep
    mean = X.mean(axis=0)
    asked = Question(network, X, mean, X[:6], network.predict(X[:6]))
    rows, start = network.squared(X[:6]), network.squared(mean[None])[0]
    j, k, n = asked.clusters, asked.runner_up(), np.arange(6)
    meant = rows[n, k] - rows[n, j] - start[k] + start[j]
    assert gradients(asked).sum(axis=1) == pytest.approx(meant, abs=0.02)


def test_deletion_by_hand() -> None:
    """Two columns, of which the first decides: taken first, the row is lost after one of two."""
    X = np.array([[0.0, 0.0], [10.0, 0.0]])
    case = Case(X, ["a", "b"], 2)
    study = Study(case, Centres(X, "euclidean"), None, X[1:], np.array([1]), X[:0])
    first = curve(study, np.array([[2.0, 1.0]]), insert=False, absent=X[0])
    last = curve(study, np.array([[1.0, 2.0]]), insert=False, absent=X[0])
    assert first == pytest.approx([0.25])  # kept 1, 0, 0
    assert last == pytest.approx([0.75])  # kept 1, 1, 0
    assert size(np.array([[9.0, 1.0, -5.0], [1.0, 1.0, 1.0]])) == [1, 3]


def test_accuracy_as_idc_counts_it() -> None:
    labels, classes = np.array([0, 0, 0, 1, 1, 2]), np.array([5, 5, 3, 3, 3, 3])
    assert matched_greedily(classes, labels) == pytest.approx(4 / 6)


def test_a_reader_of_groups_takes_the_nearest() -> None:
    text = printed_groups(np.array([[0.0], [1.0], [9.0]]), np.array([0, 0, 1]), ["x"])
    said = by_members(text(0), {"x": np.array([0.2, 4.0, 8.0])})
    assert said.tolist() == [True, True, False]
