"""LRR, LSR and SLRR against their closed forms and on planted subspaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tell.baselines import make
from tell.baselines.slrr import residual_labels
from tell.baselines.subspace import (
    least_squares_representation,
    low_rank_affinity,
    low_rank_representation,
    unit_columns,
)
from tell.metrics import accuracy


def planted_subspaces(per_subspace=60, noise=0.0, seed=0):
    """Five random 4-d subspaces in 100-d: rows (n, 100) and their subspace (n,)."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.normal(size=(100, 4)))[0] for _ in range(5)]
    X = np.concatenate([rng.normal(size=(per_subspace, 4)) @ basis.T for basis in bases])
    return X + noise * rng.normal(size=X.shape), np.repeat(np.arange(5), per_subspace)


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("name", ["lrr", "lsr1", "lsr2"])
def test_planted_subspaces_are_recovered(name, noise):
    X, y = planted_subspaces(noise=noise)
    assert accuracy(y, make(name, 5).fit_predict(X)) >= 0.95


def test_slrr_recovers_planted_subspaces_from_landmarks():
    X, y = planted_subspaces(per_subspace=200)
    model = make("slrr", 5, n_landmarks=200).fit(X)
    assert len(model.landmark_indices_) == 200
    assert accuracy(y, model.labels_) >= 0.95


def test_lrr_without_noise_is_the_shape_matrix():
    """Liu et al. 2013, theorem 4.1: the unique solution is V Vᵀ of the skinny SVD."""
    X, _ = planted_subspaces(per_subspace=12)
    D = unit_columns(X)
    Z = low_rank_representation(D, noise_weight=100.0)
    _, singular, Vt = np.linalg.svd(D, full_matrices=False)
    V = Vt[singular > 1e-8].T
    np.testing.assert_allclose(Z.basis @ Z.code, V @ V.T, atol=1e-5)


def test_lrr_puts_a_corrupted_sample_into_the_error_term():
    rng = np.random.default_rng(1)
    D = rng.normal(size=(20, 3)) @ rng.normal(size=(3, 400))
    D[:, 7] += 10 * rng.normal(size=20)
    Z = low_rank_representation(D, noise_weight=0.015)
    error = np.linalg.norm(D - D @ Z.basis @ Z.code, axis=0)
    assert error.argmax() == 7
    assert error[7] > 20 * np.delete(error, 7).max()


def test_lrr_affinity_of_independent_subspaces_is_block_diagonal():
    X, y = planted_subspaces(per_subspace=12)
    affinity = low_rank_affinity(low_rank_representation(unit_columns(X), 100.0))
    assert affinity[y[:, None] != y].max() < 1e-6
    np.testing.assert_allclose(affinity, affinity.T)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(2, 12), st.floats(0.01, 10), st.integers(0, 10_000))
def test_lsr_closed_forms_satisfy_their_optimality_conditions(d, n, ridge, seed):
    D = np.random.default_rng(seed).normal(size=(d, n))
    gram = D.T @ D
    Z = least_squares_representation(D, ridge, zero_diagonal=False)
    np.testing.assert_allclose((gram + ridge * np.eye(n)) @ Z, gram, atol=1e-7)
    Z = least_squares_representation(D, ridge, zero_diagonal=True)
    assert not np.diag(Z).any()
    # Zero gradient everywhere but on the diagonal, where the constraint pushes back.
    gradient = gram @ Z - gram + ridge * Z
    np.fill_diagonal(gradient, 0.0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-7)


def test_residual_labels_follow_the_subspace_not_the_nearest_row():
    dictionary = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    labels = residual_labels(np.array([[3.0], [4.0], [0.0]]), dictionary, np.array([0, 0, 1]), 0.1)
    assert labels.tolist() == [0]
