"""Rules that stand in for a model: what they predict, say, cost and become in SQL."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_wine

from tell import TELL, DeepTELL, TablePreparation
from tell.adapter import as_model
from tell.estimators import DistilRecipe
from tell.exceptions import InputError, ParameterError
from tell.export.rules import learn_rules

from .test_onnx import TYPES, customers
from .test_sql import in_duckdb


@pytest.fixture(scope="module")
def wine() -> pd.DataFrame:
    return load_wine(as_frame=True).data


@pytest.fixture(scope="module")
def flat(wine: pd.DataFrame) -> TELL:
    return TELL(3, geometry="euclidean", standardize=True, random_state=0).fit(wine)


def test_a_line_of_four_rows_by_hand() -> None:
    X = np.array([[0.0], [2.0], [10.0], [12.0]])
    model = TELL(2, geometry="euclidean", init=[[1.0], [11.0]], n_init=1).fit(X)
    rules = model.to_rules(X)
    assert [rule.text for rule in rules.rules] == ["feature 0 ≤ 6", "feature 0 > 6"]
    assert rules.predict(np.array([[5.0], [7.0]])).tolist() == [0, 1]
    price = rules.price
    assert (price.n_leaves, price.depth, price.agreement, price.n_rows) == (2, 1, 1.0, 4)
    assert price.cost_ratio == price.surrogate_ratio == 1
    # With a fifth row at 6, as near to both centres: 0, 2 and 6 about their mean 8/3 cost 168/9.
    other = rules.measure(np.array([[0.0], [2.0], [10.0], [12.0], [6.0]]))
    assert (other.n_rows, other.agreement) == (5, 1.0)
    assert other.surrogate_ratio == 1
    assert other.cost_ratio == pytest.approx((168 / 9 + 2) / (4 + 25))


def test_the_price_of_a_tree_is_that_of_its_clusters(flat: TELL, wine: pd.DataFrame) -> None:
    rules = flat.to_rules(wine, n_leaves=3)
    placed = rules.predict(wine)
    Z = flat.embed(wine)
    about_means = sum(((Z[placed == j] - Z[placed == j].mean(0)) ** 2).sum() for j in range(3))
    squared = flat.transform(wine) ** 2
    assert rules.price.cost_ratio == pytest.approx(about_means / squared.min(axis=1).sum())
    there = squared[np.arange(len(wine)), placed].sum()
    assert rules.price.surrogate_ratio == pytest.approx(there / squared.min(axis=1).sum())
    assert 1 <= rules.price.cost_ratio <= rules.price.surrogate_ratio < 1.3
    assert rules.price.agreement == np.mean(placed == flat.labels_)
    assert (rules.price.n_leaves, len(rules.rules)) == (3, 3)
    more = flat.to_rules(wine)
    assert more.price.n_leaves == 6
    assert more.price.surrogate_ratio < rules.price.surrogate_ratio


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_rules_are_true_as_they_are_printed(geometry: Any, wine: pd.DataFrame) -> None:
    model = TELL(3, geometry=geometry, standardize=True, random_state=0).fit(wine)
    rules = model.to_rules(wine)
    placed = np.full(len(wine), -1)
    for rule in rules.rules:
        fits = np.ones(len(wine), bool)
        for part in rule.text.split(" and "):
            fits &= holds(part, wine)
        assert fits.sum() == rule.n_rows
        assert np.mean(model.labels_[fits] == rule.cluster) == rule.precision
        placed[fits] = rule.cluster
    np.testing.assert_array_equal(placed, rules.predict(wine))
    assert "times the loss of the model" in str(rules)
    assert json.loads(json.dumps(rules.to_dict()))["price"]["n_leaves"] == rules.price.n_leaves


def holds(text: str, frame: pd.DataFrame) -> Any:
    """Apply one printed condition."""
    if " < " in text:
        low, rest = text.split(" < ")
        name, high = rest.split(" ≤ ")
        return ((frame[name] > number(low)) & (frame[name] <= number(high))).to_numpy()
    name, sign, limit = text.rsplit(" ", 2)
    column = frame[name]
    return (column <= number(limit) if sign == "≤" else column > number(limit)).to_numpy()


def number(text: str) -> float:
    return float(text.replace(",", ""))


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_a_database_gives_the_labels_of_the_rules(geometry: Any) -> None:
    frame = customers()
    prepare = TablePreparation(types={**TYPES, "income": "log"})
    model = TELL(3, geometry=geometry, prepare=prepare, random_state=0).fit(frame)
    model.name_clusters({1: "Let's go"})
    rules = model.to_rules(frame, n_leaves=8)
    found = in_duckdb(rules.to_sql("customers"), frame, "customers")
    np.testing.assert_array_equal(found["cluster"], rules.predict(frame))
    np.testing.assert_array_equal(found["cluster_name"] == "Let's go", found["cluster"] == 1)
    assert found["id"].tolist() == frame["id"].tolist()
    assert "cluster 1 (Let's go) if " in str(rules)
    written = frame.assign(since=frame["since"].dt.strftime("%Y-%m-%d"))
    with sqlite3.connect(":memory:") as database:
        written.to_sql("rows", database, index=False)
        again = pd.read_sql(rules.to_sql(dialect="sqlite", keep=["id"]), database)
    np.testing.assert_array_equal(again["cluster"], found["cluster"])


def test_rules_speak_of_categories_dates_and_plain_numbers() -> None:
    frame = customers()
    prepare = TablePreparation(types={**TYPES, "income": "log"})
    model = TELL(4, prepare=prepare, random_state=0).fit(frame)
    rules = model.to_rules(frame, n_leaves=12)
    texts = " and ".join(rule.text for rule in rules.rules).split(" and ")
    for text in texts:
        assert "log1p" not in text
        assert "=" not in text
        assert "(year" not in text
    incomes = [text for text in texts if "income" in text]
    limits = [number(text.rsplit(" ", 1)[1]) for text in incomes]
    assert all(frame["income"].min() <= limit <= frame["income"].max() for limit in limits)


def test_a_model_with_an_encoder_goes_to_sql_by_rules(wine: pd.DataFrame) -> None:
    recipe = DistilRecipe(epochs=2, n_init=1)
    deep = DeepTELL(3, recipe=recipe, random_state=0).fit(wine)
    rules = deep.to_rules(wine)
    found = in_duckdb(rules.to_sql(), wine)
    np.testing.assert_array_equal(found["cluster"], rules.predict(wine))
    assert rules.price.agreement > 0.8


def test_a_foreign_k_means_and_an_array() -> None:
    X = load_digits().data[:400]
    model = KMeans(5, n_init=1, random_state=0).fit(X)
    rules = learn_rules(as_model(model), X, n_leaves=5)
    assert rules.price.n_leaves == 5
    assert set(rules.predict(X)) <= set(range(5))
    assert rules.rules[0].text.startswith("feature ") or " < feature " in rules.rules[0].text
    with pytest.raises(InputError, match="columns with names"):
        rules.to_sql()


def test_a_sample_of_many_rows_is_seeded() -> None:
    X = np.random.default_rng(0).normal(size=(3000, 3))
    model = TELL(3, geometry="euclidean", random_state=0).fit(X)
    first, same, other = (
        model.to_rules(X, sample_size=500, random_state=seed) for seed in (0, 0, 1)
    )
    assert first.price.n_rows == 500
    assert first.to_dict() == same.to_dict() != other.to_dict()


def test_what_rules_refuse(flat: TELL, wine: pd.DataFrame) -> None:
    with pytest.raises(ParameterError, match=r"n_leaves must be at least 3.*got 2"):
        flat.to_rules(wine, n_leaves=2)
    with pytest.raises(ParameterError, match="sample_size must be at least 1"):
        flat.to_rules(wine, sample_size=0)
    with pytest.raises(InputError, match="needs 13 columns as in fit, got 2"):
        flat.to_rules(np.zeros((4, 2)))
    rules = flat.to_rules(wine)
    with pytest.raises(InputError, match="dialect must be one of standard"):
        rules.to_sql(dialect="klingon")
