from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from tell.exceptions import ParameterError
from tell.explanations.mapping import fitting_method, project


def test_tsne_keeps_groups_together_and_repeats_itself(planted: Any) -> None:
    few = np.arange(0, 600, 4)
    centers = np.stack([planted.values[planted.y == j].mean(axis=0) for j in range(3)])
    flat, stars = project(planted.values[few], centers, method="tsne", seed=3)
    again, _ = project(planted.values[few], centers, method="tsne", seed=3)
    np.testing.assert_array_equal(flat, again)
    near = KNeighborsClassifier(5).fit(flat, planted.y[few])
    assert near.score(flat, planted.y[few]) > 0.98
    assert near.predict(stars).tolist() == [0, 1, 2]


def test_one_feature_still_gives_a_plane() -> None:
    flat, stars = project(np.arange(5.0)[:, None], np.array([[2.0]]), method="pca")
    assert flat.shape == (5, 2)
    assert stars.tolist() == [[0.0, 0.0]]


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(ParameterError, match="umap"):
        project(np.zeros((3, 2)), np.zeros((1, 2)), method="umap")


@pytest.mark.parametrize("distinct", [1, 2])
@pytest.mark.parametrize("columns", [1, 3])
def test_rows_that_tsne_cannot_lay_out_are_laid_out_all_the_same(
    distinct: int, columns: int
) -> None:
    rows = np.repeat(np.arange(distinct, dtype=float)[:, None] + np.ones(columns), 30, axis=0)
    flat, stars = project(rows, rows[:1], method="tsne")
    assert flat.shape == (30 * distinct, 2)
    assert np.isfinite(flat).all()
    np.testing.assert_allclose(stars[0], flat[0], atol=1e-9)


def test_rounding_alone_is_no_variance() -> None:
    rows = 1e6 + np.random.default_rng(0).normal(scale=1e-9, size=(40, 3))
    assert fitting_method(rows, "tsne") == "pca"
    assert fitting_method(rows - 1e6, "tsne") == "tsne"
    assert fitting_method(rows[:, :1] - 1e6, "tsne") == "pca"


def test_one_column_has_a_map() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 1))
    flat, _ = project(rows, rows[:2])
    assert np.ptp(flat[:, 0]) > 0
    assert np.all(flat[:, 1] == 0)
