from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sklearn.datasets import load_wine

from tell import TELL

from .conftest import iris_csv

Tell = Callable[..., Any]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    frame = load_wine(as_frame=True).frame
    frame.to_csv(tmp_path / "wine.csv", index=False)
    rows = frame.drop(columns="target")
    for name, k in (("model", 3), ("old", 4)):
        TELL(k, standardize=True, random_state=0).fit(rows).save(tmp_path / name)
    return tmp_path


def test_one_row_is_answered_in_the_terminal(tell: Tell, folder: Path) -> None:
    printed = tell("explain", "model", "wine.csv", "--row", 17).worked()
    assert printed.startswith("Row 17 is in cluster")
    assert "Contributions to the margin" in printed
    assert "What would move it to cluster" in printed
    assert "exact" in printed
    assert not list(folder.glob("*.html"))


def test_a_report_is_written_with_the_changes(tell: Tell, folder: Path) -> None:
    options = ("--label", "target", "--against", "old", "--map", "pca", "--out", "r.html")
    run = tell("explain", "model", "wine.csv", *options)
    printed = run.worked()
    assert "Against the older model" in printed
    assert "merged" in printed
    assert "Rows that changed cluster (" in printed
    assert "has no counterpart any more" in printed
    assert "r.html" in run.err
    page = (folder / "r.html").read_text(encoding="utf-8")
    assert "What changed since the older model" in page
    assert "Rows that changed cluster" in page
    assert "Unlike cluster " in page
    assert "tell explain model wine.csv" in page


def test_clusters_are_contrasted(tell: Tell, folder: Path) -> None:
    words = ("explain", "model", "wine.csv", "--contrast", "0,1", "--row", 3)
    printed = tell(*words).worked()
    assert "Cluster 0, unlike cluster 1: " in printed
    assert "of the margin" in " ".join(printed.split())
    found = json.loads(tell(*words, "--contrast", "1,2", "--json", "--map", "pca").worked())
    assert [(one["cluster"], one["other"]) for one in found["contrasts"]] == [(0, 1), (1, 2)]
    bad = tell("explain", "model", "wine.csv", "--contrast", "0:1").failed()
    assert "--contrast must be two clusters such as 0,2, got '0:1'" in bad
    bad = tell("explain", "model", "wine.csv", "--contrast", "0,7", "--row", 3).failed()
    assert "clusters from 0 to 2, got 7" in bad


def test_json_holds_all_facts(tell: Tell, folder: Path) -> None:
    printed = tell("explain", "model", "wine.csv", "--row", 3, "--map", "pca", "--json").worked()
    facts = json.loads(printed)
    assert facts["points"][0]["row"] == 3
    assert len(facts["clusters"]) == 3
    assert not list(folder.glob("*.html"))


def test_bad_rows_and_columns_are_one_line(tell: Tell, folder: Path) -> None:
    assert "got 999" in tell("explain", "model", "wine.csv", "--row", 999).failed()
    (folder / "other.csv").write_text("a,b\n1,2\n")
    tell("explain", "model", "other.csv").failed()
    tell("explain", "nothing", "wine.csv").failed()


def test_an_older_model_finds_its_columns_by_name(tell: Tell, tmp_path: Path) -> None:
    iris_csv(tmp_path / "flowers.csv")
    names = ["sepal length", "sepal width", "petal length", "petal width"]
    for folder, columns in {"one": names, "two": names[::-1]}.items():
        tell(
            "fit", "flowers.csv", "-k", 3, "--columns", ",".join(columns), "--out", folder
        ).worked()
    done = tell("explain", "two", "flowers.csv", "--against", "one", "--map", "pca", "--quiet")
    assert "agreement 1.00" in done.worked()


def test_rows_keep_their_numbers_beside_an_older_model(tell: Tell, tmp_path: Path) -> None:
    lines = iris_csv(tmp_path / "flowers.csv").read_text().splitlines()
    lines[2] = "," + lines[2].split(",", 1)[1]  # row 1 has a gap
    (tmp_path / "flowers.csv").write_text("\n".join(lines) + "\n")
    label = ("--label", "species")
    for folder, drop in {"one": "sepal length", "two": "petal width"}.items():
        words = ("fit", "flowers.csv", "-k", 3, *label, "--drop", drop, "--gaps", "drop")
        tell(*words, "--out", folder).worked()
    words = ("explain", "two", "flowers.csv", "--against", "one", *label, "--row", 100, "--json")
    facts = json.loads(tell(*words, "--map", "pca").worked())
    (point,) = facts["points"]
    assert (point["row"], point["label"]) == (100, "virginica")
    assert point["values"][0] == pytest.approx(6.3)
    assert sum(map(sum, facts["changes"]["overlap"])) == 149  # what both have seen


def test_rejected_rows_are_told_with_their_reasons(tell: Tell, folder: Path) -> None:
    printed = tell("explain", "model", "wine.csv", "--reject", "5%", "--map", "pca").worked()
    flat = " ".join(printed.split())
    assert "of 178 rows are rejected: they belong to no cluster." in flat
    assert "farther from its nearest centre than" in flat
    assert "unusual" in flat
    run = tell("explain", "model", "wine.csv", "--reject", "5%", "--json", "--map", "pca")
    found = json.loads(run.worked())["rejections"]
    rows = [one["row"] for one in found["rows"]]
    (folder / "labels.csv").unlink(missing_ok=True)
    tell("predict", "model", "wine.csv", "--reject", "5%", "--out", "labels.csv").worked()
    labels = (folder / "labels.csv").read_text().split()[1:]
    assert sorted(rows) == [i for i, line in enumerate(labels) if line.split(",")[-1] == "-1"]
    one = tell("explain", "model", "wine.csv", "--reject", "5%", "--row", rows[0]).worked()
    assert "At 5 % it is rejected: farther from" in " ".join(one.split())
    bad = tell("explain", "model", "wine.csv", "--reject", "all").failed()
    assert "--reject must be a share of the rows" in bad
