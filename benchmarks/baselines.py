"""The comparison methods on raw pixels: `python benchmarks/baselines.py`.

    python benchmarks/baselines.py                                                  # digits
    python benchmarks/baselines.py mnist --methods kmeans,lsc-r,lsc-k,tell --seeds 1

Writes benchmarks/results/baselines_DATA.json and, from these, docs/baselines.md.
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
from tell.compare.limited_process import Limits
from tell.compare.ranking import Row, Task, chosen_methods, compare, rank
from tell.compare.ranking_page import headings, note_of, table_lines
from tell.data.sources import open_source

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "baselines.md"
PACKAGES = ("tell-clustering", "torch", "numpy", "scipy", "scikit-learn")


def main() -> None:
    """Run what is missing, then write the table and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", default="digits", choices=["digits", "mnist"])
    parser.add_argument("--methods", default="all", help="as in tell compare")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="default: compare-DATA")
    parser.add_argument("--time-limit", type=float, default=1800.0)
    options = parser.parse_args()
    folder = options.folder or Path(f"compare-{options.data}")
    source = open_source(options.data)
    rows = source.read()
    task = Task(options.data, rows.X, rows.y, 10, source.shape)
    limits = Limits(options.time_limit, gigabytes=8.0, threads=1)
    started = time.perf_counter()
    runs = compare(
        task,
        chosen_methods(options.methods),
        n_seeds=options.seeds,
        folder=folder,
        limits=limits,
        watch=lambda method, run: print(method, run.status if run else "starts", flush=True),
    )
    result = {
        "command": f"python benchmarks/baselines.py {options.data} --methods {options.methods} "
        f"--seeds {options.seeds}",
        "data": f"{options.data}: {len(rows.X):,} rows, {rows.X.shape[1]} features, 10 classes",
        "seeds": list(range(options.seeds)),
        "threads": 1,
        "versions": {name: version(name) for name in PACKAGES} | {"python": sys.version.split()[0]},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {platform.system()}",
        "wall_clock_seconds": round(time.perf_counter() - started, 1),
        "rows": [vars(row) for row in rank(runs, folder / "labels")],
    }
    (RESULTS / f"baselines_{options.data}.json").write_text(json.dumps(result, indent=1) + "\n")
    write_page()


def write_page() -> None:
    """Turn the results into docs/baselines.md."""
    text = (ROOT / "benchmarks" / "baselines_page.md").read_text()
    for data in ("digits", "mnist"):
        file = RESULTS / f"baselines_{data}.json"
        section = "\n".join(section_of(json.loads(file.read_text()))) if file.exists() else ""
        text = text.replace(f"{{{data}}}", section)
    PAGE.write_text(text)


def section_of(result: dict) -> list[str]:
    """Return what was clustered, the table, and how to repeat it."""
    rows = [Row(**row) for row in result["rows"]]
    sources = {name: method.source for name, method in METHODS.items()}
    columns = [*headings(rows), "source"]
    lines = [
        f"{result['data']}; {len(result['seeds'])} seed(s).",
        "",
        "| " + " | ".join(columns) + " |",
        "| ---: | --- |" + " ---: |" * (len(columns) - 3) + " --- |",
    ]
    for row, line in zip(rows, table_lines(rows), strict=True):
        lines.append("| " + " | ".join([*line, sources.get(row.method, "this package")]) + " |")
    lines += [f"- {row.method}: {note_of(row)}" for row in rows if note_of(row)]
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    return [*lines, "", f"`{result['command']}`; {versions}; {result['machine']}."]


if __name__ == "__main__":
    main()
