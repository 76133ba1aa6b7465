"""`tell update`: learning goes on, is saved as it goes, and survives being stopped or killed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris

from tell import load
from tell.cli.update import Interruption, learn_all
from tell.data.sources import Chunk, open_source
from tell.exceptions import InputError
from tell.runtime.learner import Learning

from .conftest import PROGRAM, Run, contents, environment, iris_csv

Tell = Callable[..., Run]
HEADER = "sepal length,sepal width,petal length,petal width\n"
LINES = [",".join(map(str, row)) + "\n" for row in load_iris().data.tolist()]


def test_a_file_is_learned_as_partial_fit_would(
    tell: Tell, tmp_path: Path, flower_model: Path
) -> None:
    iris_csv(tmp_path / "new.csv", rows=slice(0, 90), order=[4, 3, 2, 1, 0])
    expected = load(flower_model)
    del expected.feature_names_in_
    X = load_iris().data[:90]
    expected.partial_fit(X[:50]).partial_fit(X[50:])
    done = tell("update", flower_model, "new.csv", "--batch", 50)
    assert "now seen 240" in done.worked()
    assert "has seen 150 rows" in done.err
    updated = load(flower_model)
    np.testing.assert_array_equal(updated.cluster_centers_, expected.cluster_centers_)
    assert updated.metadata_["rows_seen"] == 240
    assert "has seen 240 rows" in tell("update", flower_model, "new.csv").err


def test_standard_input_with_scores_before_learning(tell: Tell, flower_model: Path) -> None:
    options = ["--prequential", "--json", "--half-life", 100]
    done = tell("update", flower_model, "-", *options, stdin=HEADER + "".join(LINES))
    result = json.loads(done.worked())
    assert result["rows"] == 150
    assert 0 < result["prequential"]["loss"] < 2
    assert load(flower_model).half_life == 100


def test_known_classes_score_a_stream(tell: Tell, tmp_path: Path, flower_model: Path) -> None:
    iris_csv(tmp_path / "iris.csv")
    options = ["--prequential", "--label", "species", "--json"]
    result = json.loads(tell("update", flower_model, "iris.csv", *options).worked())
    assert result["prequential"]["acc"] > 0.8


def test_drift_is_said_aloud(tell: Tell, flower_model: Path) -> None:
    rng = np.random.default_rng(0)
    usual = "".join(LINES) * 20
    strange = "".join(
        ",".join(map(str, row)) + "\n"
        for row in rng.normal([40, -30, 60, 9], 5, (4000, 4)).tolist()
    )
    done = tell("update", flower_model, "-", stdin=HEADER + usual + strange)
    assert "drift" in done.worked()
    assert "warning: " in done.err
    assert "set --half-life to follow it" in done.err
    seen = re.search(r"seen in rows ([\d,]+) to ([\d,]+); row ([\d,]+) lies farthest", done.err)
    assert seen is not None
    first, last, worst = (int(text.replace(",", "")) for text in seen.groups())
    assert first <= worst <= last
    assert worst >= 3000  # the usual rows come first
    assert re.search(r"in cluster [012]\)", done.err)


def test_bad_lines_are_skipped_and_counted(tell: Tell, flower_model: Path) -> None:
    bad = "1,2,three,4\n"
    lines = HEADER + bad + "".join(LINES[:60]) + bad + "".join(LINES[60:90])
    done = tell("update", flower_model, "-", "--on-error", "skip", stdin=lines)
    assert "2 lines could not be used and were skipped" in done.worked()
    assert "learned from 90 rows" in done.out
    assert "skipped: standard input: row 0" in done.err
    assert "row 61" in done.err
    result = tell("update", flower_model, "-", "--on-error=skip", "--json", stdin=lines).worked()
    found = json.loads(result)
    assert (found["rows"], found["refused"], found["finished"]) == (90, 2, True)
    stopped = tell("update", flower_model, "-", stdin=HEADER + "".join(LINES[:60]) + bad)
    assert stopped.code == 2
    assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ saved after 60 rows", stopped.err)


def test_only_streams_skip_lines(tell: Tell, flower_model: Path, tmp_path: Path) -> None:
    iris_csv(tmp_path / "iris.csv")
    failed = tell("update", flower_model, "iris.csv", "--on-error", "skip").failed()
    assert "standard input" in failed


def test_a_bad_row_stops_it_and_the_rows_above_it_are_learned(
    tell: Tell, flower_model: Path
) -> None:
    bad = HEADER + "".join(LINES[:60]) + "1,2,three,4\n"
    done = tell("update", flower_model, "-", stdin=bad)
    assert done.code == 2
    assert "saved after 60 rows" in done.err
    assert "row 60" in done.err
    assert "'three'" in done.err
    assert load(flower_model).metadata_["rows_seen"] == 210


def test_a_bad_first_row_changes_nothing(tell: Tell, flower_model: Path) -> None:
    before = contents(flower_model)
    assert tell("update", flower_model, "-", stdin=HEADER + "1,2,three,4\n").code == 2
    assert contents(flower_model) == before


def _started(flower_model: Path, *options: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [PROGRAM, "update", str(flower_model), "-", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdin is not None
    process.stdin.write((HEADER + "".join(LINES[:60])).encode())
    process.stdin.flush()
    return process


def _wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def test_an_endless_stream_is_saved_by_the_clock_and_survives_a_kill(
    tell: Tell, flower_model: Path
) -> None:
    process = _started(flower_model, "--save-seconds", "0.2")
    # No further row arrives, yet what was learned is saved.
    _wait_for(lambda: load(flower_model).metadata_["rows_seen"] == 210)
    process.kill()
    process.communicate()
    assert "210" in tell("show", flower_model).worked()
    assert "has seen 210 rows" in tell("update", flower_model, "-", stdin=HEADER + LINES[0]).err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_a_stream_saves_it(flower_model: Path, number: signal.Signals) -> None:
    process = _started(flower_model, "--save-rows", "1")
    _wait_for(lambda: load(flower_model).metadata_["rows_seen"] == 210)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert b"now seen 210" in out
    assert b"Traceback" not in err


class _Stopped(Learning):
    """Somebody presses Ctrl-C while the third chunk is being learned."""

    def take(self, chunk: Chunk) -> None:
        if chunk.start == 40:
            signal.raise_signal(signal.SIGINT)
        super().take(chunk)


def test_an_interrupted_file_goes_on_where_it_stopped(
    tell: Tell, tmp_path: Path, flower_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    iris_csv(tmp_path / "iris.csv", order=[0, 1, 2, 3])
    whole = load(flower_model)
    del whole.feature_names_in_
    X = load_iris().data
    for start in range(0, 150, 20):
        whole.partial_fit(X[start : start + 20])

    model = load(flower_model)
    del model.feature_names_in_
    source = open_source("iris.csv", chunk_rows=20)
    learning = _Stopped(model, flower_model, source, resume=False, score=False)
    assert not learn_all(learning, source, save_rows=10**6, save_seconds=100.0, visible=False)
    # The chunk that was being learned is learned to its end, and counted.
    assert load(flower_model).metadata_["update"]["rows"] == 60

    done = tell("update", flower_model, "iris.csv", "--batch", 20, "--resume")
    assert "after 60 rows, going on there" in done.err
    assert "learned from 90 rows" in done.worked()
    np.testing.assert_array_equal(load(flower_model).cluster_centers_, whole.cluster_centers_)


def test_signals_wait_for_the_end_of_a_block() -> None:
    events: list[str] = []

    def learn() -> None:
        with interruption.put_off():
            signal.raise_signal(signal.SIGALRM)
            signal.raise_signal(signal.SIGTERM)
            events.append("learned")

    with Interruption(lambda: events.append("saved"), 1000) as interruption:
        with pytest.raises(KeyboardInterrupt):
            learn()
        assert events == ["learned", "saved"]


def test_what_was_learned_before_a_bad_row_is_saved(tmp_path: Path, flower_model: Path) -> None:
    source = open_source(iris_csv(tmp_path / "new.csv"), drop=["species"], chunk_rows=50)

    def chunks() -> Iterator[Chunk]:
        yield from islice(open_source(source.name, drop=["species"], chunk_rows=50).chunks(), 2)
        raise InputError("row 100 is no row")

    source.chunks = chunks  # type: ignore[method-assign]
    model = load(flower_model)
    del model.feature_names_in_  # as a command has it, whose rows come without names
    learning = Learning(model, flower_model, source, resume=False, score=False)
    with pytest.raises(InputError, match="no row"):
        learn_all(learning, source, save_rows=10**6, save_seconds=1e6, visible=False)
    assert load(flower_model).metadata_["rows_seen"] == 250


def test_a_finished_file_is_not_learned_twice_by_resume(
    tell: Tell, tmp_path: Path, flower_model: Path
) -> None:
    """So that a script can always pass it; rows that were appended meanwhile are learned."""
    table = iris_csv(tmp_path / "new.csv")
    tell("update", flower_model, "new.csv").worked()
    done = tell("update", flower_model, "new.csv", "--resume")
    assert "learned from 0 rows; the model has now seen 300" in done.worked()
    assert "new.csv was learned to its end, 150 rows" in done.err
    table.write_text(table.read_text() + table.read_text().splitlines()[1] + "\n")
    done = tell("update", flower_model, "new.csv", "--resume")
    assert "learned from 1 rows; the model has now seen 301" in done.worked()


def test_a_half_life_is_not_for_deep_models(tell: Tell, tmp_path: Path) -> None:
    iris_csv(tmp_path / "flowers.csv")
    tell("fit", "flowers.csv", "-k", 3, "--label", "species", "--deep", "--out", "deep").worked()
    refused = tell("update", "deep", "flowers.csv", "--half-life", 30)
    assert refused.code == 2
    assert "--half-life needs a model of tell fit without --deep" in refused.err


def test_a_stream_may_grow_and_says_so(tell: Tell, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    places = 15 * random.normal(size=(4, 3))

    def write(name: str, n: int, groups: int) -> None:
        rows = places[random.integers(0, groups, n)] + random.normal(size=(n, 3))
        np.savetxt(tmp_path / name, rows, delimiter=",", header="a,b,c", comments="")

    write("first.csv", 900, 3)
    write("later.csv", 3000, 4)
    tell("fit", "first.csv", "-k", 3, "--seed", 0, "--out", "growing", "--no-prepare",
         "--geometry", "euclidean").worked()  # fmt: skip
    run = tell("update", "growing", "later.csv", "--grow", "--batch", 100, "--json")
    result = json.loads(run.worked())
    assert [entry["event"] for entry in result["growth"]] == ["born"]
    assert "cluster 3 was born after" in run.err
    assert json.loads(tell("show", "growing", "--json").worked())["n_clusters"] == 4
    printed = tell("update", "growing", "later.csv", "--batch", 100).worked()
    assert "born" not in printed  # it is there already
    assert "may grow" in tell("show", "growing").worked()
    tell("fit", "first.csv", "-k", 3, "--seed", 0, "--out", "deep", "--deep", "--n-init", 1,
         "--recipe", "distil").worked()  # fmt: skip
    assert (
        "--grow needs a model of tell fit without --deep"
        in tell("update", "deep", "later.csv", "--grow").failed()
    )
