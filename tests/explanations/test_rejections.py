"""Why a row belongs to no cluster: every number is computed here once more, without the code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from tell import TELL, ParameterError
from tell.explanations import Explanation, explain, report
from tell.explanations.rejections import unusual

COLUMNS = ["age", "income", "visits"]


@dataclass(frozen=True)
class Case:
    model: TELL
    X: pd.DataFrame
    facts: Explanation


@pytest.fixture(scope="module", params=["euclidean", "sphere"])
def planted(request: pytest.FixtureRequest) -> Case:
    """Two groups of 2,000 people, and three who are unlike both: by income, by all, by two."""
    random = np.random.default_rng(0)
    middles = np.array([[30.0, 30_000.0, 5.0], [60.0, 60_000.0, 25.0]])
    spread = np.array([3.0, 3_000.0, 1.5])
    fitted = middles[np.arange(4000) % 2] + spread * random.normal(size=(4000, 3))
    strange = np.array([[30.0, 60_000.0, 5.0], [60.0, 60_000.0, 45.0], [5.0, 29_000.0, 20.0]])
    model = TELL(2, geometry=request.param, standardize=True, random_state=0)
    model.fit(pd.DataFrame(fitted, columns=COLUMNS))
    X = pd.DataFrame(np.concatenate([fitted, strange]), columns=COLUMNS)
    facts = explain(model, X, reject=0.01, rows=[4000, 0], map_method=None, quality=False)
    return Case(model, X, facts)


def placed(case: Case) -> np.ndarray:
    """Rows where the centres are, by hand."""
    rows = (case.X.to_numpy() - case.model.mean_) / case.model.scale_
    if case.model.geometry == "sphere":
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def test_rejected_are_those_that_predict_gives_minus_one(planted: Case) -> None:
    found = planted.facts.rejections
    assert found is not None
    labels = planted.model.predict(planted.X, reject=0.01)
    assert found.count == int((labels == -1).sum()) == len(found.rows)
    assert sorted(one.row for one in found.rows) == np.flatnonzero(labels == -1).tolist()
    nearest = planted.model.predict(planted.X)
    assert found.by_cluster.tolist() == np.bincount(nearest[labels == -1], minlength=2).tolist()
    scores = [one.score for one in found.rows]
    assert scores == sorted(scores, reverse=True)


def test_scores_distances_and_shares_are_those_of_the_rows(planted: Case) -> None:
    found = planted.facts.rejections
    assert found is not None
    Z, centers = placed(planted), planted.model.cluster_centers_.astype(np.float64)
    apart = np.linalg.norm(Z[:, None] - centers[None], axis=2)
    own = apart.argmin(axis=1)
    for one in found.rows:
        assert one.cluster == own[one.row]
        assert one.distance == pytest.approx(apart[one.row].min(), rel=1e-5)
        assert one.distance > one.limit * (1 - 1e-6)
        fitted = apart[:4000][own[:4000] == one.cluster, one.cluster]
        assert one.score == pytest.approx((fitted < one.distance).mean(), abs=0.004)


def test_what_columns_add_sums_to_the_excess(planted: Case) -> None:
    found = planted.facts.rejections
    assert found is not None
    Z, centers = placed(planted), planted.model.cluster_centers_.astype(np.float64)
    labels = planted.model.predict(planted.X, reject=0.01)
    for one in found.rows:
        members = Z[labels == one.cluster]
        usual = np.square(members - centers[one.cluster]).mean(axis=0)
        parts = np.square(Z[one.row] - centers[one.cluster]) - usual
        assert [c.name for c in one.columns] == [COLUMNS[f] for f in np.argsort(-parts)]
        assert [c.amount for c in one.columns] == pytest.approx(sorted(parts)[::-1], rel=1e-3)
        total = sum(c.amount for c in one.columns) + one.rest
        assert total == pytest.approx(one.excess)
        assert one.rest == pytest.approx(0, abs=1e-6)


def test_the_reason_names_what_is_unusual(planted: Case) -> None:
    found = planted.facts.rejections
    assert found is not None
    rich = next(one for one in found.rows if one.row == 4000)
    sphere = planted.model.geometry == "sphere"
    far = "farther from its nearest centre than over 99.9 % of that cluster"
    assert rich.reason.startswith("farther from its nearest centre than ")
    assert "income" in [column.name for column in rich.unusual()]
    if not sphere:  # on the sphere other directions follow
        assert rich.reason == f"{far}; income is what is unusual"
        median = np.median(planted.X["income"][planted.model.predict(planted.X) == rich.cluster])
        assert rich.usual[0] == f"median {median:,.0f}"
        busy = next(one for one in found.rows if one.row == 4001)
        assert busy.reason == f"{far}; visits is what is unusual"


def test_a_row_that_is_asked_about_says_it_too(planted: Case) -> None:
    rich, usual = planted.facts.points
    assert rich.rejection is not None
    assert rich.summary.endswith(f" At 1 % it is rejected: {rich.rejection.reason}.")
    assert usual.rejection is None
    assert "rejected" not in usual.summary


def test_json_frame_and_text_have_them(planted: Case) -> None:
    read = json.loads(planted.facts.to_json())["rejections"]
    assert read["share"] == 0.01
    assert read["rows"][0]["reason"] == planted.facts.rejections.rows[0].reason  # type: ignore[union-attr]
    frame = planted.facts.to_frame("rejected")
    assert len(frame) == read["count"]
    assert frame["reason"].str.startswith("farther from").all()
    assert f"At 1 %, {read['count']} of 4,003 rows are rejected" in repr(planted.facts)


def test_the_report_tables_them(planted: Case, tmp_path: Path) -> None:
    page = report(planted.facts, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Rows that belong to no cluster" in page
    assert "income 60,000" in page
    without = explain(planted.model, planted.X, map_method=None, quality=False)
    assert without.rejections is None
    assert "belong to no cluster" not in report(without, tmp_path / "r.html").read_text("utf-8")


def test_columns_are_named_until_they_make_up_half(planted: Case) -> None:
    assert planted.facts.rejections is not None
    columns = planted.facts.rejections.rows[0].columns
    amounts = [c.amount for c in columns]
    assert len(unusual(columns, amounts[0] * 1.9)) == 1
    assert unusual(columns, sum(amounts) * 10) == ()
    assert unusual(columns, -1.0) == ()


def test_images_are_shown_and_sparse_rows_stay_sparse(digits: Any, tmp_path: Path) -> None:
    options: dict[str, Any] = {"map_method": None, "quality": False, "reject": 0.02}
    images = explain(digits.model, digits.X, shape=(8, 8), **options)
    assert images.rejections is not None
    assert all("unusual" not in one.reason for one in images.rejections.rows)
    assert "Images that belong to no cluster" in report(images, tmp_path / "r.html").read_text()
    flat = explain(digits.model, sp.csr_array(digits.X), **options)
    dense = explain(digits.model, digits.X, **options)
    assert flat.rejections is not None
    assert dense.rejections is not None
    for one, two in zip(flat.rejections.rows, dense.rejections.rows, strict=True):
        assert (one.row, one.reason) == (two.row, two.reason)
        assert one.excess == pytest.approx(two.excess, abs=1e-5)


def test_models_that_keep_no_distances_are_named(planted: Case) -> None:
    model = KMeans(2, n_init=1, random_state=0).fit(planted.X)
    with pytest.raises(ParameterError, match=r"reject needs a TELL.*got KMeans"):
        explain(model, planted.X, reject=0.01)
    with pytest.raises(ParameterError, match="reject must be a share"):
        explain(planted.model, planted.X, reject=2)
