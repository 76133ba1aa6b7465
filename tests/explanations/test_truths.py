"""What is shown is what a person takes it for: recomputed here, independently, from the rows."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import HDBSCAN, AgglomerativeClustering, KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from tell import TELL, DeepTELL, TablePreparation, load
from tell.exceptions import InputError
from tell.explanations import Explanation, explain
from tell.explanations.html_report import render_report


def quick(model: Any, X: Any, **options: Any) -> Explanation:
    return explain(model, X, map_method=None, **({"quality": False} | options))


def customers(n: int = 600, seed: int = 0) -> pd.DataFrame:
    """A mixed table as one-hot features: whole numbers, amounts, a category, a flag."""
    random = np.random.default_rng(seed)
    segment = random.integers(0, 3, n)
    country = np.array(["Germany", "Switzerland", "France", "Italy"])[
        np.where(random.random(n) < 0.6, segment, random.integers(0, 4, n))
    ]
    frame = pd.DataFrame(
        {
            "age": np.clip(random.normal(35 + 12 * segment, 5), 18, 90).round().astype(int),
            "visits": random.poisson(3 + 6 * (2 - segment)),
            "income": (20_000 + 15_000 * segment + random.normal(0, 5000, n)).round(2),
            "member": (random.random(n) < 0.2 + 0.3 * segment).astype(int),
        }
    )
    hot = pd.get_dummies(pd.Series(country, name="country"), prefix="country", prefix_sep="=")
    return pd.concat([frame, hot.astype(int)], axis=1)


TABLES = {
    "wine": lambda: load_wine(as_frame=True).data,
    "breast cancer": lambda: load_breast_cancer(as_frame=True).data,
    "mixed": customers,
}


def printed_row(frame: pd.DataFrame, point: Any) -> pd.DataFrame:
    """The row with the values that were printed, read back as a person would type them."""
    row = frame.iloc[[point.row]].astype(float).copy()
    for change in point.counterfactual.changes:
        text = change.text()[1].replace("−", "-").replace(",", "")
        if isinstance(change.after, str):
            hot = [name for name in frame if name.startswith(f"{change.name}=")]
            row[hot] = 0.0
            row[f"{change.name}={change.after}"] = 1.0
        else:
            row[change.name] = float(text)
    return row


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("table", list(TABLES))
def test_printed_values_move_the_row(table: str, geometry: Any) -> None:
    frame = TABLES[table]()
    model = TELL(3, geometry=geometry, standardize=True, random_state=0).fit(frame)
    chosen = np.random.default_rng(0).permutation(len(frame))[:170].tolist()
    points = quick(model, frame, rows=chosen).points
    assert len(points) == 170  # six times: more than 1,000 rows in all
    rows = pd.concat([printed_row(frame, point) for point in points])
    found = [point.counterfactual for point in points]
    assert model.predict(rows).tolist() == [one.cluster for one in found if one is not None]
    for point, after in zip(points, rows.to_numpy(), strict=True):
        assert point.counterfactual is not None
        assert point.counterfactual.changes
        assert point.counterfactual.cluster != point.cluster
        before = frame.iloc[point.row].to_numpy(float)
        moved = {change.name for change in point.counterfactual.changes}
        assert sum(after != before) <= len(moved) + 1  # a category is two features
        for change in point.counterfactual.changes:
            assert change.text()[0] != change.text()[1]
    assert np.median([len(one.changes) for one in found if one is not None]) <= 5
    if table == "mixed":
        hot = [name for name in frame if "=" in name]
        assert (rows[hot].sum(axis=1) == 1).all()
        whole = ["age", "visits", "member"]
        assert (rows[whole] == rows[whole].round()).all(axis=None)


def test_changes_are_few_and_fixed_columns_stay() -> None:
    frame = customers()
    model = TELL(3, standardize=True, random_state=0).fit(frame)
    points = quick(model, frame, rows=range(60), fixed=["age", "country"]).points
    for point in points:
        names = {change.name for change in point.counterfactual.changes}
        assert names
        assert not names & {"age", "country"}
    assert np.median([len(point.counterfactual.changes) for point in points]) <= 3
    with pytest.raises(InputError, match="fixed needs names of columns, got 'agee'"):
        quick(model, frame, rows=[0], fixed=["agee"])
    held = quick(model, frame, rows=[0], fixed=[*frame.columns[:4], "country"]).points[0]
    assert held.counterfactual is not None
    assert held.counterfactual.changes == ()


def test_a_category_is_one_change() -> None:
    random = np.random.default_rng(0)
    level = random.integers(0, 3, 300)
    frame = pd.DataFrame(np.eye(3)[level], columns=["c=x", "c=y", "c=z"])
    frame["noise"] = random.normal(0, 0.01, 300)
    model = TELL(3, geometry="euclidean", random_state=0).fit(frame)
    for point in quick(model, frame, rows=range(10)).points:
        (change,) = point.counterfactual.changes
        assert change.name == "c"
        assert change.before == "xyz"[level[point.row]]
        assert change.after in "xyz"


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("seed", range(6))
def test_noise_has_no_structure_and_no_proud_headline(geometry: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    for X in (random.normal(size=(1000, 8)), random.uniform(size=(1000, 2))):
        model = TELL(4, geometry=geometry, random_state=seed).fit(X)
        facts = explain(model, X, map_method=None)
        assert facts.structure is not None
        assert facts.structure.verdict == "no", facts.structure.gap
    page = render_report(facts)
    assert (
        "No cluster structure found: rows without any, spread alike, give clusters as tight" in page
    )
    assert "<dt>Clearly placed</dt>" not in page


@pytest.mark.parametrize("shape", [(300, 8), (300, 8, 8)])
def test_a_trained_encoder_is_no_witness_of_structure(shape: tuple[int, ...]) -> None:
    """It draws rows of noise together, too: no verdict, and the report says why."""
    X = np.random.default_rng(0).random(shape)
    facts = explain(DeepTELL(3, epochs=1, random_state=0).fit(X), X, map_method=None)
    assert facts.structure is None
    assert facts.remarks[0].startswith("Whether there are groups at all is not judged")
    page = render_report(facts)
    assert "is not judged" in page
    assert "There is cluster structure" not in page


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("name", ["blobs", "wine", "digits", "iris"])
def test_groups_are_found_to_be_there(name: str, geometry: Any) -> None:
    k = {"digits": 10, "blobs": 4}.get(name, 3)
    X = {
        "blobs": lambda: make_blobs(500, centers=4, n_features=5, random_state=0)[0],
        "wine": lambda: load_wine().data,
        "digits": lambda: load_digits().data,
        "iris": lambda: load_iris().data,
    }[name]()
    model = TELL(k, geometry=geometry, standardize=name != "digits", random_state=0).fit(X)
    facts = explain(model, X, map_method=None)
    assert facts.structure is not None
    assert facts.structure.verdict == "yes", facts.structure.gap
    assert "There is cluster structure" in render_report(facts)


def test_one_outlier_does_not_hide_the_groups() -> None:
    X = make_blobs(500, centers=4, n_features=5, random_state=0)[0]
    model = TELL(4, geometry="euclidean", random_state=0).fit(X)
    with_outlier = np.concatenate([X, X[:1] + 500])
    plain, other = (explain(model, rows, map_method=None).structure for rows in (X, with_outlier))
    assert plain is not None
    assert other is not None
    assert other.verdict == "yes"
    assert other.gap == pytest.approx(plain.gap, abs=0.05)


def test_members_are_shown_and_a_direction_is_called_one() -> None:
    frame = customers()[["age", "visits", "income"]]
    model = TELL(3, standardize=True, random_state=0).fit(frame)
    facts = quick(model, frame)
    means = frame.groupby(model.labels_).mean()
    for cluster in facts.clusters:
        np.testing.assert_allclose(cluster.mean, means.loc[cluster.index], rtol=1e-6)
        assert np.linalg.norm(cluster.center) == pytest.approx(1)
        for fact in cluster.features:
            inside = frame[fact.name][model.labels_ == cluster.index]
            assert fact.inside == pytest.approx(inside.mean())
            assert fact.median == pytest.approx(inside.median())
            assert fact.deviation == pytest.approx(inside.std(ddof=0))
    page = render_report(facts)
    assert "The centre itself is a direction" in page
    plain = json.loads(facts.to_json())
    assert "picture" not in plain["clusters"][0]


def test_the_curve_and_the_loss_are_those_of_the_kept_run() -> None:
    X = np.random.default_rng(0).normal(size=(9000, 5))
    model = TELL(8, n_init=4, random_state=0).fit(X)
    kept = [step for step in model.history_ if step["kept"]]
    chosen = next(i for i, run in enumerate(model.runs_) if run["chosen"])
    assert {step["run"] for step in kept} == {chosen}
    assert len(kept) < len(model.history_) / 2
    facts = quick(model, X)
    curve = facts.model.history["loss"]
    assert curve[-1] == model.loss_ == pytest.approx(facts.model.loss, rel=1e-9)
    rises = [b / a for a, b in pairwise(curve) if b > a]
    assert all(rise < 1.06 for rise in rises)  # where a sample grows or a centre moves
    losses = set(re.findall(r"0\.\d{4,}", re.sub(r"<script.*?</script>", "", render_report(facts))))
    assert not {f"{run['loss']:.6g}" for run in model.runs_} & losses


def test_printed_rules_are_the_measured_ones() -> None:
    frame = load_wine(as_frame=True).data
    model = TELL(3, standardize=True, random_state=0).fit(frame)
    facts = explain(model, frame, map_method=None)
    assert facts.quality is not None
    surrogate = facts.quality.surrogate
    assert surrogate is not None
    assert len(surrogate.rules) == surrogate.n_leaves
    checked = sum(rule.n_rows for rule in surrogate.rules)
    right = sum(rule.n_rows * (rule.precision or 0) for rule in surrogate.rules)
    # Every other row; those in leaves that place none of them right are in no printed rule.
    assert checked <= 89
    assert right / 89 == pytest.approx(surrogate.agreement)
    page = render_report(facts)
    for rule in surrogate.rules:
        assert rule.text.replace(">", "&gt;").replace("<", "&lt;") in page
    for cluster in range(3):
        covered = sum(r.coverage for r in surrogate.rules if r.cluster == cluster)
        assert covered <= 1 + 1e-9


def test_rounding_is_zero() -> None:
    X = np.array([[0.1, 1.0], [0.2, 1.0], [-0.3, 1.0], [0.1, 9.0], [0.2, 9.0], [-0.3, 9.0]] * 5)
    assert X[:15, 0].sum() != 0 or X[:, 0].sum() != 0  # sums that cancel leave something
    facts = quick(KMeans(2, n_init=1, random_state=0).fit(X), X)
    for cluster in facts.clusters:
        assert cluster.mean[0] == 0
        for fact in cluster.features:
            assert fact.outside == 0 or abs(fact.outside) > 1e-9
    page = re.sub(r"<script.*?</script>", "", render_report(facts))
    assert not re.search(r"e[-−]1\d", re.sub(r"Left over</dt><dd>[^<]*", "", page))


def test_what_is_easily_overlooked_is_said() -> None:
    random = np.random.default_rng(0)
    X = np.r_[random.normal([3, 0, 0], 0.1, (150, 3)), random.normal([0, 3, 0], 0.1, (150, 3))]
    zeros = np.r_[X, np.zeros((50, 3))]
    facts = quick(TELL(2, random_state=0).fit(zeros), zeros)
    assert facts.remarks[0].startswith("50 rows of zeros")
    assert "50 rows of zeros" in render_report(facts)
    outliers = np.r_[X, [[80.0, 80.0, 80.0], [81.0, 80.0, 80.0]]]
    found = quick(KMeans(3, n_init=10, random_state=0).fit(outliers), outliers)
    assert any("holds 2 rows of 302: outliers" in remark for remark in found.remarks)
    frame = pd.DataFrame(X, columns=list("abc")).assign(id=np.arange(1000, 1300))
    noted = quick(KMeans(2, n_init=1, random_state=0).fit(frame), frame)
    assert any("Column 'id' looks like a number given to each row" in r for r in noted.remarks)
    assert quick(KMeans(2, n_init=1, random_state=0).fit(X), X).remarks == ()


@pytest.mark.parametrize("last", ["k-means", "TELL"])
@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler])
def test_a_pipeline_is_explained_in_the_units_before_it(last: str, scaler: Any) -> None:
    frame = load_wine(as_frame=True).data
    end = KMeans(3, n_init=3, random_state=0) if last == "k-means" else TELL(3, random_state=0)
    model = make_pipeline(scaler(), end).fit(frame)
    facts = explain(model, frame, rows=range(20), map_method=None)
    assert facts.data.feature_names == tuple(frame.columns)
    assert facts.quality is not None
    assert facts.quality.agreement == 1
    means = frame.groupby(model.predict(frame)).mean()
    for cluster in facts.clusters:
        np.testing.assert_allclose(cluster.mean, means.loc[cluster.index], rtol=1e-6)
    Z = model[0].transform(frame)
    Z = Z / np.linalg.norm(Z, axis=1, keepdims=True) if last == "TELL" else Z
    centers = end.cluster_centers_
    for point in facts.points:
        squared = ((Z[point.row] - centers) ** 2).sum(axis=1)
        margin = squared[point.runner_up] - squared[point.cluster]
        assert sum(one.amount for one in point.contributions) == pytest.approx(margin, abs=1e-5)
        assert model.predict(printed_row(frame, point))[0] == point.counterfactual.cluster


def test_texts_are_explained_by_their_words_and_stay_sparse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = ["gpu driver card screen pixel", "goal match team league player", "oven salt soup pan"]
    common = [f"word{i}" for i in range(3000)]
    random = np.random.default_rng(0)
    texts = [
        " ".join([*random.choice(topics[i % 3].split(), 6), *random.choice(common, 12)])
        for i in range(240)
    ]
    model = make_pipeline(TfidfVectorizer(), TELL(3, random_state=0)).fit(texts)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the whole matrix was made dense")

    from tell.data.arrays import SparseSource

    monkeypatch.setattr(SparseSource, "_rows", refuse)
    facts = explain(model, texts, rows=[0], ids=texts, map_method="pca")
    words = [{fact.name for fact in cluster.features[:3]} for cluster in facts.clusters]
    assert all(any(found <= set(topic.split()) for topic in topics) for found in words)
    assert facts.points[0].name == texts[0]
    assert texts[0][:20] in facts.points[0].summary
    point = facts.points[0]
    assert sum(one.amount for one in point.contributions) == pytest.approx(point.margin)
    assert facts.sample.map is not None
    assert render_report(facts)


def test_plain_labels_are_explained_by_their_means() -> None:
    frame = load_wine(as_frame=True).data
    X = StandardScaler().fit_transform(frame)
    tree = AgglomerativeClustering(3).fit(X)
    facts = explain(tree.labels_, X, map_method=None, feature_names=list(frame.columns))
    assert facts.model.kind == "labels"
    for cluster in facts.clusters:
        assert cluster.size == np.sum(tree.labels_ == cluster.index)
        np.testing.assert_allclose(cluster.mean, X[tree.labels_ == cluster.index].mean(axis=0))
    assert facts.quality is not None
    assert facts.quality.agreement < 1  # and it says so: means are not how the labels came about
    assert [c.size for c in explain(tree, X, map_method=None, quality=False).clusters] == [
        c.size for c in facts.clusters
    ]
    mixture = GaussianMixture(3, random_state=0).fit(X)
    sizes = np.bincount(mixture.predict(X))
    assert [c.size for c in quick(mixture, X).clusters] == sizes.tolist()
    dense = quick(HDBSCAN(5, copy=True).fit(X), X)
    assert dense.clusters[0].name == "noise"
    with pytest.raises(InputError, match=r"labels need one cluster per row \(178\), got 5"):
        quick(np.arange(5), X)


def test_an_explanation_fits_a_screen_and_becomes_frames() -> None:
    frame = load_wine(as_frame=True).data
    model = TELL(3, standardize=True, random_state=0).fit(frame)
    country = np.where(model.labels_ == 1, "Italy", "France").astype(object)
    country[0] = None
    facts = explain(
        model, frame, rows=[3], map_method=None, profile={"country": country, "ash": frame["ash"]}
    )
    lines = repr(facts).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 160
    assert "<table>" in facts._repr_html_()
    clusters = facts.to_frame()
    assert clusters["size"].tolist() == sorted(np.bincount(model.labels_), reverse=True)
    points = facts.to_frame("points")
    assert points["amount"].sum() == pytest.approx(facts.points[0].margin)
    lines_of = facts.to_frame("profiles").set_index(["cluster", "column", "what"])
    assert lines_of.loc[(1, "country", "Italy"), "here"] == 1
    own = frame["ash"][model.labels_ == 2]
    assert lines_of.loc[(2, "ash", "median"), "here"] == pytest.approx(own.median())
    assert lines_of.loc[(2, "ash", "mean"), "all"] == pytest.approx(frame["ash"].mean())
    cluster = int(model.labels_[0])
    gap = lines_of.loc[(cluster, "country", "missing"), "here"]
    assert gap == pytest.approx(1 / np.sum(model.labels_ == cluster))
    page = render_report(facts)
    assert "Columns that were not clustered" in page
    assert "All clusters at once" in page


def test_names_of_clusters_and_rows_are_used(tmp_path: Path) -> None:
    frame = load_wine(as_frame=True).data
    frame.index = [f"bottle {i}" for i in range(len(frame))]
    model = TELL(3, standardize=True, random_state=0).fit(frame)
    model.name_clusters({2: "Dry <b>reds</b>"})
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    facts = quick(again, frame, rows=[3])
    assert facts.clusters[2].name == "Dry <b>reds</b>"
    assert facts.points[0].summary.startswith("bottle 3 is in ")
    page = render_report(facts)
    assert "Dry &lt;b&gt;reds" in page
    assert "bottle 3 in" in page
    again.name_clusters({2: None})
    assert quick(again, frame).clusters[2].name is None
    with pytest.raises(InputError, match="clusters from 0 to 2, got 3"):
        again.name_clusters({3: "no"})
    model.fit(frame)
    assert quick(model, frame).clusters[2].name is None


def test_a_pipeline_that_prepares_a_table_is_explained_by_its_columns() -> None:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": np.r_[random.normal(50, 5, 150), random.normal(90, 5, 150)],
            "city": np.r_[random.choice(["Ulm", "Bonn"], 150), np.full(150, "Rome")],
        }
    )
    frame.loc[::10, "size"] = np.nan
    model = make_pipeline(TablePreparation(), KMeans(2, n_init=1, random_state=0)).fit(frame)
    facts = explain(model, frame, rows=range(0, 300, 25), map_method=None)
    labels = model.predict(frame)
    for cluster in facts.clusters:
        members = frame[labels == cluster.index]
        assert cluster.mean[0] == pytest.approx(members["size"].mean(), rel=1e-9)
    for point in facts.points:
        assert {one.name for one in point.contributions} == {"size", "city"}
        assert point.filled == (("size",) if point.row % 10 == 0 else ())
        assert point.cluster == labels[point.row]
