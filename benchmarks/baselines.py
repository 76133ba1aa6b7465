"""All comparison methods on digits: `python benchmarks/baselines.py`.

Writes benchmarks/results/baselines_digits.json and, from it, docs/baselines.md.
Runs are kept in --folder, so an interrupted benchmark goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

from tell.baselines import METHODS
from tell.data.sources import open_source
from tell.experiments.compare import Row, Task, chosen_methods, compare, rank
from tell.experiments.compare_page import headings, note_of, table_lines
from tell.experiments.compare_process import Limits

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "baselines_digits.json"
PAGE = ROOT / "docs" / "baselines.md"
PACKAGES = ("tell-clustering", "torch", "numpy", "scipy", "scikit-learn")


def main() -> None:
    """Run what is missing, then write the table and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--methods", default="all", help="as in tell compare")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("compare-digits"))
    parser.add_argument("--time-limit", type=float, default=1800.0)
    options = parser.parse_args()
    source = open_source("digits")
    rows = source.read()
    task = Task("digits", rows.X, rows.y, 10, source.shape)
    limits = Limits(options.time_limit, gigabytes=8.0, threads=1)
    started = time.perf_counter()
    runs = compare(
        task,
        chosen_methods(options.methods),
        n_seeds=options.seeds,
        folder=options.folder,
        limits=limits,
        watch=lambda method, run: print(method, run.status if run else "starts", flush=True),
    )
    result = {
        "command": f"python benchmarks/baselines.py --methods {options.methods} "
        f"--seeds {options.seeds}",
        "data": "digits: 1,797 rows, 64 features in [0, 1], 10 classes",
        "seeds": list(range(options.seeds)),
        "threads": 1,
        "versions": {name: version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "wall_clock_seconds": round(time.perf_counter() - started, 1),
        "rows": [vars(row) for row in rank(runs, options.folder / "labels")],
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    write_page(result)


def write_page(result: dict) -> None:
    """Turn the results into docs/baselines.md."""
    rows = [Row(**row) for row in result["rows"]]
    sources = {name: method.source for name, method in METHODS.items()}
    columns = [*headings(rows), "source"]
    lines = [
        "| " + " | ".join(columns) + " |",
        "| ---: | --- |" + " ---: |" * (len(columns) - 3) + " --- |",
    ]
    for row, line in zip(rows, table_lines(rows), strict=True):
        lines.append("| " + " | ".join([*line, sources.get(row.method, "this package")]) + " |")
    notes = [f"- {row.method}: {note_of(row)}" for row in rows if note_of(row)]
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    text = (ROOT / "benchmarks" / "baselines_page.md").read_text()
    PAGE.write_text(
        text.replace("{table}", "\n".join([*lines, *notes]))
        .replace("{command}", result["command"])
        .replace("{data}", result["data"])
        .replace("{seeds}", str(len(result["seeds"])))
        .replace("{machine}", result["machine"])
        .replace("{versions}", versions)
    )


if __name__ == "__main__":
    main()
