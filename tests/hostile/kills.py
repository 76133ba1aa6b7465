"""Kill commands at random moments and see what is left: `python -m tests.hostile.kills`.

After every kill: files are whole, a second try ends as an undisturbed one would have (to the bit,
where the command goes on from what was saved), no process runs on and no file is left behind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tell
from tell import TELL
from tell.persistence import read_model

ROOT = Path(__file__).parents[2]
PROGRAM = "import sys; from tell.cli.main import main; sys.exit(main())"
ROWS = np.random.default_rng(0).normal(size=(3_000, 4)).astype(np.float32)
DEEP = """
import sys
import numpy as np
from tell import DeepTELL
from tell.estimators import DistilRecipe
rows = np.load(sys.argv[1])[:200]
recipe = DistilRecipe(epochs=30, n_init=2)
model = DeepTELL(3, recipe=recipe, checkpoint=sys.argv[2], random_state=0)
model.fit(rows).save(sys.argv[3])
"""


@dataclass
class Place:
    """A folder in which one command is run; temporary files of the command go into it too."""

    folder: Path
    problems: list[str] = field(default_factory=list)

    def path(self, name: str) -> Path:
        return self.folder / name

    def start(self, arguments: list[str]) -> subprocess.Popen[bytes]:
        scratch = self.path("tmp")
        scratch.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(scratch),
        }
        return subprocess.Popen(
            [sys.executable, "-c", *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, arguments: list[str]) -> None:
        process = self.start(arguments)
        _, complaints = process.communicate(timeout=600)
        self._note_failure(process.returncode, complaints)

    def _note_failure(self, code: int, complaints: bytes) -> None:
        if code not in (0, -signal.SIGKILL):
            self.problems.append(f"ended with {code}: {complaints.decode()[-300:]}")

    def kill(self, arguments: list[str], after: float) -> bool:
        """Kill the command after some seconds; say whether it was still running."""
        process = self.start(arguments)
        try:
            _, complaints = process.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            _, complaints = process.communicate()
        for _ in range(100):  # children may take a moment to notice
            if not (left := _session(process.pid)):
                break
            time.sleep(0.1)
        for pid in left:
            self.problems.append(f"a process runs on: {Path(f'/proc/{pid}/cmdline').read_text()!r}")
            os.kill(pid, signal.SIGKILL)
        self._note_failure(process.returncode, complaints)
        return process.returncode == -signal.SIGKILL

    def leftovers(self) -> None:
        """Note temporary files that a finished command has not removed."""
        found = [
            *self.folder.rglob("*.part"),
            *self.folder.rglob("*.tmp"),
            *self.path("tmp").iterdir(),
        ]
        # What libraries keep there is not ours.
        ours = [
            path for path in found if not path.name.startswith(("torch", "pymp-", "matplotlib"))
        ]
        self.problems += [f"left behind: {path.relative_to(self.folder)}" for path in ours]


def _session(leader: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


class Operation:
    """A command that is killed and repeated."""

    name = ""

    def prepare(self, place: Place) -> None:
        """Lay out what the command needs."""
        np.save(place.path("rows.npy"), ROWS)

    def command(self, place: Place, *, again: bool) -> list[str]:
        """The words behind `python -c`."""
        raise NotImplementedError

    def look(self, place: Place) -> None:
        """Check the files right after a kill."""

    def result(self, place: Place) -> Any:
        """What a finished command must have made, to be compared with an undisturbed run's."""
        raise NotImplementedError


def _model_facts(folder: Path) -> Any:
    saved = read_model(folder)
    config = json.loads(json.dumps(saved.config))
    for line in config.get("results", {}).get("history_", []):
        line.pop("seconds", None)
    tensors = {name: tensor.double().sum().item() for name, tensor in sorted(saved.tensors.items())}
    raw = [
        tensor.contiguous().view(-1).view(torch.uint8).sum().item()
        for tensor in saved.tensors.values()
    ]
    return config, tensors, sum(raw)


class Update(Operation):
    name = "update"

    def prepare(self, place: Place) -> None:
        super().prepare(place)
        TELL(3, random_state=0).fit(ROWS[:100]).save(place.path("m"), metadata={"rows_seen": 100})

    def command(self, place: Place, *, again: bool) -> list[str]:
        words = [PROGRAM, "update", "m", "rows.npy", "--batch", "10", "--save-rows", "30", "-q"]
        return [*words, *(["--resume"] if again else [])]

    def look(self, place: Place) -> None:
        model = tell.load(place.path("m"))
        rows = (model.metadata_.get("update") or {"rows": 0})["rows"]
        if model._state.seen != 100 + rows:
            place.problems.append(f"{model._state.seen} rows are in, {rows} are noted")

    def result(self, place: Place) -> Any:
        return _model_facts(place.path("m"))


class Deep(Operation):
    name = "fit --deep"

    def command(self, place: Place, *, again: bool) -> list[str]:
        return [DEEP, "rows.npy", "state", "m"]

    def result(self, place: Place) -> Any:
        return _model_facts(place.path("m"))


class Predict(Operation):
    name = "predict"

    def prepare(self, place: Place) -> None:
        np.save(place.path("rows.npy"), np.tile(ROWS, (40, 1)))
        TELL(3, random_state=0).fit(ROWS[:100]).save(place.path("m"))

    def command(self, place: Place, *, again: bool) -> list[str]:
        return [PROGRAM, "predict", "m", "rows.npy", "--out", "labels.csv", "--distances", "-q"]

    def look(self, place: Place) -> None:
        if place.path("labels.csv").exists():
            lines = place.path("labels.csv").read_bytes().count(b"\n")
            if lines != 40 * len(ROWS) + 1:
                place.problems.append(f"half a label file: {lines} lines")

    def result(self, place: Place) -> Any:
        return place.path("labels.csv").read_bytes()


class Compare(Operation):
    name = "compare"

    def command(self, place: Place, *, again: bool) -> list[str]:
        words = [
            PROGRAM,
            "compare",
            "rows.npy",
            "-k",
            "3",
            "--methods",
            "tell,kmeans",
            "--seeds",
            "2",
        ]
        return [*words, "--out", "c", "-q"]

    def result(self, place: Place) -> Any:
        lines = [json.loads(line) for line in place.path("c/runs.jsonl").read_text().splitlines()]
        runs = sorted((line["method"], line["seed"], line["status"]) for line in lines)
        labels = {path.name: path.read_bytes() for path in place.path("c/labels").iterdir()}
        return runs, labels


class Reproduce(Operation):
    name = "reproduce"

    def prepare(self, place: Place) -> None:
        """Nothing: the digits are inside."""

    def command(self, place: Place, *, again: bool) -> list[str]:
        words = [PROGRAM, "reproduce", "table5", "--only", "kmeans", "--jobs", "2"]
        return [*words, "--out", "r", "-q"]

    def result(self, place: Place) -> Any:
        files = sorted(p for p in place.path("r").rglob("*.jsonl"))
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [(line["fingerprint"], line["status"], line["scores"]) for line in lines]


OPERATIONS = {op.name: op for op in (Update(), Deep(), Predict(), Compare(), Reproduce())}


def run_round(
    operation: Operation, rng: random.Random, truth: Any, usual: float, most: int
) -> tuple[int, list[str]]:
    """Kill a command until it is through, at most so many times; return kills and problems."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        operation.prepare(place)
        kills, killed = 0, True
        while killed and kills < most and not place.problems:
            # From the first moment to the last; the imports of the start are killed less often.
            after = usual * (0.2 + 0.8 * rng.random())
            killed = place.kill(operation.command(place, again=kills > 0), after)
            operation.look(place)
            kills += killed
        if killed:  # one that came through must not run again: `update` would learn rows twice
            place.run(operation.command(place, again=True))
        place.leftovers()
        if not place.problems and operation.result(place) != truth:
            place.problems.append("the end differs from that of an undisturbed run")
        return kills, place.problems


def undisturbed(operation: Operation) -> tuple[Any, float]:
    """The result of a run that nobody kills, and its seconds."""
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        operation.prepare(place)
        started = time.monotonic()
        place.run(operation.command(place, again=False))
        seconds = time.monotonic() - started
        place.leftovers()
        if place.problems:
            raise RuntimeError(f"{operation.name}: {place.problems}")
        return operation.result(place), seconds


def kill_all(
    names: list[str], kills: int, seed: int, seconds: float = 1e9, most: int = 4
) -> dict[str, Any]:
    """Spread the kills over the operations and sum up what came."""
    rng, started = random.Random(seed), time.monotonic()
    done: Counter[str] = Counter()
    problems: dict[str, list[str]] = {}
    truths = {name: undisturbed(OPERATIONS[name]) for name in names}
    rounds = 0
    while sum(done.values()) < kills and time.monotonic() - started < seconds:
        name = names[rounds % len(names)]
        rounds += 1
        left = kills - sum(done.values())
        number, found = run_round(OPERATIONS[name], rng, *truths[name], min(most, left))
        done[name] += number
        if found:
            problems.setdefault(name, []).extend(found)
    return {
        "seed": seed,
        "kills": dict(done),
        "rounds": rounds,
        "problems": problems,
        "seconds": round(time.monotonic() - started),
    }


def main() -> int:
    """Read the command line, kill, and end with 1 if anything was damaged, lost or left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--only", action="append", choices=list(OPERATIONS))
    parser.add_argument("--out", type=Path, help="file for the summary")
    options = parser.parse_args()
    summary = kill_all(
        options.only or list(OPERATIONS), options.kills, options.seed, options.seconds
    )
    text = json.dumps(summary, indent=1)
    if options.out:
        options.out.write_text(text + "\n")
    print(text)
    return 1 if summary["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
