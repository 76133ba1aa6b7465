"""Compare clustering methods on one data set: run, append, resume, rank.

    task = Task("digits", X, y, n_clusters=10)
    rows = rank(compare(task, method_names(), n_seeds=5, folder=Path("compare")))

Every method runs in a process of its own, so that its peak memory can be measured and a runaway
ended; every finished run is appended to `runs.jsonl` at once, so that an interrupted comparison
goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from tell.baselines import METHODS, names
from tell.compare.limited_process import RUN, Job, Limits, Run, supervise
from tell.exceptions import ParameterError
from tell.files import scratch_folder
from tell.metrics import has_class
from tell.schema import check

OWN_METHODS = ("tell", "deep-tell")
RUNS_FILE = "runs.jsonl"

Watch = Callable[[str, Run | None], None]


def method_names() -> list[str]:
    """Every method that can be compared: the fourteen of the paper, then this package's own.

    >>> method_names()[-2:]
    ['tell', 'deep-tell']
    """
    return [*names(), *OWN_METHODS]


def chosen_methods(text: str) -> list[str]:
    """Read a list of methods as a person writes it: `all`, `kmeans,lsc-k`, `all,-zac`.

    >>> chosen_methods("kmeans, tell")
    ['kmeans', 'tell']
    >>> "zac" in chosen_methods("all,-zac")
    False
    """
    chosen: list[str] = []
    for word in (word.strip() for word in text.split(",") if word.strip()):
        name = word.removeprefix("-")
        if name != "all" and name not in method_names():
            raise ParameterError(
                f"methods must be among all, {', '.join(method_names())}; got {name!r}"
            )
        if word == "all":
            chosen += [method for method in method_names() if method not in chosen]
        elif word.startswith("-"):
            chosen = [method for method in chosen if method != name]
        elif name not in chosen:
            chosen.append(name)
    if not chosen:
        raise ParameterError(f"methods must name at least one method, got {text!r}; try 'all'")
    return chosen


@dataclass(frozen=True)
class Task:
    """What is clustered.

    Attributes
    ----------
    name : str
    X : ndarray (n, d)
        The rows that all methods get: raw, or features.
    y : ndarray (n,) or None
        Known classes, for scores only.
    n_clusters : int
    shape : tuple of int
        Shape of one sample, for methods that see images.
    features : str
        Where X comes from: "raw", "ae" or a model folder.
    """

    name: str
    X: NDArray[np.float32]
    y: NDArray[Any] | None
    n_clusters: int
    shape: tuple[int, ...] = ()
    features: str = "raw"

    def fingerprint(self) -> str:
        """Stands for data, classes and number of clusters: equal tasks share their runs."""
        digest = hashlib.sha256(np.ascontiguousarray(self.X).tobytes())
        if self.y is not None:
            digest.update(np.unique(self.y, return_inverse=True)[1].astype(np.int64).tobytes())
            digest.update(has_class(self.y).tobytes())  # rows without one are not scored
        digest.update(json.dumps([self.n_clusters, self.features, self.X.shape]).encode())
        return digest.hexdigest()[:16]


def compare(
    task: Task,
    methods: Sequence[str],
    *,
    n_seeds: int,
    folder: Path,
    limits: Limits | None = None,
    sample: int | None = None,
    watch: Watch = lambda method, run: None,
) -> list[Run]:
    """Run each method with seeds 0 … n_seeds - 1, one after another.

    Parameters
    ----------
    task : Task
    methods : sequence of str
        Some of `method_names()`.
    n_seeds : int
    folder : Path
        Gets `runs.jsonl` and `labels/`; runs that are already there are not repeated.
    limits : Limits
        Seconds and gigabytes that one run may take.
    sample : int, optional
        Rows that methods with n² memory really cluster; see `tell.baselines`.
    watch : callable (method, run or None)
        Called with None when a method starts and with every run as it ends.

    Returns
    -------
    list of Run
    """
    limits = limits or Limits()
    (folder / "labels").mkdir(parents=True, exist_ok=True)
    record = folder / RUNS_FILE
    fingerprint = task.fingerprint()
    known = {
        (run.method, run.seed): run
        for run in _recorded(record)
        if run.fingerprint == fingerprint
        and run.sample == _sample_of(run.method, sample)
        and (run.status == "done" or run.limits == asdict(limits))
    }
    runs: list[Run] = []
    with scratch_folder("tell-compare-") as scratch:
        job = Job.prepare(scratch, task.X, task.y, task.n_clusters, task.shape, limits)
        for method in methods:
            watch(method, None)
            own = job.of(method, _sample_of(method, sample), fingerprint, folder / "labels")
            for run in _with_known(own, range(n_seeds), known, record):
                runs.append(run)
                watch(method, run)
    return runs


def _with_known(
    job: Job, seeds: Sequence[int], known: dict[tuple[str, int], Run], record: Path
) -> Iterator[Run]:
    """Runs of one method: those on record, then the missing ones, unless it failed before."""
    done = [known[job.method, seed] for seed in seeds if (job.method, seed) in known]
    yield from done
    missing = [seed for seed in seeds if (job.method, seed) not in known]
    if not missing or any(run.status != "done" for run in done):
        return
    for run in supervise(job, missing):
        _append(record, run)
        yield run


def _append(record: Path, run: Run) -> None:
    with record.open("a+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        cut = file.read(1) not in (b"", b"\n")  # an interruption left half a line
        file.write((b"\n" if cut else b"") + json.dumps(asdict(run)).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _recorded(record: Path) -> Iterator[Run]:
    lines = record.read_bytes().splitlines() if record.exists() else []
    for line in lines:
        # Not a run: the line that an interruption cut short, or damage.
        with suppress(ValueError, RecursionError):
            content = json.loads(line)
            check(content, RUN, str(record))
            yield Run(**content)


def _sample_of(method: str, sample: int | None) -> int | None:
    return sample if method in METHODS and METHODS[method].limited else None


@dataclass(frozen=True)
class Row:
    """One method in the ranked table; each measure is (mean, standard deviation) over the seeds."""

    rank: int | None
    method: str
    status: str
    reason: str
    n_runs: int
    measures: dict[str, tuple[float, float]] = field(default_factory=dict)
    stability: float | None = None
    note: str = ""


def rank(runs: Iterable[Run], labels_folder: Path | None = None) -> list[Row]:
    """Summarise runs by method, best first: by ACC where classes are known, else by silhouette.

    `labels_folder` is the comparison's `labels/`, from which the stability between seeds is
    computed: the mean adjusted Rand index of all pairs of runs.
    """
    by_method: dict[str, list[Run]] = {}
    for run in runs:
        by_method.setdefault(run.method, []).append(run)
    rows = [_summary(method, group, labels_folder) for method, group in by_method.items()]
    done = sorted((row for row in rows if row.measures), key=_quality, reverse=True)
    ranked = [Row(**{**vars(row), "rank": place}) for place, row in enumerate(done, start=1)]
    return ranked + [row for row in rows if not row.measures]


def quality_measure(rows: Iterable[Row]) -> str:
    """The measure that the ranking goes by: "acc", or "silhouette" without known classes.

    >>> quality_measure([])
    'silhouette'
    """
    return "acc" if any("acc" in row.measures for row in rows) else "silhouette"


def _quality(row: Row) -> float:
    missing = (-np.inf, 0.0)  # a single cluster has no silhouette
    return row.measures.get("acc", row.measures.get("silhouette", missing))[0]


def _summary(method: str, runs: list[Run], labels_folder: Path | None) -> Row:
    done = [run for run in runs if run.status == "done"]
    failed = next((run for run in runs if run.status != "done"), None)
    values: dict[str, list[float]] = {}
    for run in done:
        for name, value in run.measures.items():
            values.setdefault(name, []).append(value)
    return Row(
        rank=None,
        method=method,
        status=failed.status if failed else "done",
        reason=failed.reason if failed else "",
        n_runs=len(done),
        measures={name: (float(np.mean(v)), float(np.std(v))) for name, v in values.items()},
        stability=_stability(done, labels_folder),
        note=next((run.note for run in done if run.note), ""),
    )


def _stability(runs: list[Run], labels_folder: Path | None) -> float | None:
    if labels_folder is None or len(runs) < 2:
        return None
    try:
        labels = [np.load(labels_folder / run.labels_file) for run in runs]
    except (OSError, ValueError, EOFError):
        return None  # removed or damaged since
    if len({len(found) for found in labels}) != 1:
        return None
    return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))
