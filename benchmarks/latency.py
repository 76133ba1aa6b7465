"""How long one waits: for the cluster of one row, for the package, for the command.

Each is measured in processes of its own, in turns with its peer, on an idle machine; it takes about
a minute.

    python benchmarks/latency.py --rounds 9
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from recording import record

FEATURES, CLUSTERS, ROWS = 64, 20, 1000
ASK = """
import time, numpy as np
X = np.random.default_rng(0).standard_normal((4096, {features})).astype(np.float32)
{model}
times = []
for row in X[:3000]:
    began = time.perf_counter()
    model.predict(row[None])
    times.append(time.perf_counter() - began)
print(np.quantile(times[500:], [0.5, 0.99]).tolist())
"""
MODELS = {
    "TELL": "from tell import TELL; model = TELL({k}, random_state=0).fit(X)",
    "KMeans": (
        "from sklearn.cluster import KMeans; model = KMeans({k}, n_init=1, random_state=0).fit(X)"
    ),
}


def ask(who: str) -> dict[str, float]:
    """Return the microseconds of `predict` for one row: median and 99th percentile."""
    code = ASK.format(features=FEATURES, model=MODELS[who].format(k=CLUSTERS))
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    p50, p99 = (1e6 * float(part) for part in out.stdout.strip("[]\n").split(","))
    return {"p50": p50, "p99": p99}


def seconds(*command: str) -> float:
    """Return how long a process of its own takes."""
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def imports(module: str) -> float:
    """Return the seconds of a statement in a new interpreter."""
    return seconds(sys.executable, "-c", module)


def prepared(folder: Path) -> tuple[str, ...]:
    """Write a file of rows and a model; return the command that labels the rows."""
    rows = np.random.default_rng(0).standard_normal((ROWS, FEATURES))
    names = ",".join(f"c{i}" for i in range(FEATURES))
    np.savetxt(folder / "rows.csv", rows, "%.5f", ",", header=names, comments="")
    tell = (sys.executable, "-c", "from tell.cli.main import main; main()")
    where, table = str(folder / "model"), str(folder / "rows.csv")
    seconds(*tell, "fit", table, "--clusters", str(CLUSTERS), "--out", where)
    return (*tell, "predict", where, table)


def spread(values: list[float]) -> dict[str, Any]:
    """Return the median and the quartiles."""
    return {
        "median": statistics.median(values),
        "quartiles": np.quantile(values, [0.25, 0.75]).tolist(),
    }


def main() -> None:
    """Measure in turns, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    began = time.perf_counter()
    names = {
        "import torch": "import torch",
        "import torch, sklearn.base": "import torch, sklearn.base",
        "import tell": "import tell",
        "from tell import TELL": "from tell import TELL",
    }
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        command = prepared(Path(folder))
        for _ in range(rounds):
            for who in MODELS:
                for name, value in ask(who).items():
                    found.setdefault(f"{who}.predict, {name}", []).append(value)
            for name, statement in names.items():
                found.setdefault(name, []).append(imports(statement))
            found.setdefault("tell predict", []).append(seconds(*command))
    results = {name: spread(values) for name, values in found.items()}
    for name, one in results.items():
        print(f"{name:24} {one['median']:10.3f}")
    settings = {
        "features": FEATURES,
        "clusters": CLUSTERS,
        "rows": ROWS,
        "rounds": rounds,
        "load": round(os.getloadavg()[0], 1),
    }
    record("latency", settings, results, began=began)


if __name__ == "__main__":
    main()
