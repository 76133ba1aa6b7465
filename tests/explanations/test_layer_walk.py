"""One row through the layer: the drawn numbers, computed again from the model itself."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell.explanations import Explanation, explain
from tell.explanations.html_report import render_report
from tell.explanations.layer_walk import MOST_FEATURES, MOST_LINES, walk

from .conftest import Case


@pytest.mark.parametrize("name", ["wine", "deep"])
def test_the_four_parts_are_the_models_own(name: str, request: pytest.FixtureRequest) -> None:
    case: Case = request.getfixturevalue(name)
    facts: Explanation = request.getfixturevalue(f"{name}_facts")
    point = facts.points[0]
    found = walk(point, facts.clusters, on_sphere=True)
    distances = case.model.transform(case.X)[point.row].astype(float)
    nearest = np.argsort(distances)
    assert [line.cluster for line in found.lines] == nearest[:MOST_LINES].tolist()
    for line in found.lines:
        assert line.dissimilarity == pytest.approx(distances[line.cluster] ** 2, abs=1e-4)
        assert line.score == pytest.approx(1 - distances[line.cluster] ** 2, abs=1e-4)
    assert found.beta == 1
    assert found.loss == pytest.approx(distances.min() ** 2, abs=1e-4)
    soft = np.exp(-(distances**2) / point.attention_temperature)
    assert found.soft_loss == pytest.approx((soft / soft.sum()) @ distances**2, abs=1e-4)
    assert sum(line.assignment for line in found.lines) == pytest.approx(1)


def test_distances_in_the_plane_have_a_bias_and_wide_rows_are_cut() -> None:
    X = np.random.default_rng(0).normal(size=(120, 100)) + np.repeat([[0], [4], [9]], 40, axis=0)
    model = KMeans(3, n_init=1, random_state=0).fit(X)
    facts = explain(model, X, rows=[50], map_method=None, quality=False)
    found = walk(facts.points[0], facts.clusters, on_sphere=False)
    own = model.cluster_centers_[model.labels_[50]]
    assert found.beta == pytest.approx(X[50] @ X[50])
    assert found.lines[0].score == pytest.approx(2 * own @ X[50] - own @ own)
    assert found.loss == pytest.approx(((X[50] - own) ** 2).sum())
    assert found.weights.shape == (3, MOST_FEATURES)
    assert found.x.shape == (MOST_FEATURES,)


def test_the_report_draws_the_least_certain_row(wine_facts: Explanation) -> None:
    page = render_report(wine_facts)
    least = min(wine_facts.points, key=lambda point: point.attention.max())
    assert f"Row {least.row} on its way through the layer" in page
    body = page.split("on its way through the layer")[1]
    lines = re.findall(r"<tr style.*?</tr>", body)[:3]
    squared = np.sort(least.squared_distances)
    for line, expected in zip(lines, squared, strict=True):
        cells = re.findall(r"<td>([−\d.]+)</td>", line)
        assert float(cells[2]) == pytest.approx(expected, rel=1e-3)
        assert float(cells[1].replace("−", "-")) == pytest.approx(1 - expected, rel=2e-3)
