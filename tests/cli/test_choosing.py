"""`tell choose`, `tell fit` without -k, `tell predict --reject`."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tell import TELL, load
from tell.cli.main import app


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def blobs(tmp_path):
    random = np.random.default_rng(0)
    X = 20 * random.normal(size=(4, 3))[random.integers(0, 4, 300)] + random.normal(size=(300, 3))
    path = tmp_path / "rows.npy"
    np.save(path, X.astype(np.float32))
    return path


def test_choose_and_fit_agree(blobs, tmp_path):
    options = ("--geometry", "euclidean", "--max", "6")
    chosen = json.loads(run("choose", blobs, *options, "--json"))
    assert chosen["n_clusters"] == 4
    assert chosen["evidence"]["n_clusters"] == [1, 2, 3, 4, 5, 6]
    text = run("choose", blobs, *options)
    assert "chosen" in text
    assert "4 clusters: they are" in text
    fitted = json.loads(run("fit", blobs, *options, "-o", tmp_path / "model", "--json"))
    assert fitted["n_clusters"] == 4
    assert fitted["choice"]["reasons"] == chosen["reasons"]
    assert load(tmp_path / "model").choice_.n_clusters == 4


def test_outliers_may_be_left_out_and_directions_be_given_up(blobs, tmp_path):
    rows = np.load(blobs)
    rows[:2] = 5000
    np.save(blobs, rows)
    options = ("--geometry", "euclidean", "--max", "6")
    assert "--trim 1%" in " ".join(run("choose", blobs, *options).split())
    chosen = json.loads(run("choose", blobs, *options, "--trim", "1%", "--json"))
    assert (chosen["n_clusters"], chosen["evidence"]["n_rows"]) == (4, 297)
    text = run("fit", blobs, *options, "--trim", "1%", "-o", tmp_path / "model")
    assert "4 clusters of 300 rows" in text
    assert "3 rows served worst left out of the centres" in text
    assert load(tmp_path / "model").trim == 0.01
    said = run("fit", blobs, "--deep", "-k", "2", "--trim", "1%", "-o", tmp_path / "x", code=2)
    assert "leave out --standardize, --geometry, --half-life and --trim" in " ".join(said.split())
    np.save(blobs, np.random.default_rng(0).normal(size=(200, 3)))
    hint = "compared by direction alone; by distance: --geometry euclidean"
    assert hint in " ".join(run("choose", blobs, "--max", "4").split())
    text = run("fit", blobs, "--max", "4", "-o", tmp_path / "one")
    assert "1 cluster of 200 rows" in text
    assert hint in " ".join(text.split())


def test_max_belongs_to_a_choice(blobs, tmp_path):
    text = run("fit", blobs, "-k", "3", "--max", "6", "-o", tmp_path / "model", code=2)
    assert "leave one out" in text


def test_rejected_rows_get_no_cluster(blobs, tmp_path):
    run("fit", blobs, "-k", "4", "--geometry", "euclidean", "-o", tmp_path / "model")
    rows = np.load(blobs)
    rows[:3] = 500
    np.save(tmp_path / "new.npy", rows)
    result = json.loads(
        run("predict", tmp_path / "model", tmp_path / "new.npy", "--reject", "0.5%", "--json")
    )
    assert result["labels"][:3] == [-1, -1, -1]
    assert 3 <= result["rejected"] <= 10
    model = load(tmp_path / "model")
    assert isinstance(model, TELL)
    assert result["labels"] == model.predict(rows, reject=0.005).tolist()
    text = run("predict", tmp_path / "model", tmp_path / "new.npy", "--reject", "0.5%")
    assert "too far from their centre" in text
    for bad in ("150%", "x"):
        said = run("predict", tmp_path / "model", blobs, "--reject", bad, code=2)
        assert "--reject must be a share of the rows such as 1% or 0.01" in said


def test_a_newer_model_keeps_the_numbers(blobs, tmp_path):
    run("fit", blobs, "-k", "4", "--geometry", "euclidean", "-o", tmp_path / "old")
    rows = np.load(blobs)[5:]
    np.save(tmp_path / "new.npy", rows)
    result = json.loads(
        run("fit", tmp_path / "new.npy", "--like", tmp_path / "old", "--seed", "9",
            "-o", tmp_path / "newer", "--json")
    )  # fmt: skip
    assert [entry["fate"] for entry in result["lineage"]] == ["kept"] * 4
    old, newer = load(tmp_path / "old"), load(tmp_path / "newer")
    assert np.array_equal(newer.predict(rows), old.predict(rows))
    text = run("fit", blobs, "--like", tmp_path / "old", "-k", "5", "-o", tmp_path / "more")
    assert "cluster 4 was born" in text


IGNORED = (
    "--max 4, --columns 0, --drop 0, --column 0:log, --no-prepare, --gaps fill, --image-size 8, "
    "--geometry sphere, --standardize, --n-init 2, --half-life 100, --trim 1%, --deep, "
    "--recipe tell, --start random, --augment affine, --jobs 0, --checkpoint state, --passes 0, "
    "--workers 2, --address auto"
)


def test_what_an_earlier_model_takes_over_is_refused_by_name(blobs, tmp_path):
    def said(*words):
        text = run("fit", blobs, "--like", tmp_path / "old", *words, "-o", tmp_path / "x", code=2)
        return " ".join(text.split())

    for words in IGNORED.split(", "):
        name = words.split()[0]
        assert said(*words.split()).endswith(f"and fitted; leave out {name}"), words
    names = ", ".join(words.split()[0] for words in IGNORED.split(", "))
    assert said(*IGNORED.replace(",", "").split()).endswith(f"leave out {names}")


def test_a_table_is_prepared_as_before(tmp_path):
    random = np.random.default_rng(0)
    lines = ["kind,size,weight"]
    for _ in range(200):
        group = int(random.integers(0, 3))
        lines.append(f"{'abc'[group]},{10 * group + random.normal():.3f},{random.normal():.3f}")
    table = tmp_path / "rows.csv"
    table.write_text("\n".join(lines) + "\n")
    run("fit", table, "-k", "3", "-o", tmp_path / "old")
    run("fit", table, "--like", tmp_path / "old", "-o", tmp_path / "newer")
    newer = load(tmp_path / "newer")
    assert [entry["fate"] for entry in newer.lineage_] == ["kept"] * 3
    assert newer.preparation_.to_json() == load(tmp_path / "old").preparation_.to_json()


def test_deep_counts_the_groups_of_its_graph(blobs, tmp_path):
    options = ("--deep", "--recipe", "distil", "--n-init", 1, "--json")
    fitted = json.loads(run("fit", blobs, *options, "-o", tmp_path / "model"))
    assert fitted["n_clusters"] == 4
    assert fitted["choice"]["reasons"].startswith("4 clusters: the two groups of the neighbour")
    assert load(tmp_path / "model").n_clusters == "auto"
    text = run("fit", blobs, "--deep", "--recipe", "paper", "-o", tmp_path / "x", code=2)
    assert "must come with a start" in " ".join(text.split())
