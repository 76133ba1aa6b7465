"""Why there are so many clusters, and what became of earlier ones, in facts, report and figure."""

from __future__ import annotations

import io
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_wine

from tell import TELL, DeepTELL, DistilRecipe, choose, load
from tell.estimators.deep.recipes.graph import GraphStart
from tell.explanations import Explanation, explain, report
from tell.explanations.ancestry import in_words
from tell.explanations.plots import plot_choice

OPTIONS: dict[str, Any] = {"geometry": "euclidean", "standardize": True}


@pytest.fixture(scope="module")
def models() -> tuple[TELL, TELL, np.ndarray]:
    """Wine in four clusters, and later in three of which two were one."""
    X = load_wine().data
    old = TELL(4, random_state=0, **OPTIONS).fit(X[:150])
    new = TELL(3, random_state=1, **OPTIONS).fit(X, like=old)
    return old, new, X


@pytest.fixture(scope="module")
def chosen() -> tuple[TELL, Explanation]:
    X = load_wine().data
    model = TELL("auto", random_state=0, **OPTIONS).fit(X)
    return model, explain(model, X, map_method=None, quality=False)


def test_fates_come_with_the_numbers_behind_them(
    models: tuple[TELL, TELL, np.ndarray], tmp_path: Path
) -> None:
    old, new, X = models
    new.save(tmp_path / "model")
    facts = explain(load(tmp_path / "model"), X, map_method=None, quality=False)
    before, now = old.predict(X), new.predict(X)
    centers = (old.centers_in_units() - new.mean_) / new.scale_
    assert [one.was for one in facts.lineage][:4] == [0, 1, 2, 3]
    for one in facts.lineage[:4]:
        mine = before == one.was
        assert one.rows_before == mine.sum()
        assert one.cluster is not None
        assert one.shift is not None
        assert one.rows == (now == one.cluster).sum()
        assert one.shared == pytest.approx((now[mine] == one.cluster).mean())
        way = np.linalg.norm(centers[one.was] - new.cluster_centers_[one.cluster])
        own = old.transform(X[:150])[old.labels_ == one.was, one.was]
        n = len(own)
        width = np.sqrt(np.square(own).mean() * (n + 1) / (n - 1))
        assert one.shift == pytest.approx(way / width, rel=1e-3)
    assert {one.fate for one in facts.lineage} >= {"merged"}
    read = json.loads(facts.to_json())["lineage"]
    assert [one["summary"] for one in read] == [in_words(entry) for entry in new.lineage_]
    page = report(facts, tmp_path / "r.html").read_text(encoding="utf-8")
    section = page.split('id="lineage"')[1].split("</section>")[0]
    assert section.count("<tr>") == 1 + len(facts.lineage)
    kept = next(one for one in facts.lineage if one.fate == "kept")
    assert f"<td>{kept.rows_before}</td><td>{kept.rows}</td>" in section


def test_the_number_comes_with_its_evidence(
    chosen: tuple[TELL, Explanation], tmp_path: Path
) -> None:
    model, facts = chosen
    assert facts.choice is not None
    kept = model.choice_
    told = (facts.choice.n_clusters, facts.choice.runner_up, facts.choice.reasons)
    assert told == (kept.n_clusters, kept.runner_up, kept.reasons)
    assert facts.choice.n_rows == kept.evidence.n_rows
    assert json.loads(facts.to_json())["choice"]["n_clusters"] == model.n_clusters_
    page = report(facts, tmp_path / "r.html").read_text(encoding="utf-8")
    section = page.split('id="choice"')[1].split("</section>")[0]
    assert section.count("<polyline") == section.count("<polygon") == 5
    at = model.choice_.evidence.n_clusters.tolist().index(model.n_clusters_)
    for name in ("gap", "stability", "strength", "silhouette", "elbow"):
        value = getattr(model.choice_.evidence, name)[at]
        assert f"{value:.2f} for {model.n_clusters_}" in section


def test_a_choice_by_the_graph_has_curves_too(tmp_path: Path) -> None:
    """Digits as images: what the graph bound, and what it did not, by the number of groups."""
    from sklearn.datasets import load_digits

    images = load_digits().images[:300]
    start = GraphStart(epochs=1, layout_epochs=5, distil_steps=2)
    with warnings.catch_warnings(action="ignore"):
        model = DeepTELL("auto", recipe=DistilRecipe(start=start), random_state=0).fit(images)
    facts = explain(model, images, map_method=None, quality=False)
    assert facts.choice is not None
    k = facts.choice.n_clusters
    assert k == model.n_clusters_ > 1
    modularity, bond = facts.choice.curves
    best = model.choice_.numbers.tolist().index(k)
    assert modularity.at(k) == pytest.approx(model.choice_.modularity[best])
    assert bond.at(k) == pytest.approx(model.choice_.bonds[best + 1])
    assert bond.at(1) is None
    page = report(facts, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "How many clusters" in page
    assert "Strongest bond" in page


def test_models_without_a_choice_or_an_ancestor_have_no_such_section(
    wine_facts: Explanation, tmp_path: Path
) -> None:
    assert wine_facts.choice is None
    assert wine_facts.lineage == ()
    page = report(wine_facts, tmp_path / "r.html").read_text(encoding="utf-8")
    assert 'id="choice"' not in page
    assert 'id="lineage"' not in page


def test_the_figure_draws_every_curve_of_the_evidence(chosen: tuple[TELL, Explanation]) -> None:
    model, _ = chosen
    ax = plot_choice(model.choice_)
    ax.get_figure().savefig(io.BytesIO(), dpi=60)
    drawn = {str(line.get_label()): line for line in ax.get_lines()}
    for name in ("gap", "stability", "strength", "silhouette", "elbow"):
        curve = getattr(model.choice_.evidence, name)
        assert np.array_equal(drawn[name].get_ydata(), curve)
    mark = drawn[f"chosen: {model.n_clusters_}"]
    assert mark.get_xdata()[0] == model.n_clusters_
    nothing = choose(np.zeros((5, 2)), geometry="euclidean")
    assert plot_choice(nothing, ax=ax) is ax
