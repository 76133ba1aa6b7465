"""Run the command as people do: a process of its own, in a folder of its own.

Loading torch takes seconds, so the processes are forked from one that has loaded it; what must be
true of a cold start is tested with `cold_tell`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sklearn.datasets import load_iris

PROGRAM = str(Path(sys.executable).with_name("tell"))


class Run(NamedTuple):
    code: int
    out: str
    err: str

    def failed(self, code: int = 2) -> str:
        """Check the rule for every failure, and give its one line back."""
        assert self.code == code, (self.code, self.err)
        assert "Traceback" not in self.err + self.out
        lines = self.err.strip().splitlines()
        # What was decided about a table's columns may stand above it.
        complaints = [line for line in lines if line.startswith("tell: ")]
        assert complaints == lines[-1:], lines
        return lines[-1]

    def worked(self) -> str:
        assert self.code == 0, self.err
        assert "Traceback" not in self.err
        return self.out


def environment() -> dict[str, str]:
    """80 columns, no colours, and nothing that this test run happens to have set."""
    return {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TELL_DEBUG": "", "TERM": "dumb"}


# Reads requests (JSON lines), forks, lets the child be the command, answers with the exit code.
SERVER = """
import json, os, sys
import sklearn.cluster, pyarrow.csv, pyarrow.parquet, tell.estimators, tell.metrics
from tell.cli.main import main
for request in map(json.loads, sys.stdin.buffer):
    child = os.fork()
    if not child:
        for number, (name, flags) in enumerate(request["files"]):
            os.dup2(os.open(name, flags), number)
        os.chdir(request["cwd"])
        sys.argv = ["tell", *request["args"]]
        code = main()
        sys.stdout.flush()
        os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(1, f"{code}\\n".encode())
"""


@pytest.fixture(scope="session")
def server() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    yield process
    process.communicate(timeout=30)


@pytest.fixture
def tell(
    server: subprocess.Popen[bytes], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Run]:
    streams = tmp_path_factory.mktemp("streams")

    def run(*args: object, stdin: str = "") -> Run:
        (streams / "in").write_text(stdin)
        write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        files = [("in", os.O_RDONLY), ("out", write), ("err", write)]
        request = {
            "args": list(map(str, args)),
            "cwd": str(tmp_path),
            "files": [(str(streams / name), flags) for name, flags in files],
        }
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        code = int(server.stdout.readline())
        return Run(code, (streams / "out").read_text(), (streams / "err").read_text())

    return run


@pytest.fixture
def cold_tell(tmp_path: Path) -> Callable[..., Run]:
    def run(*args: object, stdin: str = "") -> Run:
        done = subprocess.run(
            [PROGRAM, *map(str, args)],
            cwd=tmp_path,
            input=stdin.encode(),
            capture_output=True,
            timeout=120,
            env=environment(),
            check=False,
        )
        return Run(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def iris_csv(path: Path, *, order: list[int] | None = None, rows: slice = slice(None)) -> Path:
    """Write the iris flowers with the columns in the given order; 4 is the species."""
    data = load_iris()
    names = ["sepal length", "sepal width", "petal length", "petal width", "species"]
    order = [0, 1, 2, 3, 4] if order is None else order
    lines = [",".join(names[place] for place in order)]
    for x, y in list(zip(data.data.tolist(), data.target.tolist(), strict=True))[rows]:
        cells = [*map(str, x), str(data.target_names[y])]
        lines.append(",".join(cells[place] for place in order))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def _flower_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the iris flowers, fitted by the command once for the whole session."""
    folder = tmp_path_factory.mktemp("flowers")
    command = [PROGRAM, "fit", "iris.csv", "-k", "3", "--label", "species", "--standardize"]
    iris_csv(folder / "iris.csv")
    subprocess.run(
        [*command, "--geometry", "euclidean"],
        check=True,
        cwd=folder,
        capture_output=True,
        timeout=120,
        env=environment(),
    )
    return folder / "model"


@pytest.fixture
def flower_model(_flower_model: Path, tmp_path: Path) -> Path:
    """A copy of that model which the test may change."""
    return Path(shutil.copytree(_flower_model, tmp_path / "model"))


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, to see that nothing changed."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
