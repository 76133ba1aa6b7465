"""Count the files that rows pass: five things a user does, and the modules whose code runs.

    python docs/journeys.py            the table of docs/architecture.md
    python docs/journeys.py --files    with the names of the files

A file counts if one of its functions is called on the way; importing it does not count.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "src" / "tell"


def passed(journey: Callable[[], object]) -> list[str]:
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


def command(*words: str) -> Callable[[], None]:
    """Return a journey that runs the command in this process, silently."""

    def run() -> None:
        from tell.cli.main import main

        sys.argv = ["tell", *words]
        quiet = io.TextIOWrapper(io.BytesIO())
        with contextlib.redirect_stdout(quiet), contextlib.suppress(SystemExit):
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


def main() -> None:
    """Print the table."""
    warnings.simplefilter("ignore")
    with_files = "--files" in sys.argv  # commands bring an argv of their own
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, files in journeys().items():
            print(f"| {name} | {len(files)} |")
            if with_files:
                print("  " + "\n  ".join(files))


if __name__ == "__main__":
    main()
