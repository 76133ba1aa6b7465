"""The comparison: processes under limits, failures as rows, resume, ranking, the page."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tell.baselines import names
from tell.compare.features import features_of
from tell.compare.limited_process import Limits, Run, peak_megabytes, resident_bytes
from tell.compare.ranking import (
    RUNS_FILE,
    Task,
    chosen_methods,
    compare,
    method_names,
    quality_measure,
    rank,
)
from tell.compare.ranking_page import headings, note_of, table_lines, write_page
from tell.exceptions import ParameterError

LIMITS = Limits(seconds=60, gigabytes=8, threads=1)


@pytest.fixture(scope="module")
def task():
    X, y = load_digits(n_class=4, return_X_y=True)
    return Task("digits", (X / 16).astype(np.float32), y, n_clusters=4, shape=(1, 8, 8))


@pytest.fixture(scope="module")
def finished(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    seen = []
    runs = compare(
        task,
        ["kmeans", "tell"],
        n_seeds=2,
        folder=folder,
        limits=LIMITS,
        watch=lambda method, run: seen.append((method, run and run.seed)),
    )
    return folder, runs, seen


def test_every_run_is_measured_and_recorded(finished, task):
    folder, runs, seen = finished
    assert seen == [
        ("kmeans", None),
        ("kmeans", 0),
        ("kmeans", 1),
        ("tell", None),
        ("tell", 0),
        ("tell", 1),
    ]
    assert {run.status for run in runs} == {"done"}
    for run in runs:
        assert run.measures["acc"] > 0.8
        assert {"nmi", "ari", "silhouette", "calinski_harabasz"} <= set(run.measures)
        assert 0 < run.measures["seconds"] < 60
        assert 50 < run.measures["peak_mb"] < 4000
        assert len(np.load(folder / "labels" / run.labels_file)) == len(task.X)
    assert len((folder / RUNS_FILE).read_text().splitlines()) == 4


def test_an_interrupted_comparison_goes_on(finished, task, tmp_path):
    folder, runs, _ = finished
    (tmp_path / "labels").mkdir()
    lines = (folder / RUNS_FILE).read_text().splitlines()
    # One run on record, and a line that was being written when the power went.
    (tmp_path / RUNS_FILE).write_text(lines[0] + "\n" + lines[1][:40])
    again = compare(task, ["kmeans"], n_seeds=2, folder=tmp_path, limits=LIMITS)
    assert again[0] == runs[0]
    assert [run.seed for run in again] == [0, 1]
    assert again[1].measures["acc"] == runs[1].measures["acc"]
    assert len((tmp_path / RUNS_FILE).read_text().splitlines()) == 3


def test_other_data_or_another_k_is_another_task(task):
    same = replace(task, X=task.X.copy(), name="other")
    assert same.fingerprint() == task.fingerprint()
    assert replace(task, n_clusters=5).fingerprint() != task.fingerprint()
    assert replace(task, X=task.X[::-1]).fingerprint() != task.fingerprint()
    assert replace(task, y=None).fingerprint() != task.fingerprint()
    assert replace(task, features="ae").fingerprint() != task.fingerprint()


def test_a_method_over_its_time_becomes_a_row_and_the_rest_goes_on(tmp_path):
    noise = Task("noise", np.random.default_rng(0).random((2000, 50), np.float32), None, 3)
    limits = Limits(seconds=6, gigabytes=8, threads=1)
    runs = compare(noise, ["vade", "kmeans"], n_seeds=1, folder=tmp_path, limits=limits)
    assert [(run.method, run.status) for run in runs] == [("vade", "time"), ("kmeans", "done")]
    rows = rank(runs, tmp_path / "labels")
    assert [row.method for row in rows] == ["kmeans", "vade"]
    assert note_of(rows[1]) == "ended after its limit of 6 s"
    assert table_lines(rows)[1][:3] == ["–", "vade", "time"]
    assert quality_measure(rows) == "silhouette"


def test_memory_is_refused_or_ended(task, tmp_path):
    # Less than the process needs to start: ended from outside.
    tight = Limits(seconds=60, gigabytes=0.05, threads=1)
    (run,) = compare(task, ["kmeans"], n_seeds=3, folder=tmp_path, limits=tight)
    assert run.status == "memory"
    assert "over its limit of 0.05 GB" in run.reason
    # The same limits: on record. Higher ones: worth another try.
    (again,) = compare(task, ["kmeans"], n_seeds=3, folder=tmp_path, limits=tight)
    assert again == run
    assert len((tmp_path / RUNS_FILE).read_text().splitlines()) == 1
    (better,) = compare(task, ["kmeans"], n_seeds=1, folder=tmp_path, limits=LIMITS)
    assert better.status == "done"


def test_n_squared_methods_name_the_remedy_and_take_it(tmp_path):
    X = np.random.default_rng(0).random((9000, 3), dtype=np.float32)
    task = Task("cloud", X, None, n_clusters=2)
    limits = Limits(seconds=60, gigabytes=1.5, threads=1)
    (refused,) = compare(task, ["lsr2"], n_seeds=2, folder=tmp_path, limits=limits)
    assert refused.status == "failed"
    assert "needs about 2.6 GB" in refused.reason
    assert "sample=5000" in refused.reason
    (run,) = compare(task, ["lsr2"], n_seeds=1, folder=tmp_path, limits=limits, sample=300)
    assert run.status == "done"
    assert run.note.startswith("clustered a sample of 300 rows; 8700 rows took the label")


def test_a_crash_of_the_process_is_a_row(task, tmp_path):
    broken = replace(task, n_clusters=10_000)
    (run,) = compare(broken, ["kmeans"], n_seeds=2, folder=tmp_path, limits=LIMITS)
    assert run.status == "failed"
    assert "10000" in run.reason


def test_ranking_goes_by_accuracy_with_means_and_stability(finished):
    folder, runs, _ = finished
    rows = rank(runs, folder / "labels")
    assert [row.rank for row in rows] == [1, 2]
    accuracies = [row.measures["acc"][0] for row in rows]
    assert accuracies == sorted(accuracies, reverse=True)
    kmeans = next(row for row in rows if row.method == "kmeans")
    values = [run.measures["acc"] for run in runs if run.method == "kmeans"]
    assert kmeans.measures["acc"] == (pytest.approx(np.mean(values)), pytest.approx(np.std(values)))
    assert 0.9 < kmeans.stability <= 1
    assert rank(runs)[0].stability is None


def test_page_stands_alone_and_escapes(finished, tmp_path):
    folder, runs, _ = finished
    failed = Run("", "zac", 0, "failed", reason="<script>alert(1)</script>")
    rows = rank([*runs, failed], folder / "labels")
    page = tmp_path / "page.html"
    write_page(rows, page, title="a <b>", facts=["1 & 2"])
    text = page.read_text()
    assert "<svg" in text
    assert "src=" not in text
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "a &lt;b&gt;" in text
    assert "1 &amp; 2" in text
    for heading in headings(rows):
        assert f"<th>{heading}</th>" in text


def test_the_figure_says_what_its_colours_and_bars_mean(finished, tmp_path):
    folder, runs, _ = finished
    rows = rank(runs, folder / "labels")
    write_page(rows, tmp_path / "page.html", title="t", facts=[])
    text = (tmp_path / "page.html").read_text()
    legend = text.split("<figcaption>")[1].split("</figcaption>")[0]
    assert "by this package" in legend
    assert "other methods" in legend
    assert ("standard deviation" in legend) == any(row.n_runs > 1 for row in rows)


def test_methods_as_people_write_them():
    assert chosen_methods("all") == method_names() == [*names(), "tell", "deep-tell"]
    assert chosen_methods("tell,kmeans,tell") == ["tell", "kmeans"]
    assert chosen_methods("all,-dec,-vade") == [
        m for m in method_names() if m not in ("dec", "vade")
    ]
    with pytest.raises(ParameterError, match=r"among all, kmeans.*got 'kmean'"):
        chosen_methods("kmean")
    with pytest.raises(ParameterError, match="at least one"):
        chosen_methods("kmeans,-kmeans")


def test_features_from_raw_and_from_nowhere(task):
    assert features_of(task.X, "raw") is task.X
    with pytest.raises(ParameterError, match="features must be raw, ae or the folder"):
        features_of(task.X, "no-such-model")


def test_memory_of_this_process_is_seen():
    import os

    assert 0 < resident_bytes(os.getpid()) <= peak_megabytes() * 2**20
    assert resident_bytes(2**22 + 1) == 0


def test_runs_are_plain_json(finished):
    folder, runs, _ = finished
    lines = (folder / RUNS_FILE).read_text().splitlines()
    assert [Run(**json.loads(line)) for line in lines] == runs
