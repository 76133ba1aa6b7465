"""Passes over all rows of a large Parquet file: one process against workers on Ray.

Measures what a pass costs (reading, arithmetic, Ray itself, bytes), a worker's peak memory, the
loss against scikit-learn's Lloyd from the same start, and k-means‖ for 10,000 clusters against
k-means++ on the same rows. `python benchmarks/summary.py` then writes the tables of docs/scale.md,
and what fits of 1e9 and 1e11 rows would take by these constants, with the arithmetic.

dask-ml asks for other versions of our packages: it is measured if --dask names the Python of an
environment of its own (`pip install dask-ml "dask[dataframe]" pyarrow`). Spark MLlib was left out:
PySpark has no wheel, and needs a Java machine.

    python benchmarks/scale.py --rows 20000000 --dask dask-environment/bin/python
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from large_file import CLUSTERS, FEATURES, write_file
from recording import RESULTS, record
from tell.core.assignment import DenseRows, assign
from tell.core.oversampling import OVERSAMPLING, choose_seeds, first_centers
from tell.core.passes import descend
from tell.core.seeding import seed_centers
from tell.core.sums import Extent
from tell.data.sources import open_source
from tell.scale.ray_workers import RayWorkers, start
from tell.scale.shards import Shard, Task
from tell.scale.workers import InProcess, Workers, sums

LLOYD_ROWS = 1_000_000  # that scikit-learn holds in memory for the comparison of losses
PINGS = 50
SEEDS, SEEDED_ROWS = 10_000, 500_000  # clusters, and the rows that they are drawn from
SAMPLE = 8 * SEEDS  # rows, as few as memory="1GiB" leaves of a wide table


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


def seeding(path: Path) -> dict[str, Any]:
    """Mean losses of seeds by k-means‖ and by k-means++, and after three steps from each."""
    x = torch.from_numpy(open_source(path).read(SEEDED_ROWS).X.copy())
    extent = Extent(len(x), x.double().square().mean(dim=0))
    shards = InProcess([Shard(open_source(x.numpy()))])

    def task(centers: torch.Tensor) -> Task:
        return Task(centers, "euclidean", extent, np.asarray)

    def oversampled() -> torch.Tensor:
        first = first_centers(x[:SAMPLE], SEEDS // 8, "euclidean", 0)
        (drawn,) = shards.each("draw", task(first), OVERSAMPLING * SEEDS, 0)
        candidates = torch.cat([first, drawn.x])
        weights = sums(shards, task(candidates)).totals.counts
        return choose_seeds(candidates, weights, SEEDS, "euclidean", 0)

    def plus_plus() -> torch.Tensor:
        generator = torch.Generator().manual_seed(0)
        return seed_centers(DenseRows(x), SEEDS, "k-means++", "euclidean", generator)

    found: dict[str, Any] = {"clusters": SEEDS, "rows": len(x), "sample": SAMPLE}
    for name, seeds in (("k-means‖", oversampled), ("k-means++", plus_plus)):
        began = time.perf_counter()
        centers = seeds()
        took = time.perf_counter() - began
        settled = descend(
            lambda at: sums(shards, task(at)), centers, "euclidean", tol=0, max_steps=3
        )
        seeded = assign(DenseRows(x), centers, "euclidean").distances
        found[name] = {
            "seconds": took,
            "seeds": float(seeded.double().mean()),
            "after_3_steps": settled.sums.loss,
        }
    return found


def by_dask(python: str | None, path: Path, task: Task) -> dict[str, Any]:
    """A pass of dask-ml from the same centres, in two threads."""
    if python is None:
        return {"left_out": "no environment was named with --dask"}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "start.npy", task.centers.numpy())
        script = str(Path(__file__).with_name("dask_passes.py"))
        command = [python, script, str(path), str(Path(folder) / "start.npy"), "2"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return {"left_out": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(
    path: Path, rows: int, rounds: int, dask: str | None, only: list[str] | None
) -> dict[str, Any]:
    """Run all measurements, or `only` these, one after another; others stay as recorded."""
    task = first_task(path, rows)
    start(2)
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "one_process": lambda: passes(
            InProcess([Shard(open_source(path), threads=1)]), task, rounds
        ),
        "one_worker": lambda: on_ray(path, task, 1, 0, rounds),
        "two_workers": lambda: on_ray(path, task, 2, 0, rounds),
        "two_workers_cached": lambda: on_ray(path, task, 2, rows * FEATURES * 4, rounds),
        "dask-ml": lambda: by_dask(dask, path, task),
        "losses": lambda: against_lloyd(path),
        "seeding": lambda: seeding(path),
    }
    recorded = RESULTS / "scale.json"
    found = json.loads(recorded.read_text())["results"] if only and recorded.exists() else {}
    for name, part in parts.items():
        if only and name not in only:
            continue
        found[name] = part()
        print(name, json.dumps(found[name]), flush=True)
    return found


def main() -> None:
    """Write the file if it is not there, measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--only", action="append", help="measure this part again, such as seeding")
    parser.add_argument("--dask", metavar="PYTHON", help="of an environment with dask-ml")
    options = parser.parse_args()
    began = time.perf_counter()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"tell-large-{options.rows}.parquet"
    if not path.exists():
        write_file(path, options.rows)
    results = measure(path, options.rows, options.rounds, options.dask, options.only)
    settings = {"rows": options.rows, "features": FEATURES, "clusters": CLUSTERS}
    record("scale", {**settings, "rounds": options.rounds}, results, began=began)


if __name__ == "__main__":
    main()
