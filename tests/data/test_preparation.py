"""Text and gaps become numbers, the same way when learned and when applied later."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tell.data.chunks import Choice
from tell.data.preparation import Preparation
from tell.data.survey import MAX_CATEGORIES, Impute, learn
from tell.data.tables import ArrowSource
from tell.exceptions import InputError, TellWarning

PEOPLE = {"age": ["31", " ", "45", "52"], "city": ["Ulm", "Ulm", "", "Bonn"]}


def source(columns: dict[str, list[object]], chunk_rows: int = 2) -> ArrowSource:
    return ArrowSource(pa.table(columns), Choice(), chunk_rows)


def test_numbers_written_as_text_are_numbers() -> None:
    preparation = learn(source({"a": ["1", "2.5", "-3e2"]}))
    assert preparation.columns[0].categories is None
    assert preparation.apply(source({"a": ["1", "2.5", "-3e2"]})).read().X.tolist() == [
        [1.0],
        [2.5],
        [-300.0],
    ]


@pytest.mark.parametrize(("impute", "age"), [("mean", 128 / 3), ("median", 45.0)])
def test_gaps_get_the_typical_value(impute: Impute, age: float) -> None:
    X = learn(source(PEOPLE), impute=impute, one_hot=True).apply(source(PEOPLE)).read().X
    assert X[1, 0] == pytest.approx(age)
    assert X[2].tolist() == [45.0, 0.0, 1.0]  # the most frequent city


def test_rows_with_gaps_are_dropped_or_kept_as_gaps() -> None:
    preparation = learn(source(PEOPLE), impute="drop", one_hot=True)
    assert preparation.apply(source(PEOPLE)).read().X.tolist() == [[31, 0, 1], [52, 1, 0]]
    kept = preparation.apply(source(PEOPLE), keep_gaps=True).read().X
    assert np.isnan(kept).any(axis=1).tolist() == [False, True, True, False]


def test_a_column_is_text_even_if_its_first_rows_look_like_numbers() -> None:
    mixed = {"a": ["1", "2", "3", "x", "2", "1"]}
    preparation = learn(source(mixed), one_hot=True)
    assert preparation.feature_names == ["a=1", "a=2", "a=3", "a=x"]


def test_text_never_seen_belongs_to_no_category() -> None:
    preparation = learn(source({"a": ["x", "y"]}), one_hot=True)
    with pytest.warns(TellWarning, match="'z'"):
        X = preparation.apply(source({"a": ["z", "y"]})).read().X
    assert X.tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"a": ["1", "x"]}, {}, "row 1 .*'a'.*'x'.*--one-hot"),
        ({"a": ["1", "2", "", "4"]}, {}, "row 2 .*'a'.*--impute"),
        ({"a": [None, None]}, {"impute": "mean"}, "'a' has no value"),
        ({"a": [f"name {n}" for n in range(200)]}, {"one_hot": True}, str(MAX_CATEGORIES)),
    ],
)
def test_what_cannot_be_prepared_names_column_row_and_remedy(
    columns: dict[str, list[object]], options: dict[str, object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        learn(source(columns), **options)


def test_later_rows_are_held_to_what_was_learned() -> None:
    preparation = learn(source({"a": [1.0, 2.0]}))
    with pytest.raises(InputError, match=r"row 1 .*'x'"):
        preparation.apply(source({"a": ["1", "x"]})).read()
    with pytest.raises(InputError, match=r"row 0 .*missing"):
        preparation.apply(source({"a": [None, "1"]})).read()
    with pytest.raises(InputError, match="infinite"):
        preparation.apply(source({"a": ["1", "inf"]})).read()


@given(
    st.lists(
        st.tuples(st.none() | st.floats(-1e6, 1e6), st.none() | st.sampled_from("abc")),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from(["mean", "median"]),
)
def test_it_survives_json_and_leaves_no_gap(
    rows: list[tuple[float | None, str | None]], impute: Impute
) -> None:
    numbers = pa.array([row[0] for row in rows], pa.float64())
    texts = pa.array([row[1] for row in rows], pa.string())
    table = {"n": numbers, "t": texts}
    if numbers.null_count == len(rows) or texts.null_count == len(rows):
        return
    learned = learn(source(table), impute=impute, one_hot=True)
    again = Preparation.from_json(json.loads(json.dumps(learned.to_json())))
    assert again == learned
    X = again.apply(source(table)).read().X
    assert np.isfinite(X).all()
    assert (X[:, 1:].sum(axis=1) == 1).all()
