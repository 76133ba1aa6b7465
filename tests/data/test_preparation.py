"""Tables as people have them become numbers, the same way when learned and when applied later."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from tell import TELL, TablePreparation
from tell.data.chunks import Choice
from tell.data.preparation import Preparation
from tell.data.survey import MAX_CATEGORIES, learn
from tell.data.tables import ArrowSource
from tell.exceptions import InputError, ModelFileError, ParameterError, TellWarning

PEOPLE = {"age": ["31", " ", "45", "52"], "city": ["Ulm", "Ulm", "n.a.", "Bonn"]}


def source(columns: dict[str, Any], chunk_rows: int = 2) -> ArrowSource:
    return ArrowSource(pa.table(columns), Choice(), chunk_rows)


def customers(n: int = 300) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": np.arange(1000, 1000 + n),
            "name": [f"Person {i} of {i % 7}" for i in range(n)],
            "age": random.integers(18, 80, n),
            "height": random.normal(170, 8, n).round(1),
            "income": np.exp(random.normal(10, 1, n)).round(2),
            "country": random.choice(["Germany", "Austria", "Chile"], n, p=[0.6, 0.3, 0.1]),
            "signup": pd.date_range("2021-01-01", periods=n).strftime("%Y-%m-%d"),
            "member": random.choice(["yes", "no"], n),
            "source": "web",
        }
    )
    frame.loc[3, "income"] = np.nan
    frame.loc[[5, 7], "country"] = None
    return frame


def decided(frame: Any, **options: Any) -> dict[str, dict[str, Any]]:
    return {line["column"]: line for line in TablePreparation(**options).fit(frame).decisions_}


def test_every_column_is_recognised() -> None:
    kinds = {name: line["kind"] for name, line in decided(customers()).items()}
    assert kinds == {
        "id": "id",
        "name": "text",
        "age": "whole number",
        "height": "number",
        "income": "number",
        "country": "category",
        "signup": "date",
        "member": "boolean",
        "source": "constant",
    }
    prepare = TablePreparation().fit(customers())
    assert prepare.get_feature_names_out().tolist() == [
        "age", "height", "log1p(income)", "country=Austria", "country=Chile", "country=Germany",
        "member=yes",
    ]  # fmt: skip


def test_numbers_and_a_whole_category_have_variance_one() -> None:
    frame = customers()
    X = pd.DataFrame(
        TablePreparation().fit_transform(frame),
        columns=TablePreparation().fit(frame).get_feature_names_out(),
    )
    assert X["height"].std(ddof=0) == pytest.approx(1)
    complete = frame["country"].notna()
    assert X.filter(like="country=")[complete].var(ddof=0).sum() == pytest.approx(1)
    assert X["member=yes"].std(ddof=0) == pytest.approx(1)
    logs = np.log1p(frame["income"].dropna())
    expected = (np.log1p(frame["income"][0]) - logs.mean()) / logs.std(ddof=0)
    assert X["log1p(income)"][0] == pytest.approx(expected)


def test_gaps_are_filled_and_known() -> None:
    frame = customers()
    prepare = TablePreparation().fit(frame)
    lines = {line["column"]: line for line in prepare.decisions_}
    assert lines["income"]["fill"] == frame["income"].median()
    assert lines["income"]["missing"] == pytest.approx(1 / 300)
    assert lines["country"]["fill"] == frame["country"].mode()[0]
    back = pd.DataFrame(prepare.inverse_transform(prepare.transform(frame)))
    assert back["country"][5] == "Germany"
    assert back["income"].to_numpy() == pytest.approx(
        frame["income"].fillna(frame["income"].median()).to_numpy()
    )
    missing = pd.DataFrame(prepare.missing(frame), columns=list(prepare.preparation_.groups))
    expected = frame[list(missing.columns)].isna()
    pd.testing.assert_frame_equal(missing, expected, check_names=False)


def test_features_know_their_column() -> None:
    preparation = TablePreparation().fit(customers()).preparation_
    assert preparation.groups["country"] == [3, 4, 5]
    assert [preparation.feature_names[i] for i in preparation.groups["member"]] == ["member=yes"]


def test_what_a_column_is_can_be_said() -> None:
    types = {"age": "category", "signup": "date", "income": "plain", "id": "drop", "height": "log"}
    frame = customers()
    frame["age"] = frame["age"] // 20
    lines = decided(frame, types=types)
    assert lines["age"]["treatment"] == "one-hot"
    prepare = TablePreparation(types=types).fit(frame)
    names = prepare.get_feature_names_out().tolist()
    assert "age=3" in names
    assert [name for name in names if "signup" in name] == [
        "signup (day)", "signup (year sin)", "signup (year cos)",
    ]  # fmt: skip
    X = prepare.transform(frame)
    assert X[0, names.index("income")] == frame["income"][0]
    back = prepare.inverse_transform(X)
    assert back["signup"] == frame["signup"].tolist()
    with pytest.raises(ParameterError, match="one of number, log"):
        TablePreparation(types={"age": "int"}).fit(frame)
    with pytest.raises(InputError, match="did you mean 'age'"):
        TablePreparation(types={"agee": "number"}).fit(frame)


def test_a_heavy_tail_is_scaled_by_quartiles_and_an_absurd_cell_is_named() -> None:
    values = np.random.default_rng(0).normal(0, 1, 400)
    values[17] = -5000.0
    assert decided(pd.DataFrame({"a": values, "b": 1 + values**2}))["a"]["treatment"] == "robust"
    values[17] = 1e30
    with pytest.raises(InputError, match=r"row 17 .*'a' holds 1e\+30"):
        TablePreparation().fit(pd.DataFrame({"a": values}))


def test_all_complaints_come_at_once_for_frames_too() -> None:
    prepare = TablePreparation().fit(customers())
    bad = customers().astype({"height": object, "age": object})
    bad.loc[2, "height"] = "tall"
    bad.loc[250, "age"] = "old"
    bad.loc[9, "member"] = "perhaps"
    bad.loc[4, "income"] = np.inf
    with pytest.raises(InputError) as caught:
        prepare.transform(bad)
    text = str(caught.value)
    for row, column, value in (
        (2, "height", "tall"), (250, "age", "old"), (9, "member", "perhaps"), (4, "income", "inf"),
    ):  # fmt: skip
        assert any(
            f"row {row} " in line and repr(column) in line and value in line
            for line in text.splitlines()
        ), text
    with pytest.raises(InputError, match="'age', 'income'"):
        prepare.transform(customers().drop(columns=["age", "income"]))


def test_it_is_a_part_of_scikit_learn() -> None:
    prepare = clone(TablePreparation(types={"age": "log"}))
    assert prepare.get_params()["types"] == {"age": "log"}
    pipeline = make_pipeline(prepare, TELL(3, geometry="euclidean", random_state=0))
    frame = customers()
    labels = pipeline.fit_predict(frame)
    shuffled = frame[frame.columns[::-1]].assign(other="x")
    assert np.array_equal(pipeline.predict(shuffled), labels)


def test_numbers_written_as_text_are_numbers() -> None:
    preparation = learn(source({"a": ["1", "2.5", "-3e2"]}))
    assert preparation.columns[0].categories is None
    X = preparation.apply(source({"a": ["1", "2.5", "-3e2"]})).read().X
    assert X.tolist() == [[1.0], [2.5], [-300.0]]


def test_rows_with_gaps_are_dropped_or_kept_as_gaps() -> None:
    preparation = learn(source(PEOPLE), gaps="drop")
    assert preparation.apply(source(PEOPLE)).read().X.tolist() == [[31, 0, 1], [52, 1, 0]]
    kept = preparation.apply(source(PEOPLE), keep_gaps=True).read().X
    assert np.isnan(kept).any(axis=1).tolist() == [False, True, True, False]


def test_a_column_is_text_even_if_its_first_rows_look_like_numbers() -> None:
    preparation = learn(source({"a": ["1", "2", "3", "x", "2", "1"]}))
    assert preparation.feature_names == ["a=1", "a=2", "a=3", "a=x"]


def test_text_never_seen_belongs_to_no_category() -> None:
    preparation = learn(source({"a": ["x", "y"]}))
    with pytest.warns(TellWarning, match="'z'"):
        X = preparation.apply(source({"a": ["z", "y"]})).read().X
    assert X.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize("gap", ["N/A", "-", "n.a.", "NULL", "", "  ", "nan", "None"])
def test_gaps_have_many_names(gap: str) -> None:
    preparation = learn(source({"a": ["1", gap, "3", "8"], "b": ["x", "y", gap, "x"]}))
    columns = {column.name: column for column in preparation.columns}
    assert columns["a"].fill == 3.0
    assert columns["a"].missing == columns["b"].missing == 0.25
    assert columns["b"].categories == ("x", "y")


def test_a_membership_of_none_is_a_value() -> None:
    column = learn(source({"plan": ["basic", "none", "none", "premium"]})).columns[0]
    assert column.missing == 0
    assert column.categories == ("basic", "none", "premium")


def test_what_cannot_be_clustered_says_why() -> None:
    with pytest.raises(InputError, match=r"no column is left.*no value at all"):
        learn(source({"a": [None, None]}))
    names = {"a": [f"name {n}" for n in range(200)]}
    with pytest.raises(InputError, match=str(MAX_CATEGORIES)):
        learn(source(names), types={"a": "category"})


def test_numbers_and_texts_of_numbers_are_the_same_category() -> None:
    learned = learn(source({"a": [1.0, 2.0, 1.0]}), types={"a": "category"})
    assert learned.feature_names == ["a=1", "a=2"]
    assert learned.apply(source({"a": ["2", "1.0"]})).read().X.tolist() == [[0, 1], [1, 0]]


@given(
    st.lists(
        st.tuples(st.none() | st.floats(-1e6, 1e6), st.none() | st.sampled_from("abc")),
        min_size=1,
        max_size=30,
    ),
)
def test_it_survives_json_and_leaves_no_gap(
    rows: list[tuple[float | None, str | None]],
) -> None:
    numbers = pa.array([row[0] for row in rows], pa.float64())
    texts = pa.array([row[1] for row in rows], pa.string())
    table = {"n": numbers, "t": texts}
    if numbers.null_count == len(rows) or texts.null_count == len(rows):
        return
    learned = learn(source(table), types={"n": "number", "t": "category"})
    again = Preparation.from_json(json.loads(json.dumps(learned.to_json())))
    assert again == learned
    X = again.apply(source(table)).read()
    assert np.isfinite(X.X).all()
    assert (X.X[:, 1:].sum(axis=1) == 1).all()
    assert X.filled is not None
    assert X.filled[:, 0].tolist() == [row[0] is None for row in rows]
    assert np.isfinite((X.X - again.offset) / again.scale).all()


def test_a_saved_preparation_that_uses_no_column_is_refused() -> None:
    content = learn(source({"a": [1.0, 2.0, 1.0]})).to_json()
    for column in content["columns"]:
        column["treatment"] = "left out"
    with pytest.raises(ModelFileError, match="leaves out every column"):
        Preparation.from_json(content)
