"""Count what rows pass: five things a user does, the files whose code runs, and copies of the rows.

    python docs/journeys.py            the table of docs/architecture.md
    python docs/journeys.py --files    with the names of the files
    python docs/journeys.py --copies   with the copies of the rows that are in memory at a time

A file counts if one of its functions is called on the way; importing it does not count. Copies are
measured (Linux only): what the process holds at most for twice as many rows, less what it holds for
so many, over the size of these rows as numbers; labels and whatever is computed for each row count
too. The array that a user holds already does not; images are left out, whose training takes most.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "src" / "tell"
FEW, MANY, COLUMNS = 150, 100_000, 64  # rows and columns of a table

Journey = Callable[[], object]


def passed(journey: Journey) -> list[str]:
    """Run a journey and name the files of which a function was called, without `__init__`."""
    files: set[str] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        code, caller = frame.f_code, frame.f_back
        # Class bodies and decorators run while a module is being imported.
        importing = code.co_name == "<module>" or (
            caller is not None and caller.f_code.co_name == "<module>"
        )
        if event == "call" and not importing:
            files.add(code.co_filename)

    sys.setprofile(look)
    threading.setprofile(look)
    try:
        journey()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    ours = (Path(file) for file in files if file.startswith(str(ROOT)))
    return sorted(str(file.relative_to(ROOT)) for file in ours if file.name != "__init__.py")


def command(*words: str) -> Journey:
    """Return a journey that runs the command in this process, silently."""

    def run() -> None:
        from tell.cli.main import main

        sys.argv = ["tell", *words]
        quiet = io.TextIOWrapper(io.BytesIO())
        with (
            contextlib.redirect_stdout(quiet),
            contextlib.redirect_stderr(io.StringIO()),
            contextlib.suppress(SystemExit),
        ):
            main()

    return run


def journeys() -> dict[str, list[str]]:
    """Return the files that each of the five journeys passes, in a folder of its own."""
    from PIL import Image
    from sklearn.datasets import load_digits, load_iris

    from tell import TELL

    X = load_iris().data
    np.savetxt("rows.csv", X, delimiter=",", header="a,b,c,d", comments="", fmt="%.2f")
    Path("images").mkdir()
    for number, image in enumerate(load_digits().images[:60]):
        Image.fromarray((image * 15).astype("uint8")).save(f"images/{number:03}.png")
    return {
        "array: `TELL(3).fit(X)`": passed(lambda: TELL(3, random_state=0).fit(X)),
        "file: `tell fit rows.csv`": passed(command("fit", "rows.csv", "-k", "3", "-o", "m")),
        "images: `tell fit images --deep`": passed(
            command("fit", "images", "-k", "3", "--deep", "-o", "deep")
        ),
        "stream: `tell update model rows.csv`": passed(command("update", "m", "rows.csv")),
        "report: `tell explain model rows.csv`": passed(
            command("explain", "m", "rows.csv", "--map", "pca", "-o", "report.html")
        ),
    }


def rows_of(n: int) -> np.ndarray:
    """Rows of three groups; they take n × COLUMNS float64."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(n, COLUMNS)) + 4 * random.integers(0, 3, size=(n, 1))
    return rows.round(3)


def write_table(name: str, n: int) -> str:
    """Write a CSV file and return its name."""
    import pyarrow as pa
    from pyarrow import csv

    columns = {f"c{i}": column for i, column in enumerate(rows_of(n).T)}
    csv.write_csv(pa.table(columns), name)
    return name


def large(name: str, times: int) -> tuple[Journey, Journey]:
    """Return a journey with few rows, and one with `times` as many as MANY."""
    from tell import TELL

    if name == "array":
        small, big = rows_of(FEW), rows_of(times * MANY)
        return lambda: TELL(3).fit(small), lambda: TELL(3).fit(big)
    files = write_table("few.csv", FEW), write_table("many.csv", times * MANY)
    fit = [command("fit", data, "-k", "3", "-o", f"{data}-model") for data in files]
    if name == "file":
        return fit[0], fit[1]
    fit[0]()
    words = ("update",) if name == "stream" else ("explain", "--map", "pca", "-o", "report.html")
    few, many = (command(*words, "few.csv-model", data) for data in files)
    return few, many


def held(field: str) -> int:
    """Read from the system how many bytes this process holds, or has held at most."""
    text = Path("/proc/self/status").read_text()
    return int(next(line for line in text.splitlines() if line.startswith(field)).split()[1]) << 10


def measure(name: str, times: int) -> None:
    """Print how many bytes a journey takes beyond one with few rows; in a process of its own."""
    few, many = large(name, times)
    few()
    before = held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark so far
    many()
    print(held("VmHWM") - before)


def copies(name: str) -> float:
    """Return the memory that as many rows again take, in sizes of these rows."""
    taken = []
    for times in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            run = [sys.executable, str(Path(__file__).resolve()), "--measure", name, str(times)]
            done = subprocess.run(run, cwd=folder, capture_output=True, text=True, check=True)
        taken.append(int(done.stdout.split()[-1]))
    return (taken[1] - taken[0]) / (MANY * COLUMNS * 8)


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    with_files, with_copies = "--files" in sys.argv, "--copies" in sys.argv
    if "--measure" in sys.argv:
        measure(sys.argv[-2], int(sys.argv[-1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, files in journeys().items():  # commands bring an argv of their own
            kind = name.partition(":")[0]
            # What a training takes of memory is not its rows.
            amount = f" {copies(kind):.1f} |" if with_copies and kind != "images" else ""
            print(f"| {name} | {len(files)} |{amount}")
            if with_files:
                print("  " + "\n  ".join(files))


if __name__ == "__main__":
    main()
