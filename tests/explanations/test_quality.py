from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell.explanations import explain, quality
from tell.explanations.facts import Explanation
from tell.explanations.html_report import render_report


def facts_of(case: Any, **options: Any) -> Explanation:
    return explain(case.model, case.X, map_method=None, **options)


def test_planted_reasons_are_faithful_stable_and_simple(planted: Any) -> None:
    found = facts_of(planted).quality
    assert found is not None
    assert found.agreement == 1
    assert found.faithfulness is not None
    assert found.faithfulness.better_than_random >= 0.99
    assert found.faithfulness.correlation > 0.9
    assert found.faithfulness.measured > 0.9
    assert found.faithfulness.random < 0.5 * found.faithfulness.measured
    assert found.stability is not None
    assert found.stability.seed is not None
    assert found.stability.resampling is not None
    assert found.stability.seed.agreement > 0.98
    assert found.stability.resampling.agreement > 0.98
    assert found.surrogate is not None
    assert found.surrogate.agreement >= 0.97
    for rule in found.surrogate.rules:
        assert rule.precision > 0.95
        assert {name for name in rule.text.split() if name.isdigit()} <= {"4", "13"}


def test_euclidean_claims_hold_to_the_digit(planted: Any) -> None:
    if getattr(planted.model, "geometry", "euclidean") == "sphere":
        pytest.skip("on the sphere the row is brought to unit length again after removal")
    found = facts_of(planted).quality
    assert found is not None
    assert found.faithfulness is not None
    assert found.faithfulness.stated == pytest.approx(found.faithfulness.measured, abs=1e-5)


def test_wrong_explanations_are_found_out(planted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def nonsense(view: Any, Z: Any, j: Any, k: Any) -> Any:
        return np.random.default_rng(0).normal(size=Z.shape)

    monkeypatch.setattr(quality, "margin_contributions", nonsense)
    found = facts_of(planted).quality
    assert found is not None
    assert found.faithfulness is not None
    assert found.faithfulness.better_than_random < 0.75
    assert abs(found.faithfulness.correlation) < 0.5


def test_clusters_that_are_not_there_do_not_come_out_again() -> None:
    noise = np.random.default_rng(0).uniform(size=(400, 20))
    model = KMeans(6, n_init=1, random_state=0).fit(noise)
    found = explain(model, noise, map_method=None).quality
    assert found is not None
    assert found.stability is not None
    assert found.stability.resampling is not None
    assert found.stability.resampling.agreement < 0.5


def test_a_deep_model_is_not_refitted(deep_facts: Explanation) -> None:
    found = deep_facts.quality
    assert found is not None
    assert found.stability is not None
    assert found.stability.seed is None
    assert 0 < found.stability.resampled_features <= 1
    assert found.faithfulness is not None
    assert found.faithfulness.measured > found.faithfulness.random


@pytest.mark.parametrize(("columns", "removed"), [(2, 1), (3, 1), (4, 2), (6, 3), (9, 3)])
def test_narrow_tables_are_faithful_too(columns: int, removed: int) -> None:
    random = np.random.default_rng(0)
    X = random.normal(scale=0.3, size=(200, columns))
    X[:100, 0] += 4
    model = KMeans(2, n_init=2, random_state=0).fit(X)
    found = explain(model, X, map_method=None).quality
    assert found is not None
    assert found.faithfulness is not None
    assert found.faithfulness.n_removed == removed
    assert found.faithfulness.better_than_random > 0.95
    assert found.faithfulness.random < 0.1 < found.faithfulness.measured


def test_one_column_leaves_nothing_to_compare_with() -> None:
    X = np.repeat([0.0, 4.0], 50)[:, None] + np.random.default_rng(0).normal(size=(100, 1))
    facts = explain(KMeans(2, n_init=2, random_state=0).fit(X), X, map_method=None)
    assert facts.quality is not None
    assert facts.quality.faithfulness is None
    assert "Are the named reasons the real ones?" not in render_report(facts)


@pytest.mark.parametrize("own", [0, 1, 2, 3])
def test_other_seeds_are_never_the_models_own(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = KMeans(3, n_init=1, random_state=own).fit(X)
    used: list[int] = []
    fit = KMeans.fit

    def noting(self: Any, *args: Any, **options: Any) -> Any:
        used.append(self.random_state)
        return fit(self, *args, **options)

    monkeypatch.setattr(KMeans, "fit", noting)
    explain(model, X, map_method=None, random_state=0)
    others = used[3:]  # the first three are fitted to halves
    assert len(set(others)) == 3
    assert own not in others


def test_rules_have_conditions_even_for_a_small_cluster() -> None:
    X = np.r_[np.random.default_rng(0).normal(size=(58, 2)), [[40.0, 40.0], [41.0, 41.0]]]
    model = KMeans(2, n_init=2, random_state=0).fit(X)
    for seed in range(8):
        found = explain(model, X, map_method=None, random_state=seed).quality
        assert found is not None
        assert found.surrogate is not None
        assert [rule.cluster for rule in found.surrogate.rules] == [0, 1]
        assert all(rule.text for rule in found.surrogate.rules)


def test_a_tree_without_a_split_is_no_surrogate() -> None:
    X = np.r_[np.random.default_rng(0).normal(size=(59, 2)), [[40.0, 40.0]]]
    model = KMeans(2, n_init=2, random_state=0).fit(X)
    for seed in range(8):
        found = explain(model, X, map_method=None, random_state=seed).quality
        assert found is not None
        assert found.surrogate is None or all(rule.text for rule in found.surrogate.rules)
