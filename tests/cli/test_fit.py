"""`tell fit`: files in, a model and a table out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_digits, load_iris

from tell import TELL, load

from .conftest import Run, contents, iris_csv

Tell = Callable[..., Run]


def test_the_embedded_digits(tell: Tell, tmp_path: Path) -> None:
    text = tell("fit", "digits", "-k", 10, "--out", "model").worked()
    assert "10 clusters of 1,797 rows × 64 columns" in text
    header = next(line for line in text.splitlines() if "cluster " in line)
    assert header.split() == ["cluster", "size", "share", "cohesion", "nearest", "angle"]
    for metric in ("ACC", "NMI", "ARI", "AMI", "homogeneity", "completeness", "v-measure"):
        assert metric in text
    assert max(map(len, text.splitlines())) <= 80
    model = load(tmp_path / "model")
    assert isinstance(model, TELL)
    assert model.cluster_centers_.shape == (10, 64)


def test_json_is_all_that_is_printed_and_says_what_the_model_says(
    tell: Tell, tmp_path: Path
) -> None:
    csv = iris_csv(tmp_path / "iris.csv")
    arguments = ["--label", "species", "--geometry", "euclidean", "--seed", 3, "--n-init", 2]
    done = tell("fit", csv, "-k", 3, *arguments, "--json")
    result = json.loads(done.worked())
    assert done.err == ""
    model = load(tmp_path / "model")
    assert result["loss"] == pytest.approx(model.loss_)
    assert [entry["size"] for entry in result["clusters"]] == model.cluster_sizes_.tolist()
    assert sum(entry["share"] for entry in result["clusters"]) == pytest.approx(1)
    assert len(model.runs_) == 2
    assert result["metrics"]["acc"] > 0.85
    first = result["clusters"][0]
    centers = model.cluster_centers_
    gap = np.linalg.norm(centers[0] - centers[first["nearest"]])
    assert first["distance"] == pytest.approx(gap, rel=1e-4)


def test_every_file_type_gives_the_same_clusters(tell: Tell, tmp_path: Path) -> None:
    X = load_iris().data
    np.save(tmp_path / "iris.npy", X)
    np.savez(tmp_path / "iris.npz", X=X)
    columns = {f"x{place}": X[:, place] for place in range(4)}
    pq.write_table(pa.table(columns), tmp_path / "iris.parquet")
    losses = []
    for name in ("iris.npy", "iris.npz", "iris.parquet"):
        done = tell("fit", name, "-k", 3, "--no-prepare", "--out", f"{name}.model", "--json")
        losses.append(json.loads(done.worked())["loss"])
    assert losses[1:] == losses[:1] * 2


def test_standard_input_is_a_file_too(tell: Tell, tmp_path: Path) -> None:
    text = iris_csv(tmp_path / "iris.csv").read_text()
    done = tell("fit", "-", "-k", 3, "--drop", "species", "--json", stdin=text)
    assert json.loads(done.worked())["rows"] == 150


def test_columns_are_chosen_by_name(tell: Tell, tmp_path: Path) -> None:
    csv = iris_csv(tmp_path / "iris.csv")
    tell("fit", csv, "-k", 3, "--columns", "petal width,petal length", "--out", "few").worked()
    assert load(tmp_path / "few").feature_names_in_.tolist() == ["petal width", "petal length"]


def test_gaps_and_text_are_prepared_and_the_model_keeps_how(tell: Tell, tmp_path: Path) -> None:
    rows = ["age,city,income", "31,Ulm,20", ",Ulm,31", "45,Bonn,", "52,,51", "23,Bonn,9"]
    (tmp_path / "people.csv").write_text("\n".join(rows))
    done = tell("fit", "people.csv", "-k", 2)
    done.worked()
    for words in ("city", "category", "one-hot", "20.0%", "38"):  # the table of decisions
        assert words in done.err
    model = load(tmp_path / "model")
    names = ["age", "city=Bonn", "city=Ulm", "income"]
    assert model.feature_names_in_.tolist() == names
    filled = {column.name: column.fill for column in model.preparation_.columns}
    assert filled["age"] == 38.0  # the median of 23, 31, 45 and 52
    assert filled["income"] == 25.5
    shown = tell("show", "model").worked()
    assert "city = Bonn" in shown
    assert "gaps filled" in shown
    # New rows have gaps and a city that was never seen: they are treated alike.
    (tmp_path / "new.csv").write_text("income,city,age\n,Ulm,33\n40,Rom,\n")
    done = tell("predict", "model", "new.csv")
    assert len(done.worked().splitlines()) == 3
    assert "Rom" in done.err


def test_rows_with_gaps_can_be_left_out(tell: Tell, tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text("a,b\n1,2\n,5\n2,1\n3,3\n9,\n")
    result = json.loads(tell("fit", "gaps.csv", "-k", 2, "--gaps", "drop", "--json").worked())
    assert result["rows"] == 3
    labels = tell("predict", "model", "gaps.csv").worked().split()[1:]
    assert [labels[1], labels[4]] == ["-1", "-1"]
    assert "-1" not in [labels[0], labels[2], labels[3]]


def test_a_model_is_replaced_only_on_demand(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    before = contents(flower_model)
    assert "--force" in tell("fit", "digits", "-k", 3, "--out", flower_model).failed()
    assert contents(flower_model) == before
    tell("fit", "digits", "-k", 3, "--out", flower_model, "--force").worked()
    assert load(flower_model).n_features_in_ == 64


def test_a_folder_with_other_things_is_never_written_to(tell: Tell, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    assert "thesis" in tell("fit", "digits", "-k", 3, "--out", "thesis", "--force").failed()
    assert contents(tmp_path / "thesis") == {"chapter.txt": b"years of work"}


@pytest.mark.parametrize("out", ["file", "file/model", "file/a/b", "gone", "work", "hidden"])
def test_a_place_that_cannot_be_written_is_told_before_the_work(
    tell: Tell, tmp_path: Path, out: str, flower_model: Path
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "gone").symlink_to("nowhere")
    flower_model.rename(tmp_path / "work")
    (tmp_path / "work" / "notes.txt").write_text("x")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".notes").write_text("x")
    before = contents(tmp_path)
    line = tell("fit", "nowhere.csv", "-k", 3, "--out", out, "--force").failed()
    assert line.startswith(f"tell: {out} ")  # and not that there are no rows
    assert contents(tmp_path) == before


def test_the_seed_decides(tell: Tell, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", load_digits().data[:300])
    for name in ("one", "two"):
        tell("fit", "x.npy", "-k", 5, "--seed", 7, "--n-init", 1, "--out", name).worked()
    first, second = (load(tmp_path / name).cluster_centers_ for name in ("one", "two"))
    assert np.array_equal(first, second)


def test_a_column_that_decides_alone_is_pointed_out(tell: Tell, tmp_path: Path) -> None:
    rows = "".join(f"{20 + age},{1000 * age**2}\n" for age in range(40))
    (tmp_path / "people.csv").write_text("age,income\n" + rows)
    euclidean = ["-k", 2, "--geometry", "euclidean", "--no-prepare", "--force"]
    note = tell("fit", "people.csv", *euclidean)
    assert note.code == 0
    assert "'income'" in note.err
    assert "--standardize" in note.err
    assert tell("fit", "people.csv", *euclidean, "--standardize").err == ""


def test_columns_of_an_array_are_found_again_by_number(tell: Tell, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", load_iris().data)
    tell("fit", "x.npy", "-k", 3, "--columns", "0,2", "--out", "model").worked()
    assert len(tell("predict", "model", "x.npy").worked().split()) >= 150


def test_a_demo_overwrites_no_model_but_its_own(tell: Tell, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", load_iris().data)
    tell("fit", "x.npy", "-k", 3, "--out", "model").worked()
    before = contents(tmp_path / "model")
    refused = tell("demo", "--out", ".")
    assert refused.code == 2
    assert "is not a demo's model and would be overwritten" in refused.err
    assert contents(tmp_path / "model") == before


@pytest.mark.parametrize("damage", ["short", "plain"])
def test_a_damaged_gzip_file_is_named(tell: Tell, tmp_path: Path, damage: str) -> None:
    text = iris_csv(tmp_path / "flowers.csv").read_bytes()
    payload = gzip.compress(text)[:400] if damage == "short" else text
    (tmp_path / "bad.csv.gz").write_bytes(payload)
    refused = tell("fit", "bad.csv.gz", "-k", 3, "--label", "species")
    assert refused.code == 2
    assert "bad.csv.gz must be a whole gzip file" in refused.err


def test_an_empty_folder_is_called_empty(tell: Tell, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    refused = tell("fit", "nothing", "-k", 3)
    assert refused.code == 2
    assert "the folder holds no tables" in refused.err


def test_rows_without_a_label_are_not_scored(tell: Tell, tmp_path: Path) -> None:
    whole = json.loads(fit_flowers(tell, iris_csv(tmp_path / "flowers.csv")))
    lines = (tmp_path / "flowers.csv").read_text().replace("setosa", "", 2)
    (tmp_path / "flowers.csv").write_text(lines)
    done = tell("fit", "flowers.csv", "-k", 3, "--label", "species", "--json", "--force")
    assert "2 rows without a label are not scored" in done.err
    assert json.loads(done.worked())["metrics"]["acc"] == pytest.approx(
        whole["metrics"]["acc"], abs=0.003
    )


def fit_flowers(tell: Tell, file: Path) -> str:
    return tell("fit", file, "-k", 3, "--label", "species", "--json").worked()


def test_a_model_with_names_takes_an_array_of_as_many_columns(tell: Tell, tmp_path: Path) -> None:
    iris_csv(tmp_path / "flowers.csv")
    chosen = ("--columns", "sepal width,petal width")
    tell("fit", "flowers.csv", "-k", 3, *chosen, "--out", "model").worked()
    np.save(tmp_path / "x.npy", load_iris().data[:, [1, 3]])
    assert len(tell("predict", "model", "x.npy").worked().split()) >= 150


def test_options_of_deep_models_need_a_deep_model(tell: Tell) -> None:
    message = tell("fit", "digits", "-k", 10, "--start", "random", "--jobs", 2).failed()
    assert "--start, --jobs must come with --deep" in " ".join(message.split())


def test_what_was_measured_of_tables_is_said_of_the_model_at_hand(
    tell: Tell, tmp_path: Path
) -> None:
    rows = [f"{i % 7},{'abc'[i % 3]}" for i in range(60)]
    (tmp_path / "mixed.csv").write_text("\n".join(["size,kind", *rows]))
    for options, said, unsaid in (
        ([], "best over 11 labelled tables", "--deep was"),
        (["--deep"], "--deep was far behind a plain fit", "labelled tables"),
    ):
        out = tell("fit", "mixed.csv", "-k", 3, *options, "--out", f"model{len(options)}")
        printed = " ".join(out.err.split())
        assert said in printed
        assert unsaid not in printed


def test_a_deep_model_takes_a_recipe_and_a_start(tell: Tell, tmp_path: Path) -> None:
    np.save(tmp_path / "few.npy", load_digits().images[:60])
    options = [
        "--deep",
        "--start",
        "k-means++",
        "--augment",
        "affine",
        "--n-init",
        2,
        "--jobs",
        2,
        "--checkpoint",
        "state",
    ]
    tell("fit", "few.npy", "-k", 3, *options, "--out", "model").worked()
    model = load(tmp_path / "model")
    assert model.recipe.start.name == "k-means++"
    assert model.augment == "affine"
    assert len(model.runs_) == 2
    assert not (tmp_path / "state").exists()
