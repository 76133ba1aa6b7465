"""A Parquet file larger than we want in memory: peak memory, and time against the bare arithmetic.

The file is written once into --folder. Each measurement runs in a process of its own, so that its
peak resident memory is its own; rounds are interleaved and the median is reported.

    python benchmarks/large_file.py --rows 20000000
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from recording import record

FEATURES = 32
CLUSTERS = 20
ROW_GROUP = 1 << 18


def write_file(path: Path, rows: int) -> None:
    """Write planted clusters, row group by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    centers = random.standard_normal((CLUSTERS, FEATURES), dtype=np.float32)
    names = [f"x{number}" for number in range(FEATURES)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    part = path.with_suffix(".part")
    with pq.ParquetWriter(part, schema, compression="NONE", use_dictionary=False) as writer:
        for begin in range(0, rows, ROW_GROUP):
            count = min(ROW_GROUP, rows - begin)
            X = centers[random.integers(CLUSTERS, size=count)]
            X += 0.5 * random.standard_normal(X.shape, dtype=np.float32)
            writer.write_table(pa.table(dict(zip(names, X.T, strict=True)), schema=schema))
    part.replace(path)


def bare(path: Path) -> dict[str, float]:
    """Scan with pyarrow alone, multiply by the centres and take the largest: one pass."""
    import pyarrow.parquet as pq

    weight = np.random.default_rng(0).standard_normal((FEATURES, CLUSTERS), dtype=np.float32)
    began = time.perf_counter()
    for batch in pq.ParquetFile(path).iter_batches(batch_size=65536):
        X = np.column_stack([column.to_numpy() for column in batch.columns])
        (X @ weight).argmax(axis=1)
    return {"pass": time.perf_counter() - began}


def tell(path: Path) -> dict[str, float]:
    """Fit (two passes: sample, assign) and predict (one pass)."""
    from tell import TELL

    began = time.perf_counter()
    model = TELL(CLUSTERS, random_state=0).fit(path)
    fitted = time.perf_counter()
    labels = model.predict(path)
    done = time.perf_counter()
    if not np.array_equal(labels, model.labels_):
        raise SystemExit("fit and predict disagree on the labels")
    return {"fit": fitted - began, "pass": done - fitted, "loss": float(model.loss_)}


def peak_memory() -> float:
    """Return the peak resident memory of this process in GiB (Linux).

    Not `ru_maxrss`, which a process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


MEASURED = {"bare": bare, "tell": tell}


def measure(what: str, path: Path) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", what, "--folder", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def compare(path: Path, rounds: int) -> dict[str, Any]:
    """Interleave the measurements and return their medians."""
    runs: dict[str, list[dict[str, float]]] = {what: [] for what in MEASURED}
    for _ in range(rounds):
        for what in MEASURED:
            runs[what].append(measure(what, path))
    medians = {
        what: {key: statistics.median(run[key] for run in found) for key in found[0]}
        for what, found in runs.items()
    }
    ratios = [b["pass"] / a["pass"] for a, b in zip(runs["bare"], runs["tell"], strict=True)]
    fits = [b["fit"] / 2 / a["pass"] for a, b in zip(runs["bare"], runs["tell"], strict=True)]
    return {
        **medians,
        "predict_to_bare": statistics.median(ratios),
        "fit_per_pass_to_bare": statistics.median(fits),
    }


def main() -> None:
    """Write the file if it is not there, measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--measure", choices=MEASURED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        found = MEASURED[options.measure](options.folder)
        print(json.dumps({**found, "peak_gib": peak_memory()}))
        return
    began = time.perf_counter()
    options.folder.mkdir(parents=True, exist_ok=True)
    path = options.folder / f"tell-large-{options.rows}.parquet"
    if not path.exists():
        write_file(path, options.rows)
    results = compare(path, options.rounds)
    print(json.dumps(results, indent=1))
    settings = {"rows": options.rows, "features": FEATURES, "clusters": CLUSTERS}
    record("large_file", {**settings, "rounds": options.rounds}, results, began=began)


if __name__ == "__main__":
    main()
