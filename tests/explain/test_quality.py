from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from tell.explain import explain, quality
from tell.explain.facts import Explanation


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
