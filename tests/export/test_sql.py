"""What a database says of rows is what the model says."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits, load_wine

from tell import TELL, DeepTELL, TablePreparation
from tell.estimators import DistilRecipe
from tell.exceptions import InputError

from .test_onnx import TYPES, customers


def in_duckdb(statement: str, frame: pd.DataFrame, table: str = "rows") -> pd.DataFrame:
    with duckdb.connect() as database:
        database.register("given", frame)
        database.execute(f'CREATE TABLE "{table}" AS SELECT * FROM given')
        return database.execute(statement).df()


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
@pytest.mark.parametrize("standardize", [False, True])
def test_numbers(geometry: str, standardize: bool) -> None:
    frame = load_wine(as_frame=True).data.rename(columns={"hue": 'a "strange" name'})
    options: dict[str, Any] = {"geometry": geometry, "standardize": standardize}
    model = TELL(4, random_state=0, **options).fit(frame)
    found = in_duckdb(model.to_sql("wines"), frame, "wines")
    np.testing.assert_array_equal(found["cluster"], model.labels_)
    own = model.transform(frame)[np.arange(len(frame)), model.labels_]
    np.testing.assert_allclose(found["distance"], own, rtol=2e-5, atol=1e-5)
    assert list(found.columns) == [*frame.columns, "cluster", "distance"]


def test_a_row_of_zeros_has_no_direction() -> None:
    frame = load_wine(as_frame=True).data
    model = TELL(3, random_state=0).fit(frame)
    zeros = frame.iloc[:2] * 0
    found = in_duckdb(model.to_sql(), zeros)
    assert found["cluster"].tolist() == model.predict(zeros).tolist()
    assert found["distance"].tolist() == [2**0.5, 2**0.5]


@pytest.mark.parametrize("geometry", ["sphere", "euclidean"])
def test_tables_with_gaps_categories_and_dates(geometry: str) -> None:
    frame = customers()
    prepare = TablePreparation(types={**TYPES, "income": "log"})
    model = TELL(3, geometry=geometry, prepare=prepare, random_state=0).fit(frame)  # type: ignore[arg-type]
    model.name_clusters({0: "Let's go"})
    new = customers()
    found = in_duckdb(model.to_sql(), new)
    np.testing.assert_array_equal(found["cluster"], model.predict(new))
    np.testing.assert_array_equal(found["cluster_name"] == "Let's go", found["cluster"] == 0)
    assert found["id"].tolist() == new["id"].tolist()


def test_the_arithmetic_of_sqlite() -> None:
    frame = customers()
    model = TELL(3, prepare=TablePreparation(types=TYPES), random_state=0).fit(frame)
    new = customers()
    written = new.assign(since=new["since"].dt.strftime("%Y-%m-%d"))
    with sqlite3.connect(":memory:") as database:
        written.to_sql("rows", database, index=False)
        found = pd.read_sql(model.to_sql(dialect="sqlite", keep=["id"]), database)
    np.testing.assert_array_equal(found["cluster"], model.predict(new))
    assert list(found.columns) == ["id", "cluster", "distance"]


def test_rows_that_would_be_dropped_have_no_cluster() -> None:
    frame = customers()
    prepare = TablePreparation(types=TYPES, gaps="drop")
    model = TELL(3, prepare=prepare, random_state=0).fit(frame)
    found = in_duckdb(model.to_sql(), frame)
    whole = frame[["income", "country", "member"]].notna().all(axis=1)
    np.testing.assert_array_equal(found["cluster"].notna(), whole)


def test_bigquery_has_its_own_quotes() -> None:
    frame = customers().rename(columns={"age": "it's `old`"})
    model = TELL(3, prepare=TablePreparation(types=TYPES), random_state=0).fit(frame)
    statement = model.to_sql("sales.customers", dialect="bigquery")
    assert "FROM `sales`.`customers`" in statement
    assert r"`it's \`old\``" in statement
    assert "UNIX_DATE(CAST(`since` AS DATE))" in statement


def test_what_sql_cannot_say() -> None:
    digits = load_digits().data[:100]
    with pytest.raises(InputError, match=r"columns with names.*fit it to a table"):
        TELL(2, random_state=0).fit(digits).to_sql()
    deep = DeepTELL(2, recipe=DistilRecipe(epochs=1, n_init=1), random_state=0).fit(digits)
    with pytest.raises(InputError, match="without an encoder, got DeepTELL"):
        deep.to_sql()
    frame = load_wine(as_frame=True).data
    with pytest.raises(InputError, match="dialect must be one of standard"):
        TELL(2, random_state=0).fit(frame).to_sql(dialect="klingon")


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from tell.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True)


def test_the_command(tmp_path: Path) -> None:
    frame = customers()
    frame.to_csv(tmp_path / "customers.csv", index=False)
    model, onnx = tmp_path / "model", tmp_path / "m.onnx"
    assert run("fit", tmp_path / "customers.csv", "-k", "3", "-o", model, "-q").returncode == 0
    result = run("export", model, "--sql", "--table", "customers", "--onnx", onnx)
    assert result.returncode == 0, result.stderr
    assert "ONNX model written" in result.stderr
    assert onnx.stat().st_size > 1000
    run("predict", model, tmp_path / "customers.csv", "-o", tmp_path / "labels.csv", "-q")
    labels = pd.read_csv(tmp_path / "labels.csv")["cluster"]
    found = in_duckdb(result.stdout, frame, "customers")
    assert labels.tolist() == found["cluster"].tolist()
    nothing = run("export", model)
    assert nothing.returncode == 2
    assert "--onnx FILE, --sql or --rules DATA" in nothing.stderr


def test_a_model_card(tmp_path: Path) -> None:
    frame = customers()
    frame.to_csv(tmp_path / "customers.csv", index=False)
    run("fit", tmp_path / "customers.csv", "-k", "3", "-o", tmp_path / "model", "-q")
    run("name", tmp_path / "model", "1", "Families")
    card = run("show", tmp_path / "model", "--card").stdout
    assert card.startswith("---\nlibrary_name: tell\n")
    assert "# 3 clusters of" in card
    assert "| 1 | Families |" in card
    assert f"{100 * frame['income'].isna().mean():.1f} %" in card
    lines = [line for line in card.splitlines() if line[:3] in ("| 0", "| 1", "| 2")]
    sizes = [int(line.split("|")[3]) for line in lines]
    assert sum(sizes) == len(frame)
