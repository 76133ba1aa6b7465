"""The process that runs one method: `python -m tell.compare.method_worker JOB`.

Writes one JSON message per line to standard output: a start and a run for every seed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import calinski_harabasz_score, silhouette_score

from tell.baselines import METHODS, make
from tell.compare.limited_process import Job, Limits, Run, peak_megabytes
from tell.files import whole_file
from tell.metrics import evaluate

SILHOUETTE_ROWS = 2000


def build(job: Job, seed: int) -> Any:
    """Build the job's method; the limits go to the methods that have them.

    >>> limits = Limits(seconds=60, gigabytes=1)
    >>> build(Job("", None, 3, (), limits, method="lrr", sample=50), 0).sample
    50
    """
    if job.method in METHODS:
        given = {"sample": job.sample, "memory_limit": job.limits.gigabytes}
        limited = METHODS[job.method].limited
        return make(job.method, job.n_clusters, random_state=seed, **(given if limited else {}))
    from tell.estimators import TELL, DeepTELL

    own = {"tell": TELL, "deep-tell": DeepTELL}
    return own[job.method](job.n_clusters, random_state=seed)


def internal_measures(X: NDArray[Any], labels: NDArray[Any]) -> dict[str, float]:
    """Silhouette on a sample and Calinski–Harabasz; nothing where they are not defined.

    >>> X = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> sorted(internal_measures(X, np.array([0, 0, 1, 1])))
    ['calinski_harabasz', 'silhouette']
    >>> internal_measures(X, np.zeros(4))
    {}
    """
    chosen = np.random.default_rng(0).permutation(len(X))[:SILHOUETTE_ROWS]
    measures = {}
    if 1 < len(np.unique(labels)) < len(X):
        measures["calinski_harabasz"] = float(calinski_harabasz_score(X, labels))
    if 1 < len(np.unique(labels[chosen])) < len(chosen):
        measures["silhouette"] = float(silhouette_score(X[chosen], labels[chosen]))
    return measures


def run_seed(job: Job, X: NDArray[Any], y: NDArray[Any] | None, seed: int) -> Run:
    """Fit once and measure; whatever the method raises becomes the reason of a failed run."""
    images = job.method == "deep-tell" and len(job.shape) > 1
    rows = X.reshape(-1, *job.shape) if images else X
    try:
        model = build(job, seed)  # imports what the method needs: not its time
        started = time.perf_counter()
        labels = np.asarray(model.fit_predict(rows), dtype=np.int64)
    except Exception as error:  # any failure of a method is a result of the comparison
        reason = " ".join(str(error).split()) or type(error).__name__
        return job.run(seed, "failed", reason=reason)
    seconds, peak = time.perf_counter() - started, peak_megabytes()
    scores = {}
    if y is not None and (known := y >= 0).any():
        scores = evaluate(y[known], labels[known]).as_dict()
    measures = {**scores, **internal_measures(X, labels), "seconds": seconds, "peak_mb": peak}
    file = f"{job.fingerprint}-{job.method}-{seed}.npy"
    with whole_file(Path(job.labels_folder) / file) as out:
        np.save(out, labels)
    return job.run(seed, "done", measures=measures, note=_note(model), labels_file=file)


def _note(model: Any) -> str:
    extended = getattr(model, "extended_", None)
    if extended is None or not extended.any():
        return ""
    return (
        f"clustered a sample of {int((~extended).sum())} rows; {int(extended.sum())} rows "
        "took the label of the nearest sampled row"
    )


def end_with_parent(scratch: Path) -> None:
    """End this process when the one that started it is gone, with the data copied for it.

    Limits are the parent's to enforce: without it nobody would stop a long run.
    """

    def wait() -> None:
        sys.stdin.buffer.read()  # until the other end is closed, if only by its death
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(job_file: str) -> None:
    """Run every seed of the job."""
    end_with_parent(Path(job_file).parent)
    content = json.loads(Path(job_file).read_text())
    seeds, limits = content.pop("seeds"), Limits(**content.pop("limits"))
    job = Job(**content, limits=limits)
    X = np.load(job.rows)
    y = np.load(job.classes) if job.classes else None
    warnings.simplefilter("ignore")
    for seed in seeds:
        _say({"event": "start", "seed": seed})
        run = run_seed(job, X, y, seed)
        _say(asdict(run))
        if run.status != "done":
            return


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
