"""Passes over all rows of a large Parquet file: one process against workers on Ray.

Measures what a pass costs (reading, arithmetic, Ray itself, bytes), a worker's peak memory, and the
loss against scikit-learn's Lloyd from the same start. With --model it prints what fits of 1e9 and
1e11 rows would take by these constants, with the arithmetic.

    python benchmarks/scale.py --rows 20000000
    python benchmarks/scale.py --model
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from large_file import CLUSTERS, FEATURES, write_file
from recording import RESULTS, record
from tell.core.passes import descend
from tell.core.sums import Extent
from tell.data.sources import open_source
from tell.scale.ray_workers import RayWorkers, start
from tell.scale.shards import Shard, Task
from tell.scale.workers import InProcess, Workers, sums

LLOYD_ROWS = 1_000_000  # that scikit-learn holds in memory for the comparison of losses
PINGS = 50


def first_task(path: Path, rows: int) -> Task:
    """Centres and extent from the first rows."""
    X = open_source(path).read(100_000).X
    squares = torch.from_numpy(np.square(X, dtype=np.float64).mean(axis=0))
    centers = torch.from_numpy(X[:CLUSTERS].copy())
    return Task(centers, "euclidean", Extent(rows, 4 * squares), np.asarray)


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def passes(workers: Workers, task: Task, rounds: int) -> dict[str, float]:
    """Time passes; the first one, which fills caches, is apart."""
    first = seconds(lambda: sums(workers, task))
    before = workers.bytes_moved
    found = [seconds(lambda: sums(workers, task)) for _ in range(rounds)]
    return {
        "first": first,
        "pass": statistics.median(found),
        "rows_per_second": task.extent.rows / statistics.median(found),
        "bytes": (workers.bytes_moved - before) / rounds,
    }


def peak_gib(pid: int) -> float:
    """Peak resident memory of a process in GiB (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def on_ray(path: Path, task: Task, count: int, cache: int, rounds: int) -> dict[str, float]:
    """Time passes by so many workers, an empty call to all of them, and their memory."""
    import ray

    rows = int(task.extent.rows)
    workers = RayWorkers(open_source(path), rows, count, cache)
    try:
        found = passes(workers, task, rounds)
        pids = ray.get([actor.pid.remote() for actor in workers.actors])
        pings = [
            seconds(lambda: ray.get([actor.pid.remote() for actor in workers.actors]))
            for _ in range(PINGS)
        ]
        return {
            **found,
            "call": statistics.median(pings),
            "peak_gib": max(map(peak_gib, pids)),
        }
    finally:
        workers.close()


def against_lloyd(path: Path) -> dict[str, float]:
    """Mean losses of our passes and of scikit-learn's Lloyd from the same start, on some rows."""
    from sklearn.cluster import KMeans

    X = open_source(path).read(LLOYD_ROWS).X.astype(np.float64)
    start_at = X[:CLUSTERS].copy()
    squares = torch.from_numpy(np.square(X).mean(axis=0))
    shards = InProcess([Shard(open_source(X))])
    found = descend(
        lambda centers: sums(
            shards, Task(centers, "euclidean", Extent(len(X), squares), np.asarray)
        ),
        torch.from_numpy(start_at),
        "euclidean",
        tol=0,
        max_steps=300,
    )
    lloyd = KMeans(CLUSTERS, init=start_at, n_init=1, tol=0, max_iter=300).fit(X)
    theirs = float(lloyd.inertia_) / len(X)
    ours = found.sums.loss
    return {"tell": ours, "scikit-learn": theirs, "relative": abs(ours - theirs) / theirs}


def measure(path: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Run all measurements one after another."""
    task = first_task(path, rows)
    start(2)
    return {
        "one_process": passes(InProcess([Shard(open_source(path), threads=1)]), task, rounds),
        "one_worker": on_ray(path, task, 1, 0, rounds),
        "two_workers": on_ray(path, task, 2, 0, rounds),
        "two_workers_cached": on_ray(path, task, 2, rows * FEATURES * 4, rounds),
        "losses": against_lloyd(path),
        "others": {
            name: "installed" if importlib.util.find_spec(module) else "not installed here"
            for name, module in (("dask-ml", "dask_ml"), ("Spark MLlib", "pyspark"))
        },
    }


def model() -> str:
    """What a pass would take, from the measured constants: the arithmetic of docs/scale.md."""
    content = json.loads((RESULTS / "scale.json").read_text())
    results, settings = content["results"], content["settings"]
    rows, two = settings["rows"], results["two_workers"]
    per_row = 2 * two["pass"] / rows  # worker-seconds that a row of this width takes, read included
    cached = 2 * results["two_workers_cached"]["pass"] / rows
    traffic = two["bytes"] / 2
    lines = [
        f"a row of {settings['features']} columns, {settings['clusters']} clusters: "
        f"{per_row * 1e9:.0f} ns read and summed, {cached * 1e9:.0f} ns from memory",
        f"a worker moves {traffic / 1e3:.1f} kB per pass; a call to all takes "
        f"{two['call'] * 1e3:.1f} ms",
    ]
    for count, workers in ((1e9, 8), (1e9, 64), (1e11, 64), (1e11, 1024)):
        work = count * per_row / workers
        lines.append(
            f"{count:.0e} rows on {workers} workers: {count:.0e} × {per_row * 1e9:.0f} ns / "
            f"{workers} = {work:,.0f} s per pass, and {workers} × {traffic / 1e3:.1f} kB = "
            f"{workers * traffic / 1e6:.1f} MB moved"
        )
    return "\n".join(lines)


def main() -> None:
    """Write the file if it is not there, measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--model", action="store_true", help="print the model of the cost")
    options = parser.parse_args()
    if options.model:
        print(model())
        return
    began = time.perf_counter()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"tell-large-{options.rows}.parquet"
    if not path.exists():
        write_file(path, options.rows)
    results = measure(path, options.rows, options.rounds)
    print(json.dumps(results, indent=1))
    settings = {"rows": options.rows, "features": FEATURES, "clusters": CLUSTERS}
    record("scale", {**settings, "rounds": options.rounds}, results, began=began)


if __name__ == "__main__":
    main()
