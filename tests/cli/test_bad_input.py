"""Bad input: exit code 2, one line that helps, and nothing on disk has changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from .conftest import Run, contents, iris_csv

Tell = Callable[..., Run]

GOOD = "a,b\n1,2\n2,1\n3,3\n"


@pytest.mark.parametrize(
    ("content", "options", "parts"),
    [
        ("a,b\n1,2\n,3\n4,5\n", ["--no-prepare"], ["row 1", "'a'", "--prepare"]),
        ("a,b\n1,2\nnan,3\n4,5\n", ["--no-prepare"], ["row 1", "'a'", "--prepare"]),
        ("a,b\n1,2\ninf,3\n4,5\n", [], ["row 1", "'a'", "infinite"]),
        ("a,b\n1,2\n1e400,3\n4,5\n", ["--no-prepare"], ["row 1", "'a'", "float64"]),
        ("a,b\n1,2\nred,3\n4,5\n", ["--no-prepare"], ["row 1", "'a'", "'red'", "--drop"]),
        ("a,b\n1,2\nred,3\n4,5\n", ["--column", "a:number"], ["'a'", "'red'"]),
        ("a,b\n1,2\n,3\n4,5\n", ["--column", "c:log"], ["'c'", "none"]),
        ("a,b\n1,2\n,3\n4,5\n", ["--column", "a:int"], ["'a'", "category", "'int'"]),
        ("a,b\n1,2\n,3\n4,5\n", ["--column", "a"], ["NAME:TYPE", "--columns"]),
        ("a\n\n", [], ["row", "none"]),
        ("a,b\n1,2,3\n2,1\n", [], ["row 0", "3 fields"]),
        ("a;b\n1.5;2,5x\n2;1\n", ["--no-prepare"], ["row 0", "'2,5x'"]),
        ("a,b\n0,0\n0,0\n0,0\n", ["--no-prepare"], ["zero", "euclidean"]),
        ("a,b\n0,0\n0,0\n0,0\n", [], ["no column is left", "every value is 0"]),
        ("a,b\n1,2\n", [], ["2", "1", "rows"]),
        ("", [], ["row", "none"]),
        ("a,b\n", [], ["row", "none"]),
        (GOOD, ["--columns", "c"], ["'c'", "'a', 'b'"]),
        (GOOD, ["--drop", "a,b"], ["no column is left"]),
        (GOOD, ["--label", "species"], ["'species'"]),
        ("a,a\n1,2\n2,1\n", [], ["'a'", "twice"]),
    ],
)
def test_tables_that_cannot_be_clustered(
    tell: Tell, tmp_path: Path, content: str, options: list[str], parts: list[str]
) -> None:
    (tmp_path / "rows.csv").write_text(content)
    line = tell("fit", "rows.csv", "-k", 2, *options).failed()
    for part in parts:
        assert part in line
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_nothing_is_written_over_the_data(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    table = iris_csv(tmp_path / "flowers.csv")
    (tmp_path / "many").mkdir()
    iris_csv(tmp_path / "many" / "part.csv")
    table.with_suffix(".html").symlink_to(table)
    before = contents(tmp_path)
    for words in (
        ("predict", "model", "flowers.csv", "--out", "flowers.csv"),
        ("predict", "model", "./flowers.csv", "--out", table),
        ("predict", "model", "flow*.csv", "--out", "flowers.csv"),
        ("predict", "model", "many", "--out", "many/part.csv"),
        ("explain", "model", "flowers.csv", "--out", "flowers.html"),
    ):
        assert "is the data itself" in tell(*words).failed(), words
    for words in (
        ("explain", "model", "flowers.csv", "--out", "flowers.csv"),
        ("explain", "model", "flowers.csv", "--out", "model/model.json"),
        ("compare", "flowers.csv", "-k", 3, "--html", "flowers.csv"),
    ):
        assert "must end in .html" in tell(*words).failed(), words
    assert contents(tmp_path) == before


def test_a_page_among_the_data_is_replaced(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    (tmp_path / "many").mkdir()
    iris_csv(tmp_path / "many" / "part.csv")
    for _ in range(2):
        tell("explain", "model", "many", "--map", "pca", "--out", "many/report.html").worked()


def test_a_file_in_place_of_a_model_is_told(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    iris_csv(tmp_path / "flowers.csv")
    line = tell("predict", "flowers.csv", "model").failed()
    assert "flowers.csv is not a model folder: it is a file" in line


def test_files_that_are_not_what_they_seem(tell: Tell, tmp_path: Path) -> None:
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "text.npy").write_text("hello")
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "text.parquet").write_text("hello")
    (tmp_path / "picture.bmp").write_text("hello")
    (tmp_path / "latin.csv").write_bytes(b"gr\xf6\xdfe,b\n1,2\n")
    np.save(tmp_path / "objects.npy", np.array([{"a": 1}]), allow_pickle=True)
    np.save(tmp_path / "line.npy", np.arange(5.0))
    for path in sorted(tmp_path.iterdir()):
        assert path.name in tell("fit", path.name, "-k", 2).failed()
    assert "nowhere.csv" in tell("fit", "nowhere.csv", "-k", 2).failed()


@pytest.mark.parametrize("name", ["[red]bold[end].csv", "new\nline.csv", "\x1b[2Jx.csv", "ü ß.csv"])
def test_hostile_file_names_are_read_and_shown_safely(
    tell: Tell, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("a,b\n1,x\n")
    line = tell("fit", tmp_path / name, "-k", 2).failed()
    assert "\x1b" not in line
    assert name.isprintable() is (name in line)


def test_a_file_name_may_look_like_an_option(tell: Tell, tmp_path: Path) -> None:
    (tmp_path / "--help.csv").write_text(GOOD)
    result = json.loads(tell("fit", "-k", 2, "--json", "--", "--help.csv").worked())
    assert result["rows"] == 3


def test_model_folders_that_are_no_models(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    csv = iris_csv(tmp_path / "iris.csv")
    (tmp_path / "empty").mkdir()
    assert "empty" in tell("show", "empty").failed()
    assert "nowhere" in tell("predict", "nowhere", csv).failed()
    tensors = next(flower_model.glob("*.safetensors"))
    whole = tensors.read_bytes()
    tensors.write_bytes(whole[: len(whole) // 2])
    assert "damaged" in tell("show", flower_model).failed()
    tensors.write_bytes(whole)
    description = flower_model / "model.json"
    newer = json.loads(description.read_text()) | {"version": 999}
    description.write_text(json.dumps(newer))
    assert "999" in tell("show", flower_model).failed()
    description.write_text("{")
    assert "JSON" in tell("show", flower_model).failed()


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("sepal length,sepal width\n1,2\n", "petal length"),
        ("sepal length,sepal width,petal length,petal width\n1,2,3,x\n", "'petal width'"),
        ("sepal length,sepal width,petal length,petal width\n1,2,3,inf\n", "'petal width'"),
    ],
)
def test_rows_that_do_not_fit_the_model(
    tell: Tell, tmp_path: Path, flower_model: Path, content: str, part: str
) -> None:
    (tmp_path / "new.csv").write_text(content)
    (tmp_path / "labels.csv").write_text("earlier labels\n")
    before = contents(tmp_path)
    assert part in tell("predict", flower_model, "new.csv", "--out", "labels.csv").failed()
    update = tell("update", flower_model, "new.csv")
    assert update.code == 2
    assert part in update.err.splitlines()[-1]
    assert contents(tmp_path) == before


def test_outputs_that_cannot_be_written(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    csv = iris_csv(tmp_path / "iris.csv")
    for target in ("labels.xlsx", "nowhere/labels.csv", "."):
        line = tell("predict", flower_model, csv, "--out", target).failed()
        assert target.split("/")[0] in line
    assert ".npz" in tell("predict", flower_model, csv, "--out", "l.npy", "--proba").failed()
    (tmp_path / "file").write_text("x")
    assert "file" in tell("fit", csv, "-k", 2, "--drop", "species", "--out", "file").failed()


def test_options_that_contradict_each_other(tell: Tell) -> None:
    assert "--deep" in tell("fit", "digits", "-k", 3, "--deep", "--standardize").failed()
    assert "table" in tell("fit", "digits", "-k", 3, "--gaps", "drop").failed()
    options = ("--no-prepare", "--column", "a:log")
    assert "--prepare" in tell("fit", "digits", "-k", 3, *options).failed()
