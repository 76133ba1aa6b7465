from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from tell.exceptions import ParameterError
from tell.explain.mapping import project


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
