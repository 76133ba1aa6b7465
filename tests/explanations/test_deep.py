from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tell.contract import unit
from tell.explanations import Explanation


def test_attributions_are_complete(deep_facts: Explanation) -> None:
    point = deep_facts.points[0]
    total = sum(one.amount for one in point.contributions)
    assert point.method == "integrated gradients"
    assert point.baseline_margin + total == pytest.approx(
        point.margin, abs=0.03 * abs(point.margin - point.baseline_margin) + 1e-3
    )
    assert len(point.contributions) == 64


def test_the_way_leads_over_the_boundary_to_the_other_centre(
    deep: Any, deep_facts: Explanation
) -> None:
    point = deep_facts.points[0]
    found = point.counterfactual
    assert found is not None
    assert found.path is not None
    assert found.path.shape == (9, 64)
    centers = unit(deep.model.cluster_centers_.astype(float))
    ends = deep.model.centers_in_units().reshape(10, -1)
    np.testing.assert_allclose(found.path[-1], ends[found.cluster], atol=1e-4)
    start = unit(deep.model.embed(deep.X[3:4]).astype(float))
    own = deep.model.decode(start).reshape(-1)
    np.testing.assert_allclose(found.path[0], own, atol=1e-4)
    direction = centers[found.cluster] - centers[point.cluster]
    height = -float(direction @ start[0]) / float(np.linalg.norm(direction))
    assert found.distance == pytest.approx(height, rel=1e-3)


def test_images_of_a_deep_model_keep_their_shape(deep_facts: Explanation) -> None:
    assert deep_facts.data.shape is not None
    assert deep_facts.data.shape[-2:] == (8, 8)
    assert deep_facts.clusters[0].picture.shape == (64,)
