"""How good `DeepTELL` is: one JSON line per seed, appended to a results file.

    python benchmarks/deep_quality.py mnist --seeds 0 1 2 3 4
    python benchmarks/deep_quality.py mnist --augment affine --seeds 0
    python benchmarks/deep_quality.py cifar10 --augment crop,flip,jitter --precision bfloat16
    python benchmarks/deep_quality.py wine --views adversarial   # one kind of view, not the default
    python benchmarks/deep_quality.py mnist-thinned   # ten times as many of digit 0 as of digit 9

Seeds that are in the file already are skipped, so an interrupted command can be repeated. Labels
serve for the report alone; `chosen` marks the run with the smallest clustering loss.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.datasets import load_breast_cancer, load_wine

import tell
from tell import evaluate
from tell.core.loop import Hook, Loop, Record
from tell.core.precision import PRECISIONS
from tell.data.datasets import load
from tell.estimators import DeepTELL, TellRecipe, Views
from tell.estimators.deep.recipes.starts import STARTS
from tell.metrics import accuracy

RESULTS = Path(__file__).parent / "results"
TABLES = {"wine": load_wine, "breast-cancer": load_breast_cancer}
THINNED = "-thinned"
VIEWS = {
    "none": None,
    "neighbours": Views(),
    "adversarial": Views(neighbours=0, adversarial=True),
    "adversarial-neighbours": Views(adversarial=True),
}


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table (n, d), or a named data set as images (n, c, h, w), and its labels."""
    if name in TABLES:
        return TABLES[name](return_X_y=True)
    data = load(name.removesuffix(THINNED))
    pixels = np.asarray(data.X, dtype=np.float32) / data.scale
    X, y = pixels.reshape(-1, *data.shape), np.asarray(data.y)
    kept = thinned(y) if name.endswith(THINNED) else slice(None)
    return X[kept], y[kept]


def thinned(y: np.ndarray) -> np.ndarray:
    """Return rows of which each class has fewer than the one before: 10 : 1 from first to last.

    >>> np.bincount(np.repeat([0, 1, 2], 100)[thinned(np.repeat([0, 1, 2], 100))]).tolist()
    [100, 32, 10]
    """
    draw = np.random.default_rng(0)
    classes, counts = np.unique(y, return_counts=True)
    sizes = (counts.min() * np.geomspace(1, 0.1, len(classes))).round().astype(int)
    rows = [
        draw.permutation(np.flatnonzero(y == label))[:size]
        for label, size in zip(classes, sizes, strict=True)
    ]
    return np.sort(np.concatenate(rows))


class Accuracy(Hook):
    """Write the accuracy of the labels that an epoch saw into its line of the history."""

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def on_epoch_end(self, loop: Loop, record: Record) -> None:
        """Score the rows that the epoch has seen."""
        seen = (loop.labels >= 0).numpy()
        if seen.any():
            record["acc"] = accuracy(self.y[seen], loop.labels.numpy()[seen])


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Fit once and report everything a reader needs to repeat it."""
    X, y = rows_of(name)
    views = options.views
    model = DeepTELL(
        len(np.unique(y)),
        encoder=options.encoder,
        recipe=options.recipe if views is None else TellRecipe(views=VIEWS[views]),
        start=options.start,
        augment=options.augment,
        epochs=options.epochs,
        n_init=1,
        compiled=options.compiled,
        precision=options.precision,
        random_state=seed,
        hooks=[Accuracy(y)],
        checkpoint=options.out.with_suffix("") / f"seed-{seed}",
        verbose=1,
    )
    started = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - started
    return {
        "data": name,
        "rows": len(X),
        "seed": seed,
        "recipe": repr(model._recipe()),
        "encoder": options.encoder,
        "augment": options.augment,
        "precision": options.precision,
        "scores": evaluate(y, model.labels_).as_dict(),
        "loss": model.loss_,
        "table_loss": model.table_loss_,
        "cluster_sizes": model.cluster_sizes_.tolist(),
        "epochs": model.n_iter_,
        "seconds": seconds,
        "history": model.history_ if views is None else stage_ends(model.history_),
        "command": " ".join(["python", "benchmarks/deep_quality.py", *sys.argv[1:]]),
        "machine": {
            "processor": platform.machine(),
            "system": platform.system(),
            "threads": torch.get_num_threads(),
        },
        "versions": {
            "python": platform.python_version(),
            "tell": tell.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }


def stage_ends(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the last line of every stage: where small tables take hundreds of epochs."""
    return list({line["stage"]: line for line in history}.values())


def read(file: Path) -> list[dict[str, Any]]:
    """Return the runs that are there already."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]


def summarise(runs: list[dict[str, Any]]) -> str:
    """Return a table of all runs, the one with the smallest clustering loss marked."""
    best = min(runs, key=lambda entry: entry["loss"])
    lines = ["seed    ACC    NMI    ARI      loss  seconds"]
    for entry in runs:
        scores = [100 * entry["scores"][name] for name in ("acc", "nmi", "ari")]
        mark = "  chosen" if entry is best else ""
        numbers = " ".join(f"{score:6.2f}" for score in scores)
        lines.append(
            f"{entry['seed']:4d} {numbers} {entry['loss']:9.5f} {entry['seconds']:8.0f}{mark}"
        )
    median = np.median([100 * entry["scores"]["acc"] for entry in runs])
    return "\n".join([*lines, f"median ACC {median:.2f}"])


def main() -> None:
    """Parse, run the missing seeds, print the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", help="digits, mnist, fashion-mnist, ..., wine, breast-cancer")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--recipe", default="tell", choices=["tell", "distil", "paper"])
    parser.add_argument("--start", default=None, choices=list(STARTS))
    parser.add_argument("--encoder", default="auto")
    parser.add_argument("--augment", default=None, help="as DeepTELL takes it, e.g. crop,flip")
    parser.add_argument("--views", default=None, choices=list(VIEWS), help="instead of the default")
    parser.add_argument("--epochs", type=int, default=None)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--precision", default="float32", choices=PRECISIONS)
    parser.add_argument("--out", type=Path, default=None, help="results file (JSON lines)")
    options = parser.parse_args()
    if options.out is None:
        start = None if options.start is None else options.start.replace("+", "")
        augment = None if options.augment is None else options.augment.replace(",", "-")
        parts = ["deep", options.data, options.recipe, start, options.encoder, augment]
        if options.views is not None:  # a question of their own, not a line in the table of all
            parts = ["views", options.data, options.views]
        options.out = RESULTS / ("-".join(part for part in parts if part) + ".jsonl")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        if seed in {entry["seed"] for entry in read(options.out)}:
            continue
        entry = run(options.data, seed, options)
        with options.out.open("a") as file:
            file.write(json.dumps(entry) + "\n")
    print(summarise(read(options.out)))


if __name__ == "__main__":
    main()
