"""Peak memory of `DeepTELL` on what memory does not hold: a Parquet file, a folder of images.

Every case is fitted in a process of its own; its peak is that of the whole process, program
included. Times are not measured: training is cut by `max_time`, reading and labelling are complete.

    python benchmarks/deep_large.py --rows 5000000 --images 200000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from recording import record

FEATURES, CLUSTERS, SIDE = 64, 10, 32
GROUP_ROWS = 1 << 17
START = {"graph_rows": 5000, "layout_epochs": 20, "distil_steps": 30, "epochs": 1}
FOLDER_FILES = 1000  # images in a sub-folder


def write_table(path: Path, rows: int) -> None:
    """Write noisy rows around random centres, one row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    centers = random.normal(0, 3, (CLUSTERS, FEATURES)).astype(np.float32)
    names = [f"x{column}" for column in range(FEATURES)]
    schema = pa.schema([(name, pa.float32()) for name in names])
    with pq.ParquetWriter(path, schema, use_dictionary=False) as file:
        for first in range(0, rows, GROUP_ROWS):
            count = min(GROUP_ROWS, rows - first)
            X = centers[random.integers(0, CLUSTERS, count)]
            X = X + random.standard_normal((count, FEATURES), dtype=np.float32)
            file.write_table(pa.table(list(X.T), schema=schema))


def write_images(folder: Path, count: int) -> None:
    """Write colour images: a disc of one of several hues and places on noise."""
    from PIL import Image

    random = np.random.default_rng(0)
    colours = random.integers(64, 256, (CLUSTERS, 3))
    down, right = np.mgrid[:SIDE, :SIDE]
    for number in range(count):
        if number % FOLDER_FILES == 0:
            part = folder / f"{number // FOLDER_FILES:04d}"
            part.mkdir(parents=True, exist_ok=True)
        kind = int(random.integers(CLUSTERS))
        middle = 8 + random.integers(0, 16, 2)
        disc = np.hypot(down - middle[0], right - middle[1]) < 4 + kind % 3
        pixels = random.integers(0, 48, (SIDE, SIDE, 3))
        pixels[disc] = colours[kind]
        Image.fromarray(pixels.astype(np.uint8)).save(part / f"{number:07d}.png", compress_level=1)


def fit(path: str, max_time: float, memory: str) -> dict[str, Any]:
    """Fit in this process and return what it took."""
    from tell import DeepTELL
    from tell.core.loop import Hook, Loop
    from tell.core.objective import Losses
    from tell.estimators import GraphStart

    class RowsSeen(Hook):
        """Counts the rows that each stage was trained on."""

        def __init__(self) -> None:
            self.rows: dict[str, int] = {}

        def on_step_end(self, loop: Loop, losses: Losses) -> None:
            rows = len(losses.terms["clustering"])
            self.rows[loop.name] = self.rows.get(loop.name, 0) + rows

    seen = RowsSeen()
    warnings.simplefilter("ignore")  # max_time is meant to end training
    model = DeepTELL(
        CLUSTERS,
        start=GraphStart(**START),
        epochs=1,
        max_time=max_time,
        memory=memory,
        hooks=[seen],
        random_state=0,
    ).fit(path)
    status = Path("/proc/self/status").read_text()
    return {
        "peak_gb": round(int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9, 3),
        "labelled": len(model.labels_),
        "clusters": len(np.unique(model.labels_)),
        "epochs": [line["stage"] for line in model.history_],
        "trained": seen.rows,
    }


def apart(path: Path, max_time: float, memory: str) -> dict[str, Any]:
    """Fit in another process."""
    command = [sys.executable, __file__, "--fit", str(path), "--memory", memory]
    command += ["--max-time", str(max_time)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Write what is not there, fit, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--max-time", type=float, default=60.0)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--fit", help="what to fit in this process: for the script's own use")
    options = parser.parse_args()
    if options.fit:
        print(json.dumps(fit(options.fit, options.max_time, options.memory)))
        return
    began = time.perf_counter()
    table = options.folder / f"tell-deep-{options.rows}.parquet"
    images = options.folder / f"tell-deep-images-{options.images}"
    if not table.exists():
        write_table(table, options.rows)
    if not images.exists():
        write_images(images, options.images)
    results = {
        "parquet": {
            "rows": options.rows,
            "data_gb": round(options.rows * FEATURES * 4 / 1e9, 3),
            **apart(table, options.max_time, options.memory),
        },
        "images": {
            "rows": options.images,
            "data_gb": round(options.images * 3 * SIDE * SIDE * 4 / 1e9, 3),
            **apart(images, options.max_time, options.memory),
        },
    }
    print(json.dumps(results, indent=1))
    settings = {"features": FEATURES, "image": [3, SIDE, SIDE], "clusters": CLUSTERS}
    settings |= {"memory": options.memory, "max_time": options.max_time, "start": START}
    record("deep_large", settings, results, began=began)


if __name__ == "__main__":
    main()
