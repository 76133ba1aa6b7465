from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris

from tell import TELL, DeepTELL
from tell.explanations import Explanation, explain


def test_effects_centres_and_weights_are_those_of_the_data(
    wine: Any, wine_facts: Explanation
) -> None:
    X, labels = wine.values, wine.model.labels_
    W = 2 * wine.model.cluster_centers_
    for cluster in wine_facts.clusters:
        inside = labels == cluster.index
        assert cluster.size == inside.sum()
        assert cluster.share == pytest.approx(inside.mean())
        pooled = (
            inside.mean() * X[inside].var(axis=0) + (~inside).mean() * X[~inside].var(axis=0)
        ) ** 0.5
        effects = (X[inside].mean(axis=0) - X[~inside].mean(axis=0)) / pooled
        np.testing.assert_allclose(cluster.effects, effects, rtol=1e-3)
        np.testing.assert_allclose(cluster.mean, X[inside].mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(cluster.median, np.median(X[inside], axis=0), rtol=1e-6)
        np.testing.assert_allclose(cluster.deviation, X[inside].std(axis=0), rtol=1e-5)
        np.testing.assert_allclose(cluster.center, wine.model.cluster_centers_[cluster.index])
        for fact in cluster.features:
            contrast = W[cluster.index] - W.mean(axis=0)
            assert fact.weight == pytest.approx(contrast[fact.index], abs=1e-6)


def test_cohesion_and_neighbours_on_the_sphere(wine: Any, wine_facts: Explanation) -> None:
    centers = wine.model.cluster_centers_
    cosines = centers @ centers.T - 2 * np.eye(3)
    distances = wine.model.transform(wine.X)
    for cluster in wine_facts.clusters:
        own = distances[wine.model.labels_ == cluster.index, cluster.index]
        assert cluster.cohesion == pytest.approx(1 - (own**2).mean() / 2, abs=1e-5)
        assert cluster.nearest == cosines[cluster.index].argmax()
        angle = np.degrees(np.arccos(cosines[cluster.index].max()))
        assert cluster.nearest_angle == pytest.approx(angle, abs=1e-3)


def test_summaries_name_what_is_planted(planted: Any) -> None:
    names = [f"noise {i}" for i in range(20)]
    names[4], names[13] = "width", "height"
    facts = explain(planted.model, planted.X, feature_names=names, map_method=None, quality=False)
    tall = facts.clusters[planted.model.predict(planted.X[:1])[0]]
    assert "high height" in tall.summary
    assert "33 % of rows" in tall.summary
    for cluster in facts.clusters:
        assert "noise" not in cluster.summary.split(";")[0].split(",")[0]


def test_an_outlier_is_found_and_is_not_a_prototype() -> None:
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(size=(100, 2)), random.normal(size=(100, 2)) + 30])
    X[7] = [0, 12]
    model = KMeans(2, n_init=2, random_state=0).fit(X)
    facts = explain(model, X, map_method=None, quality=False)
    cluster = facts.clusters[model.labels_[7]]
    assert cluster.outliers[0].row == 7
    assert 7 not in [one.row for one in cluster.prototypes]


def test_an_empty_cluster_says_so() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    model.cluster_centers_ = np.array([[0.0, 0.0], [99.0, 99.0]])
    facts = explain(model, X, map_method=None)
    assert facts.clusters[1].size == 0
    assert facts.clusters[1].summary.startswith("empty")


def test_labels_name_a_cluster(wine: Any, wine_facts: Explanation) -> None:
    for cluster in wine_facts.clusters:
        inside = wine.y[wine.model.labels_ == cluster.index]
        values, counts = np.unique(inside, return_counts=True)
        assert cluster.main_label == str(values[counts.argmax()])
        assert f"labelled {cluster.main_label}" in cluster.summary


def test_a_column_that_is_constant_inside_each_cluster_stands_out(constant: Any) -> None:
    X, model = constant
    names = ["smoker", "noise"]
    facts = explain(model, X, feature_names=names, map_method=None, quality=False)
    smokers = int(model.predict(X[-1:])[0])
    # Means 0 and 1, a whole deviation of 1/2, of which a tenth is the floor.
    assert facts.clusters[smokers].effects[0] == pytest.approx(20)
    assert facts.clusters[smokers].summary.startswith("high smoker")
    assert facts.clusters[1 - smokers].summary.startswith("low smoker")


@pytest.fixture(params=["k-means", "euclidean", "standardised"])
def constant(request: pytest.FixtureRequest) -> Any:
    random = np.random.default_rng(0)
    X = np.c_[np.repeat([0.0, 1.0], 150), random.normal(0, 0.05, 300)]
    if request.param == "k-means":
        return X, KMeans(2, n_init=3, random_state=0).fit(X)
    if request.param == "standardised":  # rounding leaves a variance of 1e-15 or so
        X = ((X - X.mean(axis=0)) / X.std(axis=0) + 1 / 3).astype(np.float32)
    return X, TELL(2, geometry="euclidean", random_state=0).fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_column_has_no_effect(dtype: Any) -> None:
    random = np.random.default_rng(0)
    X = np.c_[np.repeat([0.0, 5.0], 50) + random.normal(size=100), np.full(100, 1 / 3)]
    X[::3, 1] = np.nextafter(X[::3, 1].astype(dtype), dtype(1))  # differs in the last bit only
    X = X.astype(dtype)
    model = KMeans(2, n_init=2, random_state=0).fit(X)
    for cluster in explain(model, X, map_method=None, quality=False).clusters:
        assert cluster.effects[1] == 0
        assert abs(cluster.effects[0]) > 2


def test_large_means_keep_their_effects() -> None:
    random = np.random.default_rng(0)
    X = np.repeat([[0.0, 0.0], [4.0, 1.0]], 100, axis=0) + random.normal(size=(200, 2))
    near, far = (
        explain(KMeans(2, n_init=2, random_state=0).fit(Z), Z, map_method=None, quality=False)
        for Z in (X, X + 1e8)
    )
    for one, other in zip(near.clusters, far.clusters, strict=True):
        np.testing.assert_allclose(np.abs(one.effects), np.abs(other.effects), rtol=1e-5)


def test_close_to_the_average_is_said_only_where_it_is_true() -> None:
    iris = load_iris(as_frame=True).data
    models = [DeepTELL(3, random_state=0, epochs=3)]
    models += [TELL(k, random_state=0) for k in (3, 5, 7)]
    for model in models:
        facts = explain(model.fit(iris), iris, map_method=None, quality=False)
        for cluster in facts.clusters:
            average = "close to the average" in cluster.summary
            assert average == (np.abs(cluster.effects).max() < 0.5)


def test_what_the_summary_names_leads_the_list() -> None:
    # Forty columns weigh more, but only the last one tells the clusters apart.
    X = np.random.default_rng(0).normal(size=(400, 41))
    X[:, 40] = 0.15 * np.sign(X[:, :40].sum(axis=1))
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    model.cluster_centers_ = np.full((2, 41), 0.2) * np.array([[-1.0], [1.0]])
    model.cluster_centers_[:, 40] = [-0.15, 0.15]
    facts = explain(model, X, map_method=None, quality=False)
    for cluster, word in zip(facts.clusters, ("low", "high"), strict=True):
        assert cluster.summary.startswith(f"{word} feature 40;")
        assert cluster.features[0].name == "feature 40"
        rest = [abs(fact.weight) for fact in cluster.features[1:]]
        assert rest == sorted(rest, reverse=True)


@pytest.mark.parametrize("columns", [1000, 4000])
@pytest.mark.parametrize("geometry", ["euclidean", "sphere"])
def test_clusters_far_apart_in_many_columns_are_not_confused(geometry: str, columns: int) -> None:
    X = np.random.default_rng(0).normal(size=(300, columns))
    X[:150, :40] += 2
    X[:, :40] -= 1 if geometry == "sphere" else 0  # there only directions count
    model = TELL(2, geometry=geometry, random_state=0).fit(X)
    facts = explain(model, X, map_method=None, quality=False)
    for cluster in facts.clusters:
        assert cluster.confused_share < 0.02
        assert cluster.confused_with is None
    assert np.median(facts.sample.clearness) > 0.9


def test_clusters_that_touch_are_confused() -> None:
    X = np.random.default_rng(0).uniform(size=(2000, 1))
    facts = explain(KMeans(2, n_init=2, random_state=0).fit(X), X, map_method=None, quality=False)
    for cluster in facts.clusters:  # a tenth of the way from 0.5 to the centre at 0.25 or 0.75
        assert cluster.confused_share == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize("gap", [None, float("nan"), ""])
def test_rows_without_a_label_do_not_count_as_one(gap: Any) -> None:
    X = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0) + np.random.default_rng(0).normal(
        size=(40, 2)
    )
    y = np.array(["a"] * 20 + ["b"] * 20, object)
    y[:15] = gap
    y[20:] = gap
    model = KMeans(2, n_init=2, random_state=0).fit(X)
    facts = explain(model, X, y, rows=[0, 16], map_method="pca", quality=False)
    first, second = (facts.clusters[model.labels_[row]] for row in (0, 20))
    assert (first.main_label, first.main_label_share) == ("a", 1)
    assert (second.main_label, second.main_label_share) == (None, None)
    assert [point.label for point in facts.points] == [None, "a"]
    assert {one.label for one in first.prototypes + second.prototypes} <= {None, "a"}
    assert facts.sample.known is not None
    assert list(facts.sample.known) == [None] * 15 + ["a"] * 5 + [None] * 20
