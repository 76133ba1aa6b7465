"""What a run gave: kept at once, read only if its settings are still the same."""

from __future__ import annotations

import io
import os
import platform
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from tell.files import write_whole
from tell.reproduce.result_lines import add_lines, read_lines
from tell.reproduce.spec import Run

PACKAGES = ("tell-clustering", "torch", "numpy", "scikit-learn", "scipy")


@dataclass(frozen=True)
class Result:
    """What a run gave.

    Attributes
    ----------
    status : {"done", "failed", "unavailable"}
        "unavailable": data or features that are not here; tried again the next time.
    reason : why it is not done
    scores : the seven measures, between 0 and 1
    loss : what the smallest of chooses among seeds: TELL's clustering loss, VaDE's negative bound
    table_loss : TELL's, in the normalisation of tables S1 and S2
    seconds : wall-clock of the fit
    runs : every restart
    history : one line per epoch
    note : what a reader of the numbers must know
    facts : rows, command, versions, machine, time
    """

    status: str
    reason: str = ""
    scores: dict[str, float] = field(default_factory=dict)
    loss: float | None = None
    table_loss: float | None = None
    seconds: float = 0.0
    runs: list[dict[str, Any]] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def value(self, metric: str) -> float:
        """A measure in percent, or the loss as tables S1 and S2 print it."""
        if metric == "table_loss":
            return float("nan") if self.table_loss is None else self.table_loss
        return 100 * self.scores[metric]


def results_file(folder: Path, run: Run) -> Path:
    """Where the results of all runs on a run's data set lie."""
    return folder / run.scale.name / f"{run.data}.jsonl"


def run_file(folder: Path, run: Run, ending: str) -> Path:
    """Where a run keeps what is its own: snapshots, the state of an interrupted training."""
    return folder / f"{run.place}{ending}"


def write_result(folder: Path, run: Run, result: Result) -> None:
    """Keep a result with everything that identifies the run."""
    content = {
        "run": {
            "data": run.data,
            "method": vars(run.method),
            "seed": run.seed,
            "scale": vars(run.scale),
        },
        "fingerprint": run.fingerprint,
        **vars(result),
    }
    add_lines(results_file(folder, run), [content])


def read_result(folder: Path, run: Run) -> Result | None:
    """Read a run's result; None if there is none, it is damaged or the settings have changed."""
    known = read_lines(results_file(folder, run))
    content = known.get((run.method.name, run.seed, run.fingerprint))
    if content is None:
        return None
    try:
        result = Result(**{name: content[name] for name in Result.__dataclass_fields__})
        whole = "acc" in result.scores and {"machine", "versions"} <= set(result.facts)
    except (KeyError, TypeError):  # damaged, or of another version
        return None
    return result if whole or result.status != "done" else None


def finished(folder: Path, runs: Iterable[Run]) -> list[Result]:
    """The results among these runs that carry numbers."""
    found = (read_result(folder, run) for run in runs)
    return [result for result in found if result is not None and result.status == "done"]


def chosen(results: list[Result]) -> Result | None:
    """The run with the smallest loss, if all have one that tells better runs from worse."""
    if not results or any(result.loss is None for result in results):
        return None
    return min(results, key=lambda result: result.loss or 0.0)


def reported(results: list[Result], metric: str) -> float:
    """What a table shows for several seeds: the chosen run's, as the paper does, or the median."""
    if (best := chosen(results)) is not None:
        return best.value(metric)
    return median(result.value(metric) for result in results)


def environment() -> dict[str, Any]:
    """What a number depends on beside its settings."""
    import torch

    return {
        "command": " ".join(["tell", *sys.argv[1:]]),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}},
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
    }


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read an .npz file; empty if there is none or it is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            return dict(content)
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error):
        return {}


def write_arrays(path: Path, **arrays: NDArray[Any]) -> None:
    """Write an .npz file whole or not at all."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_whole(path, buffer.getvalue())
