"""`tell compare` as a person runs it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tell.cli.main import app


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three clouds as a CSV file with a column of classes."""
    rng = np.random.default_rng(0)
    centers = np.repeat(np.eye(3) * 5, 20, axis=0)
    rows = centers + rng.normal(0, 0.3, centers.shape)
    path = tmp_path_factory.mktemp("data") / "clouds.csv"
    lines = [f"{a:.4f},{b:.4f},{c:.4f},kind{i // 20}" for i, (a, b, c) in enumerate(rows)]
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    return path


def run(*words: object):
    return CliRunner().invoke(app, ["compare", *map(str, words)])


def test_compare_ranks_and_writes_everything(table, tmp_path):
    options = (table, "-k", 3, "--label", "kind", "--seeds", 2, "--threads", 1)
    folder, page = tmp_path / "out", tmp_path / "page.html"
    first = run(*options, "-m", "kmeans,lsr1", "--out", folder, "--html", page)
    assert first.exit_code == 0, first.output
    assert "lsr1 on 60 rows needs about" in first.stderr
    assert "100.0±0.0" in first.stdout
    assert "<svg" in page.read_text()
    record = (folder / "runs.jsonl").read_text()
    again = run(*options, "-m", "kmeans,lsr1", "--out", folder, "--json", "--quiet")
    assert again.exit_code == 0
    assert (folder / "runs.jsonl").read_text() == record
    document = json.loads(again.stdout)
    assert [row["rank"] for row in document["rows"]] == [1, 2]
    assert document["rows"][0]["measures"]["acc"] == [1.0, 0.0]
    assert "60 rows, 3 features (raw), 3 clusters, 2 seeds" in document["facts"]


def test_gaps_text_and_units_are_treated_as_in_a_fit(tmp_path):
    """One wide column would decide alone; rows without a class are not scored."""
    rng = np.random.default_rng(0)
    lines = ["a,wide,colour,kind"]
    for i in range(60):
        kind, colour = i // 30, "red" if i // 30 else "blue"
        a = "" if i == 3 else f"{10 * kind + rng.normal():.3f}"
        label = "" if i % 10 == 0 else f"kind{kind}"
        lines.append(f"{a},{1000 * rng.normal():.1f},{colour},{label}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    options = (path, "-k", 2, "--label", "kind", "--seeds", 1, "--threads", 1, "-m", "kmeans")
    options = (*options, "--out", tmp_path / "out", "-q", "--json")
    raw, standard = run(*options), run(*options, "--standardize")
    assert raw.exit_code == standard.exit_code == 0, raw.output + standard.output
    scores = [json.loads(done.stdout)["rows"][0]["measures"]["acc"][0] for done in (raw, standard)]
    assert scores[0] < 0.8
    assert scores[1] == 1.0


def test_a_failed_method_says_why_and_the_command_goes_on(table, tmp_path):
    result = run(
        table, "-k", 3, "--label", "kind", "-m", "kmeans", "--memory-limit", 0.1,
        "--seeds", 1, "--out", tmp_path, "--quiet",
    )  # fmt: skip
    assert result.exit_code == 1  # nothing at all was clustered
    assert "over its limit of 0.1 GB" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--label", "kind", "-m", "kmean"], "got 'kmean'"),
        (["--label", "kind", "--features", "nowhere"], "features must be raw, ae or the folder"),
        (["--label", "nothing"], "nothing"),
    ],
)
def test_bad_calls_end_with_one_line(table, tmp_path, words, message):
    result = run(table, "-k", 3, *words, "--out", tmp_path)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.output
