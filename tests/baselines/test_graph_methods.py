"""SC, LSC, ZAC and NMF: exact small cases, two moons, and what their updates promise."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_moons

from tell.baselines import make
from tell.baselines.lsc import landmark_codes, left_singular_vectors
from tell.baselines.nearest_rows import directed_graph, nearest_rows
from tell.baselines.nmf import GraphNMF, objective, update
from tell.baselines.spectral import spectral_labels
from tell.baselines.zac import ZAC, _Merger, _transitions
from tell.metrics import accuracy


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")  # the moons are apart
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("sc", {}),
        ("lsc-r", {"n_landmarks": 150, "n_nearest": 3}),
        ("lsc-k", {"n_landmarks": 100, "n_nearest": 3}),
        ("zac", {}),
    ],
)
def test_two_moons(name, parameters):
    X, y = make_moons(400, noise=0.04, random_state=0)
    assert accuracy(y, make(name, 2, **parameters).fit_predict(X)) >= 0.99
    # The task is a real one: k-means cuts across the moons.
    assert accuracy(y, make("kmeans", 2).fit_predict(X)) < 0.9


def test_nearest_rows_excludes_the_row_itself_and_caps_k():
    X = np.array([[0.0], [1.0], [3.0]])
    squared, index = nearest_rows(X, 5)
    assert index.tolist() == [[1, 2], [0, 2], [1, 0]]
    assert squared.tolist() == [[1.0, 9.0], [1.0, 4.0], [4.0, 9.0]]
    assert directed_graph(squared, index)[2, 1] == 4.0


def test_spectral_labels_keep_an_isolated_row_apart():
    affinity = scipy.linalg.block_diag(np.ones((4, 4)), np.ones((4, 4)), np.zeros((1, 1)))
    labels = spectral_labels(affinity, 3, np.random.RandomState(0))
    assert len(set(labels[:4])) == len(set(labels[4:8])) == 1
    assert labels[0] != labels[4]


def test_landmark_codes_are_nadaraya_watson_weights():
    X, landmarks = np.array([[0.0], [1.0]]), np.array([[0.0], [2.0], [9.0]])
    # Distances to the two nearest landmarks: (0, 2) and (1, 1), so the bandwidth is 1.
    kernel = np.exp(-np.array([0.0, 4.0]) / 2)
    expected = [[*(kernel / kernel.sum()), 0.0], [0.5, 0.5, 0.0]]
    np.testing.assert_allclose(landmark_codes(X, landmarks, 2).toarray(), expected)


def test_landmark_vectors_are_the_eigenvectors_of_the_implied_affinity():
    X = load_digits(return_X_y=True)[0][:120]
    codes = landmark_codes(X, X[::6], 4)
    dense = codes.toarray()
    affinity = dense / np.maximum(dense.sum(axis=0), 1e-300) @ dense.T
    values, vectors = np.linalg.eigh(affinity)
    ours = left_singular_vectors(codes, 5)
    assert values[-1] == pytest.approx(1.0)  # the implied affinity is doubly stochastic
    np.testing.assert_allclose(vectors[:, -1], vectors[0, -1])  # so its first vector is constant
    np.testing.assert_allclose(np.abs(ours.T @ vectors[:, -6:-1]), np.eye(5), atol=1e-6)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_fewer_landmarks_than_clusters_give_the_vectors_there_are(p):
    X = np.random.default_rng(0).normal(size=(30, 2))
    vectors = left_singular_vectors(landmark_codes(X, X[:p], 2), 3)
    assert vectors.shape == (30, max(1, p - 1))
    assert np.isfinite(vectors).all()


def log_zeta(P, z):
    """ln ζ_z of a weighted directed graph (m, m): all its cycles, −ln det(I − zP)."""
    return float(-np.linalg.slogdet(np.eye(len(P)) - z * P)[1])


def popularity(P, z):
    """How much ln ζ_z falls when a vertex leaves: ln [(I − zP)⁻¹]_ii by Cramer's rule."""
    return np.log(np.diag(np.linalg.inv(np.eye(len(P)) - z * P)))


def test_unions_by_blocks_are_the_inverses_of_the_whole():
    X = load_digits(return_X_y=True)[0][:60]
    P = _transitions(*nearest_rows(X, 5), scale=1.0)
    z = 0.3  # large enough that an approximation would show
    merger = _Merger(P, np.arange(60) // 4, z)
    for a, b in ((0, 1), (2, 3), (0, 2), (5, 0)):
        rows_a, rows_b = merger.members[a], merger.members[b]
        joint = popularity(P[np.ix_(both := np.concatenate([rows_a, rows_b]), both)], z)
        alone = [popularity(P[np.ix_(rows, rows)], z).mean() for rows in (rows_a, rows_b)]
        gain = joint[: len(rows_a)].mean() + joint[len(rows_a) :].mean() - sum(alone)
        merger._weigh(a, b)
        assert merger.gains[min(a, b), max(a, b)] == pytest.approx(gain, rel=1e-9)
        merger.merge(a, b)
        rows = merger.members[a]
        whole = np.linalg.inv(np.eye(len(rows)) - z * P[np.ix_(rows, rows)])
        np.testing.assert_allclose(merger.inverse[a], whole, atol=1e-12)


def test_zeta_of_a_triangle_by_hand():
    """0 → 1 → 2 → 0 with probability p, and 1 → 0 with q: cycles p·p·p (length 3) and p·q (2)."""
    p, q, z = 0.6, 0.4, 0.5
    P = np.array([[0, p, 0], [q, 0, p], [p, 0, 0]])
    determinant = 1 - z**2 * p * q - z**3 * p**3
    assert log_zeta(P, z) == pytest.approx(-np.log(determinant))
    # Without vertex 2 only the short cycle is left; without 0 or 1 none is.
    expected = [
        -np.log(determinant),
        -np.log(determinant),
        np.log((1 - z**2 * p * q) / determinant),
    ]
    np.testing.assert_allclose(popularity(P, z), expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 7), st.floats(0.01, 0.9), st.integers(0, 10_000))
def test_popularity_is_what_log_zeta_loses_without_the_vertex(m, z, seed):
    P = np.random.default_rng(seed).random((m, m))
    np.fill_diagonal(P, 0.0)
    P /= P.sum(axis=1, keepdims=True)
    for vertex in range(m):
        rest = np.delete(np.delete(P, vertex, 0), vertex, 1)
        assert popularity(P, z)[vertex] == pytest.approx(log_zeta(P, z) - log_zeta(rest, z))


def test_log_zeta_sums_the_closed_walks():
    rng = np.random.default_rng(0)
    P, z = rng.random((5, 5)) / 10, 0.3
    walks = sum(z**m / m * np.trace(np.linalg.matrix_power(P, m)) for m in range(1, 60))
    assert log_zeta(P, z) == pytest.approx(walks)


def test_zac_joins_groups_without_common_cycles_by_distance():
    X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2], [50.0], [50.1], [50.2]])
    assert ZAC(2, n_neighbors=2).fit_predict(X).tolist() == [0] * 6 + [1] * 3


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 100), st.integers(0, 10_000))
def test_nmf_steps_never_raise_the_objective(graph_weight, seed):
    rng = np.random.default_rng(seed)
    X, U, V = rng.random((12, 6)), rng.random((6, 3)) + 0.1, rng.random((12, 3)) + 0.1
    half = scipy.sparse.random_array((12, 12), density=0.3, rng=rng)
    graph = scipy.sparse.csr_array(half + half.T)
    value = objective(X, U, V, graph, graph_weight)
    for _ in range(15):
        U, V = update(X, U, V, graph, graph_weight)
        lower = objective(X, U, V, graph, graph_weight)
        assert lower <= value * (1 + 1e-9)
        value = lower


def test_nmf_reads_data_with_negative_columns_as_shifted():
    X = load_digits(return_X_y=True)[0][:300]
    moved = X - X.max(axis=0)
    lifted = moved - np.minimum(moved.min(axis=0), 0)
    labels = [GraphNMF(5, random_state=0).fit_predict(data) for data in (moved, lifted)]
    np.testing.assert_array_equal(*labels)


def test_nmf_graph_helps_on_digits():
    X, y = load_digits(return_X_y=True)
    plain = make("nmf", 10, graph_weight=0.0).fit_predict(X)
    regularised = make("nmf", 10).fit_predict(X)
    assert accuracy(y, regularised) > accuracy(y, plain) + 0.1
