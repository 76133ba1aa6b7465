from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tell.exceptions import InputError
from tell.explanations import explained_rows as rows_module
from tell.explanations.explained_rows import open_rows
from tell.explanations.scan import Scan, scan
from tell.explanations.view import view_model


def scanned(case: Any, **options: Any) -> Scan:
    return scan(view_model(case.model), open_rows(case.values, case.y), **options)


@pytest.mark.parametrize("block", [1, 7, 100])
def test_facts_do_not_depend_on_the_size_of_blocks(
    wine: Any, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = scanned(wine, sample_size=50)
    monkeypatch.setattr(rows_module, "BLOCK_ROWS", block)
    parts = scanned(wine, sample_size=50)
    for name in ("nearest", "unclear", "farthest", "sample"):
        np.testing.assert_array_equal(getattr(whole, name).rows, getattr(parts, name).rows)
    np.testing.assert_array_equal(whole.confused, parts.confused)
    np.testing.assert_allclose(whole.moments.mean(), parts.moments.mean(), rtol=1e-9)


def test_sums_and_extremes_are_exact(wine: Any) -> None:
    found = scanned(wine, few=4)
    X, labels = wine.values.astype(np.float32).astype(float), wine.model.labels_
    distance = wine.model.transform(wine.X)[np.arange(178), labels]
    for j in range(3):
        inside = labels == j
        mean, variance = found.moments.pooled(np.arange(3) == j)
        np.testing.assert_allclose(mean, X[inside].mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(variance, X[inside].var(axis=0), rtol=1e-5)
        order = np.flatnonzero(inside)[np.argsort(distance[inside])]
        assert found.nearest.rows[found.nearest.labels == j].tolist() == order[:4].tolist()
        assert found.farthest.rows[found.farthest.labels == j].tolist() == order[:-5:-1].tolist()


def test_large_means_do_not_cancel(planted: Any) -> None:
    view = view_model(planted.model)
    far = planted.values + 1e6
    spread = far.var(axis=0)
    found = scan(view, open_rows(far))
    np.testing.assert_allclose(found.moments.pooled(np.ones(3, bool))[1], spread, rtol=1e-6)


def test_sparse_rows_give_the_facts_of_dense_ones(digits: Any) -> None:
    view = view_model(digits.model)
    dense = scan(view, open_rows(digits.X))
    thin = scan(view, open_rows(sparse.csr_array(digits.X)))
    np.testing.assert_array_equal(dense.moments.sizes, thin.moments.sizes)
    np.testing.assert_array_equal(dense.nearest.rows, thin.nearest.rows)


def test_the_sample_is_seeded_and_uniform(wine: Any) -> None:
    first, again, other = (scanned(wine, sample_size=60, seed=s).sample.rows for s in (0, 0, 1))
    assert first.tolist() == again.tolist() != other.tolist()
    assert len(set(first.tolist())) == 60
    hits = np.zeros(178)
    for seed in range(60):
        hits[scanned(wine, sample_size=60, seed=seed).sample.rows] += 1
    assert hits.min() >= 5


@pytest.mark.parametrize(("rows", "named"), [([178], "178"), ([-1], "-1")])
def test_rows_outside_are_refused(wine: Any, rows: list[int], named: str) -> None:
    with pytest.raises(InputError, match=f"from 0 to 177, got {named}"):
        scanned(wine, chosen=rows)


def test_labels_must_fit_the_rows(wine: Any) -> None:
    with pytest.raises(InputError, match=r"one label per row \(178\), got 3"):
        open_rows(wine.values, [1, 2, 3])
