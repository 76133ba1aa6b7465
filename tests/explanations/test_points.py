from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from tell import TELL
from tell.adapter import KMeansAdapter
from tell.contract import AffineInput, unit
from tell.exceptions import ParameterError
from tell.explanations import Explanation, explain
from tell.explanations.points import margin_contributions, nearest_in_cell
from tell.explanations.view import ModelView, view_model

from .conftest import Case


def layer_input(model: TELL, X: Any) -> Any:
    """What the layer sees, written down independently of the code under test."""
    rows = np.asarray(X, np.float32).astype(np.float64)  # chunks are float32
    if model.mean_ is not None:
        rows = (rows - model.mean_) / model.scale_
    return (
        rows / np.linalg.norm(rows, axis=1, keepdims=True) if model.geometry == "sphere" else rows
    )


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("standardize", [False, True])
def test_contributions_sum_to_the_margin_of_the_layer(
    wine: Any, geometry: str, standardize: bool
) -> None:
    model = TELL(4, geometry=geometry, standardize=standardize, random_state=1).fit(wine.X)
    W = 2 * np.asarray(model.cluster_centers_, np.float64)
    b = -np.einsum("ij,ij->i", W, W) / 4
    facts = explain(model, wine.X, rows=range(0, 178, 7), map_method=None, quality=False)
    Z = layer_input(model, wine.X)
    for point in facts.points:
        j, k = point.cluster, point.runner_up
        margin = (W[j] - W[k]) @ Z[point.row] + b[j] - b[k]
        total = sum(one.amount for one in point.contributions)
        assert abs(total - margin) < 1e-5
        assert abs(point.margin - margin) < 1e-5
        assert len(point.contributions) == 13
    assert [point.cluster for point in facts.points] == list(model.labels_[::7])


def test_planted_reasons_are_named_first(planted: Any) -> None:
    view = view_model(planted.model)
    Z = view.layer_rows(planted.values)
    order = np.argsort(view.squared_distances(Z), axis=1)
    amounts = margin_contributions(view, Z, order[:, 0], order[:, 1])
    first_two = np.sort(np.argsort(-np.abs(amounts), axis=1)[:, :2], axis=1)
    assert np.all(first_two == planted.informative, axis=1).mean() >= 0.99


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_the_counterfactual_flips_the_model_and_nothing_shorter_does(
    wine: Any, geometry: str
) -> None:
    model = TELL(3, geometry=geometry, standardize=True, random_state=0).fit(wine.values)
    facts = explain(model, wine.values, rows=range(0, 178, 11), map_method=None, quality=False)
    random = np.random.default_rng(0)
    for point in facts.points:
        found = point.counterfactual
        assert found is not None
        assert found.boundary is not None
        x = wine.values[point.row]
        beyond = x + 1.01 * (found.boundary - x)
        before = x + 0.98 * (found.boundary - x)
        assert model.predict(np.stack([beyond, before])).tolist() == [found.cluster, point.cluster]
        step = random.normal(size=(200, 13))
        step *= 0.97 * found.distance / np.linalg.norm(step, axis=1, keepdims=True)
        assert np.all(model.predict(x + step * model.scale_) == point.cluster)


def make_view(centers: Any, geometry: str = "euclidean") -> ModelView:
    model = KMeansAdapter(SimpleNamespace(cluster_centers_=np.asarray(centers), predict=None))
    about = replace(model.describe(), geometry=geometry)
    centers = unit(model.cluster_centers_) if geometry == "sphere" else model.cluster_centers_
    return ModelView(model, about, AffineInput(), centers)


def test_a_third_cluster_in_between_is_walked_around() -> None:
    view = make_view([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
    reached = nearest_in_cell(view, np.array([-1.0, 0.5]), target=2)
    np.testing.assert_allclose(reached, [3.0, 0.5], atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["euclidean", "sphere"]))
def test_the_nearest_point_of_a_cell_lies_in_it_and_is_nearest(seed: int, geometry: str) -> None:
    random = np.random.default_rng(seed)
    view = make_view(random.normal(size=(5, 3)), geometry)
    row = random.normal(size=3)
    target = int(np.argsort(view.squared_distances(_layer(view, row)))[0, 1])
    reached = nearest_in_cell(view, row, target)
    squared = view.squared_distances(_layer(view, reached))[0]
    assert squared[target] <= squared.min() + 1e-6
    inside = random.normal(size=(4000, 3)) * 2
    mine = inside[view.squared_distances(_layer(view, inside)).argmin(axis=1) == target]
    if len(mine):
        nearest = np.linalg.norm(mine - row, axis=1).min()
        assert np.linalg.norm(reached - row) <= nearest + 1e-9


def _layer(view: ModelView, rows: Any) -> Any:
    rows = np.atleast_2d(rows)
    return unit(rows) if view.on_sphere else rows


def test_attention_is_a_share_of_every_centre(wine_facts: Explanation) -> None:
    for point in wine_facts.points:
        assert point.attention.sum() == pytest.approx(1)
        assert point.attention.argmax() == point.cluster
        assert point.assignment.tolist() == np.eye(3)[point.cluster].tolist()


def test_the_summary_names_the_strongest_reason(wine_facts: Explanation) -> None:
    point = wine_facts.points[0]
    assert point.summary.startswith(f"Row 17 is in cluster {point.cluster}")
    assert point.contributions[0].name in point.summary
    assert point.counterfactual is not None
    assert point.counterfactual.changes[0].name in point.summary


def test_a_single_cluster_has_no_other_side() -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    facts = explain(KMeans(1, n_init=1).fit(X), X, rows=[3], map_method="pca")
    assert facts.points[0].counterfactual is None
    assert "the only one" in facts.points[0].summary


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_the_counterfactual_itself_belongs_to_the_other_cluster(geometry: Any) -> None:
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    model = TELL(5, geometry=geometry, standardize=True, random_state=0).fit(X)
    facts = explain(model, X, rows=range(60), map_method=None, quality=False)
    for point in facts.points:
        assert point.counterfactual is not None
        assert model.predict(point.counterfactual.values[None])[0] == point.counterfactual.cluster


def test_a_counterfactual_through_the_origin_has_a_direction() -> None:
    model = TELL(2, random_state=0).fit([[1.0], [2.0], [-1.0], [-2.0]])
    for point in explain(model, [[1.5], [-1.5]], rows=[0, 1], map_method=None).points:
        assert point.counterfactual is not None
        assert model.predict(point.counterfactual.values[None])[0] == point.counterfactual.cluster


@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_no_cluster_at_all_is_nearer_than_the_smallest_change(wine: Any, geometry: str) -> None:
    model = TELL(6, geometry=geometry, standardize=True, random_state=0).fit(wine.values)
    view = view_model(model)
    facts = explain(model, wine.values, rows=range(178), map_method=None, quality=False)
    elsewhere = 0
    for point in facts.points:
        row = view.path.apply(wine.values[point.row][None])[0]
        ways = [
            float(np.linalg.norm(nearest_in_cell(view, row, k) - row))
            for k in range(6)
            if k != point.cluster
        ]
        found = point.counterfactual
        assert found is not None
        assert found.distance == pytest.approx(min(ways), rel=1e-3, abs=1e-4)
        if found.cluster != point.runner_up:
            elsewhere += 1
            assert f"It moves to cluster {found.cluster} with" in point.summary
        else:
            assert "It moves there with" in point.summary
    assert elsewhere > 0


def test_a_twin_of_the_own_centre_is_not_where_a_row_can_go() -> None:
    model = KMeans(3, n_init=1, random_state=0).fit([[0.0], [1.0], [5.0]])
    model.cluster_centers_ = np.array([[0.0], [0.0], [5.0]])
    (point,) = explain(model, [[1.0]], rows=[0], map_method=None, quality=False).points
    assert point.counterfactual is not None
    assert point.counterfactual.cluster == 2
    assert point.counterfactual.distance == pytest.approx(1.5, rel=1e-3)


def test_clearness_runs_from_the_boundary_to_the_centre() -> None:
    model = KMeans(2, n_init=1, random_state=0).fit([[0.0, 0.0], [4.0, 0.0]])
    model.cluster_centers_ = np.array([[0.0, 0.0], [4.0, 0.0]])
    X = np.array([[2.0, 0.0], [1.9, 9.0], [1.0, 0.0], [0.0, 3.0], [-5.0, 0.0]])
    facts = explain(model, X, rows=range(5), map_method=None, quality=False)
    clear = [point.clearness for point in facts.points]
    np.testing.assert_allclose(clear, [0, 0.05, 0.5, 1, 1], atol=1e-9)
    assert "50 % clear of cluster 1" in facts.points[2].summary


def test_reasons_from_the_mean_row_are_shapley_values_of_the_margin(wine: Case) -> None:
    X = np.array([[0.0, 1.0], [0.0, -1.0], [3.0, 5.0], [3.0, 3.0]])
    model = KMeans(2, init=[[0.0, 0.0], [3.0, 4.0]], n_init=1).fit(X)
    (point,) = explain(model, X, rows=[2], map_method=None, quality=False, reference="mean").points
    # W_j − W_k is 2 (3, 4), and (3, 5) lies (1.5, 3) from the mean row (1.5, 2).
    assert {one.name: one.amount for one in point.contributions} == {
        "feature 0": pytest.approx(9.0),
        "feature 1": pytest.approx(24.0),
    }
    assert point.baseline_margin == pytest.approx(0.0, abs=1e-12)  # half-way between the centres
    assert point.margin == pytest.approx(33.0)
    options: dict[str, Any] = {"map_method": None, "quality": False, "reference": "mean"}
    facts = explain(wine.model, wine.X, rows=[17, 83], **options)
    for point in facts.points:
        assert point.method == "exact"
        assert point.baseline_margin
        assert point.completeness_error < 1e-9
    with pytest.raises(ParameterError, match="reference must be 'middle' or 'mean', got 'zero'"):
        explain(model, X, reference="zero")  # type: ignore[arg-type]
