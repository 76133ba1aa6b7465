"""Results as lines: sorted, replaced whole, safe from crashes and other writers, taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tell.cli.main import app
from tell.exceptions import InputError
from tell.reproduce.result_import import import_results
from tell.reproduce.result_lines import add_lines, read_lines
from tell.reproduce.results import (
    Result,
    environment,
    read_result,
    results_file,
    run_file,
    write_result,
)
from tell.reproduce.spec import Run, load_method, load_scale

SMOKE = load_scale("smoke")


def record(method: str, seed: int, fingerprint: str = "ab", **more: Any) -> dict[str, Any]:
    run = {"data": "mnist", "method": {"name": method}, "seed": seed}
    return {"run": run, "fingerprint": fingerprint, **more}


def run_of(method: str, seed: int) -> Run:
    return Run("mnist", load_method(method, SMOKE), seed, SMOKE)


def done(acc: float, **more: Any) -> Result:
    return Result("done", scores={"acc": acc}, facts=environment(), **more)


def test_lines_are_sorted_and_an_equal_one_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "new" / "mnist.jsonl"
    add_lines(file, [record("sc", 10), record("sc", 9), record("gmm", 3)])
    add_lines(file, [record("sc", 9, loss=0.1), record("sc", 9, "00", loss=0.2)])
    assert [(*key, r.get("loss")) for key, r in read_lines(file).items()] == [
        ("gmm", 3, "ab", None),
        ("sc", 9, "00", 0.2),  # of other settings: another result
        ("sc", 9, "ab", 0.1),
        ("sc", 10, "ab", None),
    ]
    assert len(file.read_text().splitlines()) == 4
    assert [path.name for path in file.parent.iterdir()] == ["mnist.jsonl"]


def test_numbers_survive_to_the_bit(tmp_path: Path) -> None:
    loss, history = 0.1 + 0.2, [{"rate": 1e-300, "n": 2**60}, {"rate": 5e-324}]
    run = run_of("kmeans", 0)
    write_result(tmp_path, run, done(1 / 3, loss=loss, history=history))
    write_result(tmp_path, run_of("kmeans", 1), done(0.5))  # writes the other line again
    kept = read_result(tmp_path, run)
    assert kept is not None
    assert (kept.scores["acc"], kept.loss, kept.history) == (1 / 3, loss, history)


def test_a_line_cut_short_is_ignored_and_repaired(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_result(tmp_path, run_of("kmeans", seed), done(0.5))
    file = results_file(tmp_path, run_of("kmeans", 0))
    file.write_bytes(file.read_bytes()[:-40])
    assert read_result(tmp_path, run_of("kmeans", 0)) is not None
    assert read_result(tmp_path, run_of("kmeans", 1)) is None
    write_result(tmp_path, run_of("kmeans", 2), done(0.5))
    assert [json.loads(line)["run"]["seed"] for line in file.read_text().splitlines()] == [0, 2]


def write_seeds(folder: Path, seeds: list[int]) -> None:
    for seed in seeds:
        write_result(folder, run_of("kmeans", seed), done(seed / 100))


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    spawn = get_context("spawn")
    halves = list(range(0, 40, 2)), list(range(1, 40, 2))
    writers = [spawn.Process(target=write_seeds, args=(tmp_path, half)) for half in halves]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
        assert writer.exitcode == 0
    for seed in range(40):
        found = read_result(tmp_path, run_of("kmeans", seed))
        assert found is not None, seed
        assert found.scores["acc"] == seed / 100


WRITER = """
import sys
from pathlib import Path
from tell.reproduce.result_lines import add_lines
for seed in range(100_000):
    run = {"data": "mnist", "method": {"name": "sc"}, "seed": seed}
    line = {"run": run, "fingerprint": "ab", "history": ["x" * 200_000]}
    add_lines(Path(sys.argv[1]), [line])
    print(seed, flush=True)
"""


def test_a_killed_writer_leaves_whole_lines_and_no_lock(tmp_path: Path) -> None:
    file = tmp_path / "mnist.jsonl"
    command = [sys.executable, "-c", WRITER, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(5)]
        time.sleep(0.01)
        os.kill(writer.pid, signal.SIGKILL)
    assert said[-1] == "4\n"
    lines = file.read_text().splitlines()
    assert [json.loads(line)["run"]["seed"] for line in lines] == list(range(len(lines)))
    assert len(lines) >= 5
    add_lines(file, [record("sc", 10**6)])
    assert len(read_lines(file)) == len(lines) + 1


def older(folder: Path, run: Run, result: Result) -> None:
    """Write a result in the older layout: a JSON file of its own."""
    write_result(folder / "scratch", run, result)
    (content,) = read_lines(results_file(folder / "scratch", run)).values()
    results_file(folder / "scratch", run).unlink()
    text = json.dumps(content, indent=1).replace('"evaluations"', '"looks"')
    file = run_file(folder, run, ".json")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_results_of_the_older_layout_are_taken_over(tmp_path: Path) -> None:
    source, folder = tmp_path / "old", tmp_path / "new"
    runs = [run_of("adam", seed) for seed in range(4)]
    history = [{"stage": "train", "evaluations": [{"epoch": 1, "acc": 0.25}]}]
    for run, acc in zip(runs, (0.1, 0.2, 0.3), strict=False):
        older(source, run, done(acc, history=history))
    older(source, runs[3], Result("failed", reason="no memory"))
    run_file(source, runs[0], ".snapshots.npz").write_bytes(b"pictures")
    write_result(folder, runs[1], done(0.9))  # is there: stays
    write_result(folder, runs[2], Result("failed"))  # failed here, done there
    added = import_results(source, folder, SMOKE)
    assert added == ["smoke/mnist/adam/seed-0", "smoke/mnist/adam/seed-2"]
    found = [read_result(folder, run) for run in runs]
    assert [result and result.scores["acc"] for result in found] == [0.1, 0.9, 0.3, None]
    assert found[0] is not None
    assert found[0].history == history
    assert run_file(folder, runs[0], ".snapshots.npz").read_bytes() == b"pictures"
    assert import_results(source, folder, SMOKE) == []


def test_results_of_another_folder_are_taken_over_by_the_command(tmp_path: Path) -> None:
    source, folder = tmp_path / "there", tmp_path / "here"
    run = replace(run_of("adam", 0))
    write_result(source, run, done(0.5))
    words = ["reproduce", "table6", "--status", "--json", "--out", str(folder)]
    shown = CliRunner().invoke(app, [*words, "--import", str(source)])
    assert "took over 1 results" in shown.stderr
    assert json.loads(shown.stdout)["table6"]["done"] == 1


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--import must name a folder with results of the scale"):
        import_results(tmp_path, tmp_path / "here", SMOKE)
    broken = tmp_path / "smoke" / "mnist" / "sc" / "seed-0.json"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"run": ')
    with pytest.raises(InputError, match=r"seed-0\.json must hold a whole result"):
        import_results(tmp_path, tmp_path / "here", SMOKE)
