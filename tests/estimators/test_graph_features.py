"""Edge directions of known images, and what they are for."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from tell.estimators.deep.recipes.graph_features import (
    GraphFeatures,
    PrincipalComponents,
    edge_directions,
)
from tell.estimators.deep.recipes.neighbours import nearest_neighbours


def test_a_ramp_points_one_way_only() -> None:
    ramp = torch.arange(20.0).expand(1, 1, 20, 20)  # brighter to the right
    strength = edge_directions(ramp).reshape(8, 25).mean(1)
    # Central differences are 2; a direction at angle a has 2 cos² a where cos a > 0.
    assert strength.tolist() == pytest.approx([2, 1, 0, 0, 0, 0, 0, 1], abs=1e-5)


def test_small_images_are_enlarged_first() -> None:
    """Cells of five pixels are too large for 8 × 8, and smaller ones see hardly an edge."""
    small = torch.rand(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    large = torch.nn.functional.interpolate(small, size=(20, 20), mode="bicubic")
    assert edge_directions(small).shape == (3, 200)
    torch.testing.assert_close(edge_directions(small), edge_directions(large))
    assert edge_directions(torch.rand(3, 1, 28, 28)).shape == (3, 512)  # as they are


def test_components_keep_distances_when_none_is_left_out() -> None:
    x = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    y = PrincipalComponents(x, 5)(x)
    exact = {"compute_mode": "donot_use_mm_for_euclid_dist"}
    torch.testing.assert_close(torch.cdist(y, y, **exact), torch.cdist(x, x, **exact))


def test_rows_that_come_later_are_seen_in_the_same_directions() -> None:
    images = torch.rand(50, 1, 12, 12)
    features = GraphFeatures(images)
    torch.testing.assert_close(features(images)[7:9], features(images[7:9]))


@pytest.mark.parametrize("shape", [(7,), (1, 3, 9), (2, 2, 2)])
def test_tables_and_tiny_images_stay_as_they_are(shape: tuple[int, ...]) -> None:
    x = torch.randn(10, *shape)
    assert torch.equal(GraphFeatures(x)(x), x.flatten(1))


def test_neighbours_of_digits_are_digits_of_the_same_kind() -> None:
    digits = load_digits()
    y = torch.from_numpy(digits.target)
    images = torch.from_numpy(digits.images).float()[:, None] / 16
    found = nearest_neighbours(GraphFeatures(images)(images), 10)
    assert (y[found.row] == y[:, None]).float().mean() > 0.96
