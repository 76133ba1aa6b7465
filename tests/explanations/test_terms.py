"""Explanations of prepared tables speak of their columns; all numbers recomputed with pandas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tell import TELL, DeepTELL, TablePreparation
from tell.explanations import Explanation, explain
from tell.explanations.html_report import render_report

SEGMENTS = 3


def customers(n: int = 900, seed: int = 0) -> pd.DataFrame:
    """Three segments in numbers, a skewed amount, a category, a flag and a date, with gaps."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, SEGMENTS, n)
    home = np.array(["Germany", "France", "Italy"])
    frame = pd.DataFrame(
        {
            "age": np.clip(random.normal(25 + 20 * kind, 4), 18, 90).round(),
            "price": np.exp(random.normal(4 + 2.0 * (kind == 1), 0.6)).round(2),
            "visits": random.poisson(2 + 9 * (kind == 2)),
            "country": np.where(random.random(n) < 0.7, home[kind], random.choice(home, n)),
            "member": np.where(random.random(n) < 0.1 + 0.4 * kind, "yes", "no"),
            "signup": pd.Timestamp("2021-01-01") + pd.to_timedelta(200 * kind, unit="D")
            + pd.to_timedelta(random.integers(0, 150, n), unit="D"),
        }
    )  # fmt: skip
    frame.loc[random.random(n) < np.array([0.05, 0.3, 0.1])[kind], "price"] = np.nan
    frame.loc[random.random(n) < 0.04, "country"] = None
    frame.loc[random.random(n) < 0.03, "age"] = np.nan
    return frame


TYPES = {"price": "log", "signup": "date"}


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return customers()


@pytest.fixture(scope="module")
def model(frame: pd.DataFrame) -> Any:
    prepare = TablePreparation(types=TYPES)
    return TELL(SEGMENTS, geometry="euclidean", prepare=prepare, random_state=0).fit(frame)


@pytest.fixture(scope="module")
def facts(model: Any, frame: pd.DataFrame) -> Explanation:
    rows = [int(frame["price"].isna().argmax()), int(frame["country"].isna().argmax()), 3, 4, 5]
    churn = frame["visits"] > 5
    return explain(
        model, frame, rows=rows, profile=pd.DataFrame({"churn": churn}), map_method="pca"
    )


def test_members_are_told_by_the_values_that_are_there(
    model: Any, frame: pd.DataFrame, facts: Explanation
) -> None:
    names = list(facts.data.feature_names)
    numbers = frame.assign(signup=(frame["signup"] - pd.Timestamp(0)).dt.days)
    for name in ("age", "price", "visits", "signup"):
        f = names.index(name)
        for cluster in facts.clusters:
            own = numbers.loc[model.labels_ == cluster.index, name]
            other = numbers.loc[model.labels_ != cluster.index, name]
            assert cluster.mean[f] == pytest.approx(own.mean(), rel=1e-9)
            assert cluster.median[f] == pytest.approx(own.median(), rel=1e-9)
            assert cluster.deviation[f] == pytest.approx(own.std(ddof=0), rel=1e-6)
            m, n = own.count(), other.count()
            pooled = np.sqrt((m * own.var(ddof=0) + n * other.var(ddof=0)) / (m + n))
            assert cluster.effects[f] == pytest.approx((own.mean() - other.mean()) / pooled)
    for cluster in facts.clusters:
        own = frame.loc[model.labels_ == cluster.index, "country"].dropna()
        for level in ("Germany", "France", "Italy"):
            f = names.index(f"country = {level}")
            assert cluster.mean[f] == pytest.approx((own == level).mean())


def test_missing_shares_are_those_of_the_table(
    model: Any, frame: pd.DataFrame, facts: Explanation
) -> None:
    gaps = frame.isna()
    assert facts.data.missing == pytest.approx({c: v for c, v in gaps.mean().items() if v})
    for cluster in facts.clusters:
        own = gaps[model.labels_ == cluster.index].mean()
        assert cluster.missing == pytest.approx({c: v for c, v in own.items() if v})
    members = facts.to_frame("members")
    line = members[(members["cluster"] == 1) & (members["feature"] == "price")].iloc[0]
    assert line["missing"] == pytest.approx(gaps.loc[model.labels_ == 1, "price"].mean())
    assert "Values are missing in price" in facts.remarks[0]


def test_a_gap_is_never_told_as_a_value(facts: Explanation, frame: pd.DataFrame) -> None:
    fill = frame["price"].median()
    point = facts.points[0]
    assert point.filled == tuple(frame.columns[frame.iloc[point.row].isna()])
    one = next(one for one in point.contributions if one.name == "price")
    assert one.filled
    assert one.value == pytest.approx(fill)
    assert one.text().startswith("missing, taken as ")
    if "price" in point.summary:
        assert "price (missing, taken as" in point.summary
    assert point.counterfactual is not None
    assert not {c.name for c in point.counterfactual.changes} & set(point.filled)
    everything = json.loads(facts.to_json())
    assert everything["points"][0]["filled"] == list(point.filled)
    assert everything["data"]["missing"]["price"] == pytest.approx(frame["price"].isna().mean())
    rows = {m["row"]: m for c in everything["clusters"] for m in c["borderline"] + c["prototypes"]}
    for row, member in rows.items():
        assert member["filled"] == list(frame.columns[frame.iloc[row].isna()])
    page = render_report(facts)
    assert "missing, taken as" in page
    assert "Missing values" in page
    assert "log1p" not in page + facts.to_json()
    shown = facts.to_frame("points")
    assert shown.loc[shown["filled"], "feature"].tolist().count("price") >= 1


def test_where_only_the_gap_can_change_it_is_called_missing(
    model: Any, frame: pd.DataFrame
) -> None:
    row = int(frame["price"].isna().argmax())
    others = [name for name in frame if name != "price"]
    facts = explain(model, frame, rows=[row], fixed=others, map_method=None, quality=False)
    found = facts.points[0].counterfactual
    assert found is not None
    for change in found.changes:
        assert change.filled
        assert change.text()[0] == "missing"


def test_contributions_of_a_category_are_one_item_and_sum_up(facts: Explanation) -> None:
    for point in facts.points:
        names = [one.name for one in point.contributions]
        assert sorted(names) == sorted(facts.data.columns)
        total = sum(one.amount for one in point.contributions)
        assert total == pytest.approx(point.margin, abs=1e-9)
        assert point.completeness_error < 1e-9


def test_a_categorys_share_of_the_margin_is_that_of_its_features(
    model: Any, frame: pd.DataFrame, facts: Explanation
) -> None:
    features = model.prepare.fit(frame).transform(frame)
    places = model.preparation_.groups["country"]
    point = facts.points[2]
    own, other = model.cluster_centers_[[point.cluster, point.runner_up]]
    parts = (features[point.row] - other) ** 2 - (features[point.row] - own) ** 2
    one = next(one for one in point.contributions if one.name == "country")
    assert one.amount == pytest.approx(parts[places].sum(), abs=1e-6)


def test_cells_are_those_of_the_table(facts: Explanation, frame: pd.DataFrame) -> None:
    for point in facts.points:
        assert point.cells is not None
        for name, cell in point.cells.items():
            truth = frame[name].iloc[point.row]
            if name in point.filled:
                assert pd.isna(truth)
            elif name == "signup":
                assert cell == str(truth.date())
            else:
                assert cell == truth  # to the last digit, logarithm or not


def test_categories_and_dates_are_told_in_words(facts: Explanation, frame: pd.DataFrame) -> None:
    summaries = " ".join(cluster.summary for cluster in facts.clusters)
    assert "log1p" not in summaries
    assert "time of year" not in summaries
    told = [fact for cluster in facts.clusters for fact in cluster.features if fact.level]
    assert told
    for fact in told:
        here, elsewhere = round(100 * fact.inside), round(100 * fact.outside)
        if 0 < here < 100 and 0 < elsewhere < 100:
            assert fact.words() == f"{fact.name} ({here} % here, {elsewhere} % elsewhere)"
    dates = [fact for cluster in facts.clusters for fact in cluster.features if fact.kind == "date"]
    assert all(fact.words() in ("late signup", "early signup") for fact in dates)
    assert all("mean 20" in fact.numbers() for fact in dates)


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_printed_changes_of_a_table_move_the_row(geometry: Any, frame: pd.DataFrame) -> None:
    model = TELL(
        SEGMENTS, geometry=geometry, prepare=TablePreparation(types=TYPES), random_state=0
    ).fit(frame)
    facts = explain(model, frame, rows=range(60), map_method=None, quality=False)
    rows, wanted = [], []
    for point in facts.points:
        found = point.counterfactual
        assert found is not None
        assert found.changes
        row = frame.iloc[point.row].copy()
        for change in found.changes:
            text = change.text()[1].replace("−", "-").replace(",", "")
            row[change.name] = text if isinstance(change.after, str) else float(text)
            assert change.name in frame.columns
        rows.append(row)
        wanted.append(found.cluster)
    typed = pd.DataFrame(rows).astype({"age": float, "price": float, "visits": float})
    assert model.predict(typed).tolist() == wanted
    ages = typed["age"].dropna()
    assert (ages == ages.round()).all()


def test_rules_are_in_the_terms_of_the_table(facts: Explanation, frame: pd.DataFrame) -> None:
    quality = facts.quality
    assert quality is not None
    assert quality.surrogate is not None
    rules = quality.surrogate.rules
    assert quality.surrogate.n_leaves == len(rules)
    assert all(rule.coverage > 0 for rule in rules)
    text = " ".join(rule.text for rule in rules)
    assert "0.5" not in text.replace("10.5", "")
    assert "log1p" not in text
    assert "=" not in text


def test_the_map_knows_every_column(facts: Explanation, frame: pd.DataFrame) -> None:
    from tell.explanations.html_report import _map_data
    from tell.explanations.palette import cluster_colors

    data = _map_data(facts, cluster_colors(SEGMENTS))
    assert data is not None
    assert data["columns"] == [*frame.columns, "churn"]
    values = pd.DataFrame(data["values"], columns=data["columns"], index=data["rows"])
    assert (values["price"].isna() == frame["price"].isna()).all()
    assert values["country"].dropna().equals(frame["country"].dropna())
    assert (values["churn"] == np.where(frame["visits"] > 5, 1.0, 0.0)).all()


def test_a_column_without_any_value_here_has_no_statistics(model: Any, frame: pd.DataFrame) -> None:
    empty = frame.assign(price=np.nan)
    facts = explain(model, empty, map_method=None)
    f = facts.data.feature_names.index("price")
    assert all(np.isnan(cluster.mean[f]) for cluster in facts.clusters if cluster.size)
    assert all(cluster.effects[f] == 0 for cluster in facts.clusters)
    assert facts.data.missing["price"] == 1
    render_report(facts)


def test_a_deep_model_of_a_table_is_told_in_its_terms_too(frame: pd.DataFrame) -> None:
    model = DeepTELL(3, epochs=1, n_init=1, random_state=0).fit(frame.drop(columns="signup"))
    facts = explain(model, frame.drop(columns="signup"), rows=[0], map_method=None, quality=False)
    assert {one.name for one in facts.points[0].contributions} == set(facts.data.columns)
    assert facts.points[0].completeness_error < 0.05 * max(1.0, abs(facts.points[0].margin))


def test_the_fit_notes_real_values_too(frame: pd.DataFrame, tmp_path: Path) -> None:
    from tell.cli.cluster_table import member_statistics
    from tell.data.sources import open_source
    from tell.explanations.terms import learn_terms

    table = frame.drop(columns="signup")
    model = TELL(3, prepare=True, random_state=0).fit(table)
    source = model.preparation_.apply(open_source(table))
    terms = learn_terms(model.preparation_, model.preparation_.feature_names)
    found = member_statistics(model.labels_, 3, source.chunks(), terms)
    assert found is not None
    place = list(terms.titles(model.preparation_.feature_names)).index("price")
    for j in range(3):
        own = table.loc[model.labels_ == j, "price"]
        assert found["mean"][j][place] == pytest.approx(own.mean())
        assert found["deviation"][j][place] == pytest.approx(own.std(ddof=0))
