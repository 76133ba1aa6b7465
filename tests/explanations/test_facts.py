from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.cluster import KMeans, MeanShift, MiniBatchKMeans
from sklearn.datasets import load_iris, make_blobs

from tell import TELL, DeepTELL, PaperRecipe
from tell.data.chunks import Choice
from tell.data.survey import learn
from tell.data.tables import ArrowSource
from tell.exceptions import InputError
from tell.explanations import Explanation, compare, explain
from tell.explanations.clusters import FeatureFact, name_features
from tell.explanations.words import short


def test_facts_are_json_without_holes(wine_facts: Explanation, deep_facts: Explanation) -> None:
    for facts in (wine_facts, deep_facts):
        read = json.loads(facts.to_json())
        assert read == facts.to_dict()
        assert {"data", "model", "clusters", "points", "sample", "quality"} <= set(read)
        assert "values" not in read["sample"]
        assert read["points"][0]["row"] == facts.points[0].row


def test_names_and_labels_come_from_the_frame(wine: Any, wine_facts: Explanation) -> None:
    assert wine_facts.data.feature_names == tuple(wine.X.columns)
    assert wine_facts.data.named
    assert wine_facts.scores is not None
    assert wine_facts.scores["acc"] > 0.9
    assert wine_facts.points[0].label == "0"


def test_a_named_source_brings_shape_and_labels(digits_facts: Explanation) -> None:
    assert digits_facts.data.shape == (1, 8, 8)
    assert digits_facts.data.name == "digits"
    assert digits_facts.scores is not None
    assert all("pixel" not in cluster.summary for cluster in digits_facts.clusters)
    assert len(digits_facts.points) >= 3


@pytest.mark.parametrize("kind", [KMeans, MiniBatchKMeans])
def test_any_model_with_centres_is_explained(wine: Any, kind: Any) -> None:
    X = (wine.values - wine.values.mean(axis=0)) / wine.values.std(axis=0)
    model = kind(3, n_init=2, random_state=0).fit(X)
    facts = explain(model, X, map_method="pca")
    assert facts.model.kind == kind.__name__
    assert sum(cluster.size for cluster in facts.clusters) == 178
    assert facts.model.loss * 178 == pytest.approx(
        ((X - facts_centers(facts, X)) ** 2).sum(), rel=1e-4
    )


def facts_centers(facts: Explanation, X: Any) -> Any:
    centers = np.array([cluster.center for cluster in facts.clusters])
    return centers[((X[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)]


def test_a_file_is_read_in_chunks(digits: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", digits.X)
    options: dict[str, Any] = {"map_method": None, "quality": False}
    from_file = explain(digits.model, tmp_path / "rows.npy", **options)
    in_memory = explain(digits.model, digits.X, **options)
    for one, two in zip(from_file.clusters, in_memory.clusters, strict=True):
        assert one.summary == two.summary
        assert [m.row for m in one.prototypes] == [m.row for m in two.prototypes]


def test_the_four_parts_hold_the_models_own_numbers(wine: Any, wine_facts: Explanation) -> None:
    model = wine_facts.model
    assert [part.name for part in model.parts] == ["Input", "Weight", "Activation", "Loss"]
    assert model.loss == pytest.approx(wine.model.loss_, rel=1e-4)
    assert dict(model.parts[1].numbers)["W"] == "3 × 13"
    assert dict(model.parts[1].numbers)["b"] == "−1"
    kept = [step["loss"] for step in wine.model.history_ if step["kept"]]
    assert model.history == {"loss": (*kept, wine.model.loss_)}
    assert [run.chosen for run in model.runs].count(True) == 1
    chosen = next(run for run in model.runs if run.chosen)
    assert chosen.loss == min(run.loss for run in model.runs)
    np.testing.assert_allclose(np.diag(model.similarity), 1)


def test_a_row_of_zeros_on_the_sphere_is_explained(digits: Any) -> None:
    X = np.vstack([digits.X[:50], np.zeros((1, 64), np.float32)])
    facts = explain(digits.model, X, rows=[50], map_method=None)
    assert facts.points[0].cluster == digits.model.predict(X[50:])[0]


def test_models_that_cannot_be_explained_are_refused(wine: Any) -> None:
    with pytest.raises(InputError, match="cluster_centers_"):
        explain(KMeans(3), wine.X)


def test_wrong_columns_are_refused(wine: Any) -> None:
    with pytest.raises(InputError, match="13"):
        explain(wine.model, np.zeros((5, 4)))
    with pytest.raises(InputError, match="one name per column"):
        explain(wine.model, wine.values, feature_names=["a"])


def test_double_precision_is_not_rounded_away() -> None:
    X, _ = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], cluster_std=0.3, random_state=0)
    X += 1e8
    model = TELL(3, geometry="euclidean", random_state=0).fit(X)
    facts = explain(model, X, map_method=None)
    assert [cluster.size for cluster in facts.clusters] == model.cluster_sizes_.tolist()
    assert facts.model.loss == pytest.approx(model.loss_, rel=1e-3)


def test_rows_left_out_for_a_gap_keep_the_numbers_of_the_others() -> None:
    n = 40
    a = [None if i in (1, 2, 3) else float(10 * (i % 2) + i / 100) for i in range(n)]
    table = pa.table(
        {"a": a, "b": [float(i) for i in range(n)], "name": [f"r{i}" for i in range(n)]}
    )
    source = ArrowSource(table, Choice(label="name"), chunk_rows=10)
    whole = learn(source, gaps="drop").apply(source)
    model = TELL(2, geometry="euclidean", random_state=0).fit(whole.read().X)
    asked = [0, 5, 20, 39]
    facts = explain(model, whole, rows=asked, map_method=None, quality=False)
    assert [(p.row, p.label, p.values[1]) for p in facts.points] == [
        (row, f"r{row}", row) for row in asked
    ]
    with pytest.raises(InputError, match="left out for a gap"):
        explain(model, whole, rows=[2], map_method=None, quality=False)


def test_models_that_cannot_be_seeded_are_explained_without_refits() -> None:
    X = make_blobs(60, centers=2, random_state=0)[0]
    assert explain(MeanShift().fit(X), X, map_method=None).quality is not None

    class Plain:
        cluster_centers_ = np.array([[0.0, 0.0], [5.0, 5.0]])

        def predict(self, rows: Any) -> Any:
            return np.linalg.norm(rows[:, None] - self.cluster_centers_, axis=2).argmin(axis=1)

    assert len(explain(Plain(), X, map_method=None).clusters) == 2


def test_a_single_cluster_is_not_confused_with_itself() -> None:
    X = make_blobs(60, centers=1, random_state=0)[0]
    (cluster,) = explain(TELL(1, random_state=0).fit(X), X, map_method=None).clusters
    assert "confused" not in cluster.summary


def test_rules_keep_every_row_on_its_side() -> None:
    year = np.repeat([1990.0, 1999.0, 2000.0, 2010.0], 20)[:, None]
    model = KMeans(2, init=[[1994.5], [2005.0]], n_init=1).fit(year)
    rules = explain(model, year, feature_names=["year"], map_method=None).quality.surrogate.rules
    assert [rule.text for rule in rules] == ["year ≤ 1999.5", "year > 1999.5"]


def test_columns_of_a_frame_are_found_by_name(wine: Any) -> None:
    frame = pd.DataFrame(wine.values, columns=[f"c{i}" for i in range(wine.values.shape[1])])
    model = TELL(3, standardize=True, random_state=0).fit(frame)
    mixed = frame[frame.columns[::-1]].assign(more=1.0)
    one, other = (explain(model, X, map_method=None, quality=False) for X in (frame, mixed))
    assert [c.size for c in one.clusters] == [c.size for c in other.clusters]
    assert compare(model, model, mixed).agreement == 1
    with pytest.raises(InputError, match="none called 'c0'"):
        explain(model, frame.drop(columns="c0"), map_method=None)


def test_a_feature_that_merely_goes_along_is_not_named() -> None:
    along = FeatureFact("sl", 0, -0.1, 6.5, 5.0, 6.5, 1, 1.2)  # its rows lie high, it pulls low
    pulls = FeatureFact("sw", 1, 0.05, 3.0, 2.0, 3.0, 1, 0.6)
    weak = FeatureFact("pl", 2, 0.3, 1.0, 0.9, 1.0, 1, 0.2)
    assert name_features([weak, along, pulls], by_weight=True) == (pulls,)
    assert name_features([weak, along], by_weight=True) == (along,)  # it is not average either
    assert name_features([weak], by_weight=True) == ()
    assert name_features([pulls, along], by_weight=False) == (along, pulls)


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_the_stated_loss_is_that_of_the_formula(
    wine: Any, geometry: str, temperature: float
) -> None:
    model = TELL(3, geometry=geometry, temperature=temperature, standardize=True, random_state=0)
    facts = explain(model.fit(wine.values), wine.values, map_method=None, quality=False).model
    part = facts.parts[3]
    # Σ Iⱼ … with the soft assignment would be another, larger number.
    assert part.formula.startswith("Σ Iⱼ (" if temperature == 0 else "minⱼ (")
    assert dict(part.numbers)["Mean loss per row"] == short(facts.loss)
    assert facts.loss == pytest.approx((model.transform(wine.values) ** 2).min(axis=1).mean(), 1e-5)
    assert facts.loss == pytest.approx(model.loss_, rel=1e-5)


# One epoch of the published procedure leaves clusters empty.
@pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
def test_the_loss_card_claims_no_more_than_was_minimised(
    deep: Any, wine: Any, wine_facts: Explanation, deep_facts: Explanation
) -> None:
    alone = "the loss of k-means, and nothing else."
    assert wine_facts.model.parts[3].meaning.endswith(alone)
    kmeans = KMeans(3, n_init=1, random_state=0).fit(wine.values)
    facts = explain(kmeans, wine.values, map_method=None, quality=False)
    assert facts.model.parts[3].meaning.endswith(alone)
    text = deep_facts.model.parts[3].meaning
    assert "minimised it together with the reconstruction error" in text
    start_alone = DeepTELL(10, recipe="distil", epochs=1, random_state=0).fit(deep.X)
    text = explain(start_alone, deep.X, map_method=None, quality=False).model.parts[3].meaning
    assert "reconstruction error" in text
    assert "cross-entropy" in text
    assert "by which runs are compared" in text
    paper = DeepTELL(10, recipe=PaperRecipe(epochs=1, n_init=1), random_state=0).fit(deep.X)
    text = explain(paper, deep.X, map_method=None, quality=False).model.parts[3].meaning
    assert "minimised it together with the reconstruction error" in text


class Silent(PaperRecipe):
    minimised = ()


@pytest.mark.filterwarnings("ignore::tell.exceptions.ConvergenceWarning")
def test_a_recipe_that_does_not_say_what_it_minimises_is_not_guessed(deep: Any) -> None:
    model = DeepTELL(10, recipe=Silent(epochs=1, n_init=1), random_state=0).fit(deep.X)
    text = explain(model, deep.X, map_method=None, quality=False).model.parts[3].meaning
    assert text.endswith("What DeepTELL minimised when it was fitted is not known here.")


def test_known_labels_are_counted_by_cluster(wine: Any, wine_facts: Explanation) -> None:
    table = wine_facts.label_table
    assert table is not None
    assert table.labels == ("0", "1", "2")
    labels = wine.model.labels_
    by_hand = [[np.sum((wine.y == y) & (labels == j)) for j in table.clusters] for y in range(3)]
    np.testing.assert_array_equal(table.counts, by_hand)
    assert np.trace(table.counts) / 178 == pytest.approx(wine_facts.scores["acc"])  # type: ignore[index]


def test_one_place_on_the_sphere_is_explained() -> None:
    X = load_iris().data[:, :1]
    facts = explain(TELL(1, random_state=0).fit(X), X)
    assert facts.clusters[0].summary == "holds all rows"


@pytest.mark.parametrize("n_rows", [3, 50])
def test_identical_rows_are_explained(n_rows: int) -> None:
    X = np.full((n_rows, 4), 0.3)
    facts = explain(TELL(1, geometry="euclidean", random_state=0).fit(X), X)
    assert facts.sample.map_method == "pca"
    assert facts.sample.map is not None
    assert np.isfinite(facts.sample.map).all()


def test_labels_of_several_kinds_and_gaps_are_read() -> None:
    X = make_blobs(40, centers=2, random_state=0)[0]
    model = KMeans(2, n_init=1, random_state=0).fit(X)
    for gap in (None, np.nan, pd.NA):
        for y in ([1, "b", gap, ""] * 10, pd.Series(["a", "b", gap, gap] * 10, dtype=object)):
            facts = explain(model, X, y, map_method="pca", quality=False)
            assert facts.sample.known is not None
            assert {"nan", "None", "<NA>", ""}.isdisjoint(set(facts.sample.known))
            assert sum(name is not None for name in facts.sample.known) == 20
            assert facts.scores is not None
            json.loads(facts.to_json())
    nothing = explain(model, X, [None] * 40, map_method="pca", quality=False)
    assert not nothing.data.has_labels
    assert nothing.sample.known is None
    assert nothing.scores is None
    assert nothing.clusters[0].main_label is None
