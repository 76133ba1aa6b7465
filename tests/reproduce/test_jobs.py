"""Runs side by side: the same results, one thread each, and nobody left behind."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tell.cli.main import app
from tell.reproduce.jobs import ProcessEndedError, side_by_side
from tell.reproduce.results import read_result
from tell.reproduce.run import _makes, plan
from tell.reproduce.spec import load_scale, load_targets
from tell.reproduce.workspace import Workspace, feature_file

SMOKE = load_scale("smoke")


def test_every_task_is_answered_once_also_by_a_killed_process() -> None:
    killed = "__import__('os').kill(__import__('os').getpid(), 9)"
    answers = dict(side_by_side(eval, ["1 + 1", killed, "2 + 2", "3 + 3"], 2))
    ended = answers.pop(killed)
    assert isinstance(ended, ProcessEndedError)
    assert str(ended) == "its process ended with code -9"
    assert answers == {"1 + 1": 2, "2 + 2": 4, "3 + 3": 6}


def test_what_a_task_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match="math domain error"):
        list(side_by_side(math.sqrt, [4, -4], 2))


def test_tasks_that_make_the_same_wait_for_each_other() -> None:
    clock = "__import__('time').monotonic()"
    span = f"({clock}, __import__('time').sleep(0.3), {clock})"
    tasks = [f"{span}  # {name}" for name in ("a1", "a2", "b1", "a3")]
    found = dict(side_by_side(eval, tasks, 3, makes=lambda task: task[-2]))
    a1, a2, a3 = sorted(found[task] for task in tasks if task[-2] == "a")
    assert a1[2] <= a2[0]
    assert a2[2] <= a3[0]


def test_every_process_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    ((_, count),) = side_by_side(eval, ["__import__('torch').get_num_threads()"], 1)
    assert count == 1
    assert os.environ["OMP_NUM_THREADS"] == "2"


def test_runs_that_would_train_the_same_autoencoder_are_known(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    runs = {run.place: run for run in plan(load_targets(["table1", "table6"], SMOKE), SMOKE)}
    at = {name: runs[f"smoke/mnist/{name}/seed-0"] for name in ("kmeans", "dec", "adam")}
    assert _makes(workspace, at["kmeans"]) == _makes(workspace, at["dec"]) == ("mnist", 0)
    assert _makes(workspace, at["adam"]) is None
    file = feature_file(tmp_path, at["kmeans"])
    file.parent.mkdir(parents=True)
    file.touch()
    assert _makes(workspace, at["kmeans"]) is None
    assert _makes(workspace, at["dec"]) == ("mnist", 0)


def test_results_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    words = ["table1", "table6", "--only", "mnist/adam", "--only", "mnist/kmeans/", "--quiet"]
    scores = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        arguments = ["reproduce", *words, "--jobs", str(jobs), "--out", str(folder)]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        runs = plan(load_targets(words[:2], SMOKE), SMOKE, words[3:6:2])
        found = [read_result(folder, run) for run in runs]
        scores.append([(r.scores, r.loss) for r in found if r is not None])
        assert {r.facts["command"].split()[0] for r in found if r is not None} == {"tell"}
    assert len(scores[0]) == len(runs) == 3
    assert scores[0] == scores[1]


SLEEPERS = """
import time
from tell.reproduce.jobs import side_by_side
print("started", flush=True)
if __name__ == "__main__":
    list(side_by_side(time.sleep, [300, 300], 2))
"""


def children(pid: int) -> list[int]:
    """Processes below this one that are no tool of multiprocessing."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in found if "spawn_main" in Path(f"/proc/{c}/cmdline").read_text()]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nobody_outlives_the_parent(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "sleepers.py"
    script.write_text(SLEEPERS)
    parent = subprocess.Popen([sys.executable, str(script)], stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(children(parent.pid)) == 2)
        time.sleep(1)  # until they sleep
        below = children(parent.pid)
        parent.send_signal(how)
        parent.wait(30)
        wait_for(lambda: not any(lives(pid) for pid in below))
    finally:
        parent.kill()
        parent.wait()


def wait_for(condition: object, seconds: float = 30) -> None:
    assert callable(condition)
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.1)
