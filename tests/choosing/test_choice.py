"""The number of clusters: where the answer is known, and what the rule says of given curves."""

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import PowerTransformer

from tell import TELL, InputError, NotFittedError, ParameterError, choose, load
from tell.choosing import evidence as module
from tell.choosing.choice import Choice, decide
from tell.choosing.evidence import Evidence, adjusted_rand, crossed, prediction_strength
from tell.choosing.outliers import farthest_out
from tell.choosing.skew import bend, most_normal, unbend


def blobs(k: int, seed: int = 0, n: int = 500, d: int = 6) -> np.ndarray:
    random = np.random.default_rng(seed)
    return 15 * random.normal(size=(k, d))[random.integers(0, k, n)] + random.normal(size=(n, d))


def curves(m: int = 6, **given) -> Evidence:
    """Evidence in which nothing speaks for any number but what is given."""
    names = [field.name for field in dataclasses.fields(Evidence)]
    flat = {name: np.zeros(m) for name in names} | {"n_clusters": np.arange(1, m + 1)}
    usual = {"smallest": np.ones(m), "n_rows": 1000}
    return Evidence(**(flat | usual | {name: np.array(value) for name, value in given.items()}))


@pytest.mark.parametrize("k", [3, 8])
def test_groups_are_counted(k):
    found = choose(blobs(k), geometry="euclidean")
    assert found.n_clusters == k
    assert str(found).startswith(f"{k} clusters: they are")
    assert found.evidence.gap.argmax() + 1 == k


def test_without_max_clusters_the_range_grows():
    X = blobs(25, n=1000)
    found = choose(X, geometry="euclidean")
    assert found.n_clusters == 25
    assert len(found.evidence.n_clusters) == 40
    short = choose(X, geometry="euclidean", max_clusters=10)
    assert len(short.evidence.n_clusters) == 10
    assert "More than 10 clusters may be better still" in short.reasons


@pytest.mark.parametrize("kind", ["normal", "uniform", "lognormal"])
def test_rows_without_structure_are_one_cluster(kind):
    X = getattr(np.random.default_rng(0), kind)(size=(500, 4))
    found = choose(X, geometry="euclidean", max_clusters=8)
    assert found.n_clusters == 1
    assert found.runner_up is None
    assert "No cluster structure found (k = 1)" in found.reasons


def test_real_tables():
    wine = choose(load_wine().data, geometry="euclidean", standardize=True, max_clusters=10)
    iris = choose(load_iris().data, geometry="euclidean", max_clusters=10)
    assert wine.n_clusters == 3
    assert iris.n_clusters in (2, 3)


def test_directions_and_sparse_rows():
    random = np.random.default_rng(0)
    centers = random.normal(size=(4, 80))
    X = centers[random.integers(0, 4, 400)] + 0.2 * random.normal(size=(400, 80))
    X *= random.lognormal(0, 1, size=(400, 1))
    assert choose(X, max_clusters=8).n_clusters == 4  # wider than 64 columns: on main axes
    assert choose(sp.csr_array(np.where(np.abs(X) > 0.1, X, 0)), max_clusters=8).n_clusters == 4


def test_the_model_is_that_of_the_chosen_number_and_comes_back_from_its_folder(tmp_path):
    X = blobs(5)
    auto = TELL("auto", geometry="euclidean", max_clusters=8, random_state=3).fit(X)
    plain = TELL(5, geometry="euclidean", random_state=3).fit(X)
    assert auto.n_clusters_ == 5
    assert auto.n_clusters == "auto"
    assert np.array_equal(auto.cluster_centers_, plain.cluster_centers_)
    assert np.array_equal(auto.labels_, plain.labels_)
    assert not hasattr(plain, "choice_")
    auto.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params()["n_clusters"] == "auto"
    assert again.choice_.to_json() == auto.choice_.to_json()
    assert np.array_equal(again.predict(X), auto.predict(X))
    assert list(again.get_feature_names_out()) == [f"tell{i}" for i in range(5)]
    assert not hasattr(auto.set_params(n_clusters=2).fit(X), "choice_")


def test_weights_count_as_repeated_rows():
    X = blobs(3, n=60)
    weight = np.tile([1, 2, 3], 20)
    options = {"geometry": "euclidean", "max_clusters": 6}
    weighted = choose(X, sample_weight=weight, **options)
    repeated = choose(np.repeat(X, weight, axis=0), **options)
    assert weighted.evidence.n_rows == 120
    assert weighted.n_clusters == repeated.n_clusters == 3
    assert np.allclose(weighted.evidence.gap, repeated.evidence.gap, atol=1e-3)


def test_a_stream_chooses_from_its_first_rows():
    X = blobs(3, n=600)
    model = TELL("auto", geometry="euclidean", max_clusters=5, random_state=0)
    batches = np.split(X, 30)
    model.partial_fit(batches[0])
    with pytest.raises(NotFittedError, match="has seen 20 of the 32 rows"):
        model.predict(X)
    for batch in batches[1:]:
        model.partial_fit(batch)
    assert model.n_clusters_ == 3
    assert model.n_seen_ == 600


def test_few_rows_or_equal_ones_are_one_cluster():
    few = TELL("auto", geometry="euclidean").fit(np.arange(10.0).reshape(5, 2))
    assert few.n_clusters_ == 1
    assert "5 rows are too few" in few.choice_.reasons
    assert "all rows are alike" in choose(np.ones((50, 2)), geometry="euclidean").reasons


def test_huge_and_tiny_values_change_nothing():
    X = blobs(3, n=200)
    for factor in (1e-25, 1e25):
        assert choose(factor * X, geometry="euclidean", max_clusters=5).n_clusters == 3


def test_bad_values_are_named():
    X = blobs(2, n=50)
    with pytest.raises(ParameterError, match="at least 1 or \"auto\", got 'many'"):
        TELL("many").fit(X)
    with pytest.raises(ParameterError, match="max_clusters must be a whole number of at least 2"):
        choose(X, max_clusters=1)
    with pytest.raises(ParameterError, match="init by name"):
        TELL("auto", init=X[:3]).fit(X)
    with pytest.raises(InputError, match="NaN in row 1"):
        choose([[0.0, 1.0], [np.nan, 1.0]], geometry="euclidean")


# --- the rule --------------------------------------------------------------------------------


def test_of_clear_numbers_the_largest_wins_unless_its_gap_is_small():
    strength = [1, 1, 0.9, 0.5, 0.9, 0.1]
    found = decide(curves(gap=[0, 0.5, 0.9, 1.2, 0.8, 0.9], strength=strength))
    assert (found.n_clusters, found.runner_up) == (5, 3)
    found = decide(curves(gap=[0, 0.8, 0.9, 1.2, 0.7, 0.9], strength=strength))
    assert (found.n_clusters, found.runner_up) == (3, 2)


def test_without_clear_numbers_stability_times_silhouette_decides():
    given = {
        "gap": [0, 0.1, 0.2, 0.3, 0.3, 0.3],
        "stability": [1, 0.6, 0.9, 0.7, 0.4, 0.9],
        "silhouette": [0, 0.3, 0.3, 0.5, 0.9, 0.2],
    }
    found = decide(curves(**given))
    assert (found.n_clusters, found.runner_up) == (4, 3)
    assert "no number gives clusters that all come out again" in found.reasons


def test_no_gap_no_stability_or_outliers_only_is_one_cluster():
    assert decide(curves(gap=[0, 0.03, 0.02, 0, 0, 0], strength=np.ones(6))).n_clusters == 1
    noisy = {"gap": np.full(6, 0.05), "gap_error": np.full(6, 0.06), "strength": np.ones(6)}
    assert decide(curves(**noisy)).n_clusters == 1
    unstable = decide(curves(gap=np.full(6, 0.2), stability=np.full(6, 0.3)))
    assert unstable.n_clusters == 1
    assert "stability at most 0.30" in unstable.reasons
    few = {"gap": np.full(6, 0.2), "strength": np.ones(6), "smallest": np.full(6, 0.004)}
    assert "a few outliers" in decide(curves(**few)).reasons


def test_outliers_hide_groups_unless_trimmed():
    """Three groups and a row a hundred deviations away: alone in a cluster of every division."""
    random = np.random.default_rng(0)
    centers = np.array([[0, 0, 0, 0], [8, 0, 0, 0], [0, 8, 0, 0]])
    X = centers[random.integers(0, 3, 600)] + random.normal(size=(600, 4))
    X[0, 2] = 100
    options = {"geometry": "euclidean", "max_clusters": 6}
    hidden = choose(X, **options)
    assert hidden.n_clusters == 1
    assert "trim=0.01 (--trim 1%) leaves such rows out" in hidden.reasons
    found = choose(X, trim=0.01, **options)
    assert (found.n_clusters, found.evidence.n_rows) == (3, 594)
    model = TELL("auto", trim=0.01, **options).fit(X)
    assert model.n_clusters_ == 3
    assert model.trimmed_[0]
    assert "trim" not in choose(np.random.default_rng(0).normal(size=(600, 4)), **options).reasons


def test_farthest_out_is_who_has_no_neighbours():
    """A pair of outliers is found by the distance to its fifth neighbour, not to its first."""
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(700, 2)))
    x[[3, 600]] = torch.tensor([[50.0, 50.0], [50.0, 50.1]], dtype=x.dtype)
    assert farthest_out(x, 2 / 700).tolist() == [3, 600]


def test_a_choice_is_plain_json():
    found = choose(blobs(3, n=100), geometry="euclidean", max_clusters=4)
    again = Choice.from_json(json.loads(json.dumps(found.to_json())))
    assert again.table() == found.table()
    assert again.reasons == found.reasons


# --- the measures ----------------------------------------------------------------------------


def test_agreement_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    for _ in range(20):
        first, second = random.integers(0, 4, 50), random.integers(0, 6, 50)
        expected = adjusted_rand_score(first, second)
        assert np.isclose(adjusted_rand(crossed(first, second, 6)), expected)
    assert adjusted_rand(crossed(np.zeros(5, int), np.zeros(5, int), 1)) == 1.0


def test_silhouette_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    X, labels = random.normal(size=(60, 3)), random.integers(0, 4, 60)
    apart = torch.cdist(torch.from_numpy(X), torch.from_numpy(X))
    found = module._silhouette(apart, torch.from_numpy(labels), 4)
    assert np.isclose(float(found.mean()), silhouette_score(X, labels))


def test_strength_is_that_of_the_cluster_that_fares_worst():
    """Two rows of two: all pairs kept; one of three split 2 + 1: one pair of three kept."""
    assert np.isclose(prediction_strength(np.array([[2.0, 0.0], [1.0, 2.0]])), 1 / 3)
    assert prediction_strength(np.array([[2.0, 0.0], [0.0, 3.0]])) == 1.0
    assert prediction_strength(np.ones((1, 1))) == 1.0


def test_the_power_of_skew_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    columns = [
        random.normal(size=500),
        random.lognormal(0, 0.7, 500),
        -random.lognormal(0, 1, 500),
        random.poisson(0.1, 500),
    ]
    X = np.column_stack(columns)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    expected = PowerTransformer(standardize=False).fit(X)
    found = most_normal(X)
    assert np.allclose(found, expected.lambdas_, atol=0.02)
    assert np.allclose(bend(X, expected.lambdas_), expected.transform(X))
    assert np.allclose(unbend(bend(X, found), found), X)
