"""How time and memory of a fit grow with rows, columns and clusters, beside the machine's limit.

A pass gives every row its centre. It cannot be faster than its products (2 n d k operations) at the
rate of a large matrix product, nor than reading its rows once at the speed of memory: both are
measured here too. Run it on an idle machine: about five minutes.

    python benchmarks/scaling.py
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from recording import record
from shallow import Case, planted

BASE = {"n": 100_000, "d": 32, "k": 32}
SERIES = {
    "n": (10_000, 30_000, 100_000, 300_000, 1_000_000),
    "d": (8, 32, 128, 512),
    "k": (8, 32, 128, 512),
}
UNITS = {"n": "rows", "d": "columns", "k": "clusters"}
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "scaling.svg"


def best(call: Callable[[], object], rounds: int) -> float:
    """Return the shortest of several times, after one that warms up."""
    call()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def limits(rounds: int) -> dict[str, float]:
    """Return the machine's rate of products (operations/s) and of reading (bytes/s)."""
    import torch

    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    out, long = torch.empty(2048, 2048), torch.randn(1 << 27)
    return {
        "operations_per_second": 2 * 2048**3 / best(lambda: torch.mm(a, b, out=out), rounds),
        "bytes_per_second": 4 * len(long) / best(long.sum, rounds),
    }


def peak_bytes() -> int:
    """Return the most memory that this process had; `ru_maxrss` would know its parent's too."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0


def measure(file: str, k: int, rounds: int) -> dict[str, float]:
    """Return seconds of a pass and of a fit, and the memory of the fit beside its rows.

    In a process of its own that reads its rows from a file: making them would take more memory.
    """
    import torch

    from tell import TELL
    from tell.core.assignment import DenseRows, assign

    X = np.load(file)
    TELL(k, n_init=1, random_state=0).fit(X[: max(4096, 2 * k)])
    before = peak_bytes()
    times, model = [], None
    for seed in range(rounds):
        began = time.perf_counter()
        model = TELL(k, n_init=1, random_state=seed).fit(X)
        times.append(time.perf_counter() - began)
    peak = peak_bytes()
    rows = DenseRows(torch.from_numpy(X))
    centers = torch.from_numpy(model.cluster_centers_)
    return {
        "fit": statistics.median(times),
        "pass": best(lambda: assign(rows, centers, "sphere"), rounds),
        "bytes_per_row": (peak - before) / len(X),
    }


def limit(shape: dict[str, int], machine: dict[str, float]) -> float:
    """Return the least seconds of a pass: products at full rate, or rows read once."""
    n, d, k = shape["n"], shape["d"], shape["k"]
    products = 2 * n * d * k / machine["operations_per_second"]
    return max(products, 4 * n * d / machine["bytes_per_second"])


def exponent(sizes: list[int], times: list[float]) -> float:
    """Return p of time ≈ c · size^p, by least squares of the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def apart(shape: dict[str, int], rounds: int) -> dict[str, float]:
    """Return what `measure` says in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, planted(Case(shape["n"], shape["d"], shape["k"]), "sphere"))
        call = [sys.executable, __file__, "--measure", file.name, str(shape["k"]), str(rounds)]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def sweep(machine: dict[str, float], rounds: int) -> dict[str, Any]:
    """Return one curve for each of rows, columns and clusters."""
    curves: dict[str, Any] = {}
    for name, sizes in SERIES.items():
        points = []
        for size in sizes:
            shape = BASE | {name: size}
            points.append({**shape, **apart(shape, rounds), "limit": limit(shape, machine)})
            print(points[-1], flush=True)
        curves[name] = {
            "points": points,
            "exponents": {
                what: exponent(list(sizes), [point[what] for point in points])
                for what in ("fit", "pass")
            },
        }
    return curves


def draw(curves: dict[str, Any], file: Path) -> None:
    """Draw time against size, one panel for each of rows, columns and clusters."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "scaling"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
    for axis, (name, curve) in zip(axes, curves.items(), strict=True):
        sizes = [point[name] for point in curve["points"]]
        for what, style in (("fit", "o-"), ("pass", "s-"), ("limit", "k:")):
            power = curve["exponents"].get(what)
            label = f"{what} ∝ {name}^{power:.2f}" if power else "limit of a pass"
            axis.loglog(sizes, [point[what] for point in curve["points"]], style, label=label)
        fixed = ", ".join(f"{key} = {size:,}" for key, size in BASE.items() if key != name)
        axis.set(xlabel=UNITS[name], title=fixed)
        axis.legend(frameon=False, fontsize=8)
    axes[0].set_ylabel("seconds")
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        file, clusters, rounds = options.measure
        print(json.dumps(measure(file, int(clusters), int(rounds))))
        return
    began = time.perf_counter()
    machine = limits(options.rounds)
    curves = sweep(machine, options.rounds)
    draw(curves, FIGURE)
    results = {"machine": machine, "curves": curves}
    record("scaling", {"rounds": options.rounds, "base": BASE}, results, began=began)


if __name__ == "__main__":
    main()
