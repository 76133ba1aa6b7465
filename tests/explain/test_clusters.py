from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell.explain import Explanation, explain


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
        np.testing.assert_allclose(cluster.center, wine.model.centers_in_units()[cluster.index])
        for fact in cluster.features:
            contrast = W[cluster.index] - W.mean(axis=0)
            assert fact.weight == pytest.approx(contrast[fact.index], abs=1e-6)
        strengths = [abs(fact.weight) for fact in cluster.features]
        assert strengths == sorted(strengths, reverse=True)


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
