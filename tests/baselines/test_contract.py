"""What holds for every comparison method: scikit-learn's contract, errors, the memory limit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from tell.baselines import METHODS, make, names
from tell.baselines.fuzzy import FuzzyCMeans
from tell.baselines.lsc import LSC
from tell.baselines.nmf import GraphNMF
from tell.baselines.slrr import SLRR
from tell.baselines.subspace import LRR, LSR
from tell.baselines.zac import ZAC
from tell.exceptions import InputError, ParameterError

OWN = [
    FuzzyCMeans(),
    LRR(),
    LSR(zero_diagonal=True),
    LSR(zero_diagonal=False),
    SLRR(),
    LSC(landmarks="random"),
    LSC(landmarks="k-means"),
    GraphNMF(),
    ZAC(),
]


@pytest.fixture(scope="module")
def blobs():
    """Three clouds around orthogonal directions: a case that every method must solve."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = np.repeat(np.eye(3, 6) * 5.0, 40, axis=0) + rng.normal(0, 0.3, (120, 6))
    order = rng.permutation(120)
    return np.abs(X)[order], y[order]


@parametrize_with_checks(OWN)
def test_scikit_learn_contract(estimator, check, threads):
    check(estimator)


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")  # clusters are far apart
@pytest.mark.parametrize("name", [n for n in names() if n not in ("dec", "vade")])
def test_same_seed_same_labels_and_all_clusters_used(name, blobs):
    X, y = blobs
    first = make(name, 3, random_state=7).fit_predict(X)
    again = make(name, 3, random_state=7).fit_predict(X)
    np.testing.assert_array_equal(first, again)
    assert set(first) == {0, 1, 2}
    assert adjusted_rand_score(y, first) > 0.9


@pytest.mark.parametrize("name", names())
def test_make_passes_the_number_of_clusters_and_the_seed(name):
    parameters = make(name, 4, random_state=9).get_params()
    assert parameters[METHODS[name].count] == 4
    assert parameters["random_state"] == 9


def test_unknown_names_are_refused_with_the_list():
    with pytest.raises(ParameterError, match=r"one of kmeans, gmm.*got 'kmean'"):
        make("kmean", 3)
    with pytest.raises(ParameterError, match=r"lrr has no such parameter.*noise"):
        make("lrr", 3, noise=1)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FuzzyCMeans(2, fuzziness=1.0), "fuzziness must be above 1, got 1.0"),
        (LRR(2, noise_weight=0), "noise_weight must be above 0, got 0"),
        (LSR(2, ridge=-1), "ridge must be above 0, got -1"),
        (SLRR(2, ridge=0), "ridge must be above 0, got 0"),
        (SLRR(4, n_landmarks=3), "n_landmarks must be at least n_clusters=4, got 3"),
        (LSC(4, n_landmarks=3), "n_landmarks must be at least n_clusters=4, got 3"),
        (LSC(2, landmarks="grid"), "landmarks must be .* got 'grid'"),
        (LSC(2, n_nearest=0), "n_nearest must be at least 1, got 0"),
        (GraphNMF(2, graph_weight=-1), "graph_weight must be at least 0, got -1"),
        (GraphNMF(2, n_neighbors=0), "n_neighbors must be at least 1, got 0"),
        (ZAC(2, z=1.0), "z must be between 0 and 1, got 1.0"),
        (ZAC(2, scale=0), "scale must be above 0, got 0"),
        (ZAC(2, n_neighbors=0), "n_neighbors must be at least 1, got 0"),
        (LRR(4, sample=3), "sample must be at least n_clusters=4, got 3"),
        (LRR(0), "n_clusters must be an integer of at least 1, got 0"),
        (LRR(2.5), "n_clusters must be an integer of at least 1, got 2.5"),
    ],
)
def test_bad_options_are_refused_by_name(model, message, blobs):
    with pytest.raises(ParameterError, match=message):
        model.fit(blobs[0])


@pytest.mark.parametrize("model", OWN, ids=lambda m: repr(m))
def test_more_clusters_than_rows(model):
    with pytest.raises(InputError, match="n_clusters=4 needs at least 4 rows, got n_samples=3"):
        clone(model).set_params(n_clusters=4).fit(np.eye(3))


@pytest.mark.parametrize("model", OWN, ids=lambda m: repr(m))
def test_duplicated_rows_do_not_break_a_method(model):
    X = np.repeat([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], 15, axis=0)
    labels = clone(model).set_params(n_clusters=2).fit_predict(X)
    assert adjusted_rand_score(np.repeat([0, 1], 15), labels) == 1.0


@pytest.mark.parametrize("name", ["lrr", "lsr1", "lsr2", "zac"])
def test_memory_limit_names_the_need_and_the_remedy(name, blobs):
    model = make(name, 3, memory_limit=1e-4)
    with pytest.raises(InputError, match=r"needs about 0\.0 GB.*sample=5000") as error:
        model.fit(blobs[0])
    assert "memory_limit=0.0001 GB" in str(error.value)
    assert not hasattr(model, "labels_")


@pytest.mark.parametrize("name", ["lrr", "lsr1", "lsr2", "zac"])
def test_memory_estimate_grows_as_n_squared(name):
    model = make(name, 3)
    assert 3.9 < model.memory_needed(40_000, 10) / model.memory_needed(20_000, 10) < 4.1


@pytest.mark.parametrize("name", ["lrr", "lsr1", "lsr2", "zac"])
def test_sample_labels_the_other_rows_and_marks_them(name, blobs):
    X, y = blobs
    whole = make(name, 3).fit(X)
    assert not whole.extended_.any()
    part = make(name, 3, sample=60).fit(X)
    assert part.extended_.sum() == len(X) - 60
    assert adjusted_rand_score(y, part.labels_) > 0.9
    nearest = KNeighborsClassifier(1).fit(X[~part.extended_], part.labels_[~part.extended_])
    np.testing.assert_array_equal(nearest.predict(X), part.labels_)
