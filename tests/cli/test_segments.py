"""From a raw table to named segments, a report and a labelled file: every number by pandas."""

from __future__ import annotations

import io
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

Tell = Callable[..., Any]
SHOP = Path(__file__).parents[2] / "docs" / "tutorials" / "data" / "shop.py"
NAMES = {"Young": "basic", "Families": "family", "Pensioners": "none", "Travellers": "premium"}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SHOP), run_name="__main__")
    return pd.read_csv(tmp_path / "shop.csv")


def planted() -> Any:
    """The segments of the shop, drawn as its script draws them first."""
    return np.random.default_rng(7).choice(4, 5000, p=[0.4, 0.3, 0.2, 0.1])


def named(shown: str) -> list[str]:
    """Names for the clusters, by the membership that each is said to stand out by."""
    found = dict(re.findall(r"^ +(\d) .*?membership = (\w+)", shown, re.M))
    return [f"--name={j}={name}" for name, plan in NAMES.items() for j in found if found[j] == plan]


def test_two_commands_and_no_wrong_number(tell: Tell, shop: pd.DataFrame, tmp_path: Path) -> None:
    shown = tell("fit", "shop.csv", "-k", 4, "--drop", "churned", "--out", "segments").worked()
    names = named(shown)
    assert len(names) == 4
    done = tell(
        "explain", "segments", "shop.csv", *names, "--profile", "churned", "--id", "name",
        "--labels", "labelled.csv", "--sample", 400, "--map", "pca", "--out", "segments.html",
    )  # fmt: skip
    printed = re.sub(r"\s+", " ", done.worked())
    assert printed.startswith("There is cluster structure")
    labelled = pd.read_csv(tmp_path / "labelled.csv")
    assert labelled.drop(columns=["cluster", "cluster_name"]).equals(shop)
    assert adjusted_rand_score(planted(), labelled["cluster"]) > 0.98
    assert set(labelled["cluster_name"]) == set(NAMES)
    told = re.findall(r"(\w+) = (\w+) \((\d+) % here, (\d+) % elsewhere\)", printed)
    assert len(told) >= 2
    for column, level, here, elsewhere in told:
        shares = labelled.dropna(subset=column).groupby("cluster")[column]
        pairs = {
            (
                f"{100 * (own == level).mean():.0f}",
                f"{100 * _others(labelled, j, column, level):.0f}",
            )
            for j, own in shares
        }
        assert (here, elsewhere) in pairs
    for name, rows in labelled["cluster_name"].value_counts().items():
        assert f"{name} {rows:,} " in printed
    page = (tmp_path / "segments.html").read_text(encoding="utf-8")
    assert shop["name"][0] in page or len(shop) > 400  # rows by their names
    assert "Row 1" not in page
    for name, own in labelled.groupby("cluster_name"):
        assert f">{name}, {len(own):,} rows<" in page
        missing = own["income"].isna().mean()
        assert f"{missing:.0%}".replace("%", " %") in page
        assert f"{(own['churned'] == 'yes').mean():.0%}".replace("%", " %") in page


def _others(labelled: pd.DataFrame, j: Any, column: str, level: str) -> float:
    rest = labelled.loc[labelled["cluster"] != j, column].dropna()
    return float((rest == level).mean())


def test_all_facts_of_the_table_are_what_pandas_says(tell: Tell, shop: pd.DataFrame) -> None:
    tell("fit", "shop.csv", "-k", 4, "--drop", "churned", "--out", "segments").worked()
    tell("predict", "segments", "shop.csv", "--out", "labels.csv").worked()
    facts = json.loads(
        tell("explain", "segments", "shop.csv", "--json", "--map", "pca", "--sample", 5000).worked()
    )
    labels = pd.read_csv("labels.csv")["cluster"]
    names = facts["data"]["feature_names"]
    for cluster in facts["clusters"]:
        own = shop[labels == cluster["index"]]
        assert cluster["size"] == len(own)
        for place, name in enumerate(names):
            column, _, level = name.partition(" = ")
            there = own[column].dropna()
            values = (there == level).astype(float) if level else there
            assert cluster["mean"][place] == pytest.approx(values.mean(), rel=1e-9)
            assert cluster["deviation"][place] == pytest.approx(values.std(ddof=0), rel=1e-6)
            if not level:
                assert cluster["median"][place] == pytest.approx(values.median())
    shown = tell("show", "segments").worked()
    income = shop.loc[labels == int(shop["income"].groupby(labels).mean().idxmax()), "income"]
    assert f"income {income.mean():.0f}" in shown


def test_names_stay_with_the_model(tell: Tell, flower_model: Path, tmp_path: Path) -> None:
    from .conftest import iris_csv

    iris_csv(tmp_path / "iris.csv")
    assert "is called Small ones" in tell("name", "model", 1, "Small ones").err
    assert json.loads(tell("name", "model", 0, "Big", "--json").worked())["names"] == {
        "0": "Big", "1": "Small ones",
    }  # fmt: skip
    labels = tell("predict", "model", "iris.csv").worked().splitlines()
    assert labels[0] == '"cluster","cluster_name"'
    assert {"1": '"Small ones"', "0": '"Big"', "2": '""'}[labels[1][0]] == labels[1][2:]
    summary = json.loads(tell("predict", "model", "iris.csv", "--json").worked())
    assert summary["names"] == {"0": "Big", "1": "Small ones"}
    assert "Small ones" in tell("show", "model").worked()
    assert "has no name now" in tell("name", "model", 1).err
    assert "Small ones" not in tell("show", "model").worked()
    assert "0 to 2" in tell("name", "model", 7, "Nobody").failed()
    assert "2=Families" in tell("explain", "model", "iris.csv", "--name", "Big").failed()


def test_profile_and_id_need_columns_that_are_there(
    tell: Tell, flower_model: Path, tmp_path: Path
) -> None:
    from .conftest import iris_csv

    iris_csv(tmp_path / "iris.csv")
    options = ("--map", "pca", "--out", "r.html")
    tell("explain", "model", "iris.csv", "--profile", "species", "--id", "species", *options)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Columns that were not clustered" in page
    assert "setosa" in page
    assert "Row 5" not in page
    assert "no column 'kind'" in tell("explain", "model", "iris.csv", "--id", "kind").failed()
    assert "no column 'x'" in tell("explain", "model", "iris.csv", "--profile", "x").failed()


@pytest.fixture
def office(shop: pd.DataFrame, tmp_path: Path) -> pd.DataFrame:
    """The shop as an office writes it: semicolons, decimal commas, Latin-1, dates by day."""
    table = shop.head(1200).assign(
        city=np.where(shop["age"].head(1200) > 40, "Köln", "Münster"),
        joined=pd.to_datetime(shop["signup"].head(1200)),
    )
    table.assign(joined=table["joined"].dt.strftime("%d.%m.%Y")).to_csv(
        tmp_path / "office.csv", sep=";", decimal=",", index=False, encoding="latin-1"
    )
    return table


def test_columns_beside_an_office_file_are_read_as_its_rows_are(
    tell: Tell, office: pd.DataFrame, tmp_path: Path
) -> None:
    shown = tell("fit", "office.csv", "-k", 3, "--drop", "joined,city", "--out", "m").worked()
    assert "mean of all rows" in shown
    for name, usual in re.findall(r"(age|food|travel|media|income) [\d.,]+ \(([\d.,]+)\)", shown):
        assert float(usual.replace(",", "")) == pytest.approx(office[name].mean(), rel=5e-3)
    labels = pd.read_csv(io.StringIO(tell("predict", "m", "office.csv").worked()))
    assert labels.columns.tolist() == ["id", "cluster"]
    assert labels["id"].tolist() == office["id"].tolist()
    told = json.loads(
        tell(
            "explain", "m", "office.csv", "--profile", "joined", "--profile", "city", "--id", "id",
            "--json", "--sample", 300, "--map", "pca",
        ).worked()
    )  # fmt: skip
    joined, city = told["profiles"]
    means = office["joined"].groupby(labels["cluster"]).mean()
    days = (means - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    assert joined["kind"] == "date"
    np.testing.assert_allclose(joined["mean"][:-1], days, atol=1e-6)
    assert city["levels"] == office["city"].value_counts().index.tolist()
